//! A seat: the clients with one caller's rights, and the console's state for this caller.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError},
};

use copyrator_cli::installed::Installed;
use kube::Client;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    site::Site,
    surveys::{Room, Surveys},
};
use crate::as_caller::{AsCaller, CallerClients};

/// How many requests of one caller are answered at once; a further request gets 429.
pub(super) const AT_ONCE: usize = 16;
/// How many event streams of one caller may be open at once.
pub(super) const STREAMS: usize = 4;

/// The clients and state of one caller.
pub(super) struct Seat {
    /// Reads with the caller's rights, and cannot write.
    pub client: Client,
    /// Writes templates with the caller's rights, and nothing else.
    pub writes: AsCaller,
    pub installed: Installed,
    /// The namespaces of `--namespaces`; empty: all namespaces that the caller may see.
    pub named: BTreeSet<Arc<str>>,
    /// The cluster in words, for every page.
    pub cluster: String,
    /// The address of the console, and how callers authenticate.
    pub site: Site,
    /// Permits for requests, shared by all seats of one holder.
    pub places: Arc<Semaphore>,
    /// Limits for surveys, shared by all callers.
    pub room: Room,
    /// Lock for one survey at a time, shared by all seats of one holder.
    pub turn: Arc<Mutex<()>>,
    /// The cached surveys.
    pub surveys: StdMutex<Surveys>,
    /// Permits for open streams of events, one each.
    pub streams: Arc<Semaphore>,
    /// Cancelled when the console or the seat ends; this also ends the seat's streams.
    pub ended: CancellationToken,
}

impl Seat {
    /// A seat with these clients, on a console without a base path.
    pub(super) fn new(clients: CallerClients, installed: Installed, cluster: String) -> Self {
        Self {
            client: clients.reads,
            writes: clients.writes,
            installed,
            named: BTreeSet::new(),
            cluster,
            site: Site::of_run(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            room: Room::new(1),
            turn: Arc::default(),
            surveys: StdMutex::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            ended: CancellationToken::new(),
        }
    }

    /// A seat for a run on the caller's machine, where `--namespaces` names the namespaces to show, as `-n`
    /// does for commands.
    pub(super) fn of_run(clients: CallerClients, mut installed: Installed, cluster: String) -> Self {
        let named = std::mem::take(&mut installed.namespaces);
        Self { named, ..Self::new(clients, installed, cluster) }
    }

    /// Locks the cached surveys.
    pub(super) fn seen_lately(&self) -> StdMutexGuard<'_, Surveys> {
        self.surveys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
