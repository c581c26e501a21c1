//! Whose console this is: the client with the caller's rights, and what is known beside it.

use std::{collections::BTreeSet, sync::Arc};

use kube::Client;
use tokio::sync::Mutex;

use super::surveys::Surveys;
use crate::cli::operator::Installed;

/// What every answer is made from.
pub(super) struct Seat {
    /// Reads with the caller's rights, and cannot write.
    pub client: Client,
    pub installed: Installed,
    /// The namespaces that the caller has named; empty: all that may be seen.
    pub named: BTreeSet<Arc<str>>,
    /// The cluster in words, for every page.
    pub cluster: String,
    /// What was seen in the last seconds; one look at a time.
    pub surveys: Mutex<Surveys>,
}

impl Seat {
    /// `--namespaces` says here what the caller wants to see, as `-n` does for commands.
    pub(super) fn new(client: Client, mut installed: Installed, cluster: String) -> Self {
        let named = std::mem::take(&mut installed.namespaces);
        Self { client, installed, named, cluster, surveys: Mutex::default() }
    }
}
