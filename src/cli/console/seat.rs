//! Whose console this is: the client with the caller's rights, and what is known beside it.

use std::{collections::BTreeSet, sync::Arc};

use kube::Client;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use super::surveys::Surveys;
use crate::{act::as_caller::AsCaller, cli::operator::Installed};

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
    /// What was seen in the last seconds; one look at a time.
    pub surveys: Mutex<Surveys>,
    /// Places for streams.
    pub streams: Arc<Semaphore>,
    /// When the console ends, and streams with it.
    pub ended: CancellationToken,
}

impl Seat {
    /// `--namespaces` says here what the caller wants to see, as `-n` does for commands.
    pub(super) fn new(
        (client, writes): (Client, AsCaller),
        mut installed: Installed,
        cluster: String,
    ) -> Self {
        let named = std::mem::take(&mut installed.namespaces);
        Self {
            client,
            writes,
            installed,
            named,
            cluster,
            surveys: Mutex::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            ended: CancellationToken::new(),
        }
    }
}
