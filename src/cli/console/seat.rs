//! Whose console this is: the client with the caller's rights, and what is known beside it.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError},
};

use kube::Client;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    site::Site,
    surveys::{Room, Surveys},
};
use crate::{act::as_caller::AsCaller, cli::operator::Installed};

/// How many requests of one caller are answered at once; one more is told to come again.
pub(super) const AT_ONCE: usize = 16;
/// How many streams of events there may be at once.
pub(super) const STREAMS: usize = 4;

/// What every answer is made from.
pub(super) struct Seat {
    /// Reads with the caller's rights, and cannot write.
    pub client: Client,
    /// Writes templates with the caller's rights, and nothing else.
    pub writes: AsCaller,
    pub installed: Installed,
    /// The namespaces that the caller has named; empty: all that may be seen.
    pub named: BTreeSet<Arc<str>>,
    /// The cluster in words, for every page.
    pub cluster: String,
    /// Where the console is found.
    pub site: Site,
    /// Places for requests; seats of one holder have the same.
    pub places: Arc<Semaphore>,
    /// Room for surveys, of all callers together.
    pub room: Room,
    /// One look at a time.
    pub turn: Arc<Mutex<()>>,
    /// What was seen in the last while.
    pub surveys: StdMutex<Surveys>,
    /// Permits for open streams of events, one each.
    pub streams: Arc<Semaphore>,
    /// When the console or the seat ends, and streams with it.
    pub ended: CancellationToken,
}

impl Seat {
    /// A seat with these clients, at the top of its console's address.
    pub(super) fn new((client, writes): (Client, AsCaller), installed: Installed, cluster: String) -> Self {
        Self {
            client,
            writes,
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

    /// The same for a run on the caller's machine: `--namespaces` says there what the caller wants to see, as `-n` does for
    /// commands.
    pub(super) fn of_run(clients: (Client, AsCaller), mut installed: Installed, cluster: String) -> Self {
        let named = std::mem::take(&mut installed.namespaces);
        Self { named, ..Self::new(clients, installed, cluster) }
    }

    /// What was seen in the last while.
    pub(super) fn seen_lately(&self) -> StdMutexGuard<'_, Surveys> {
        self.surveys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
