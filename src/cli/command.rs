//! How a command runs that asks a cluster: its words are checked, the cluster is asked, the answer is printed.

use kube::Client;

use super::{
    arguments::{ClusterArgs, UsageError, connect},
    terminal::{Exit, Threads, block_on, fail, print},
};

/// Runs a command on the cluster that its words name. `words` checks the other words; `command` looks and prints, or has said
/// what it stumbled over.
pub(super) fn run<W>(
    cluster: &ClusterArgs,
    words: impl FnOnce() -> Result<W, UsageError>,
    command: impl AsyncFnOnce(Client, W) -> Result<Exit, Exit>,
) -> Exit {
    let checked = cluster.clone().check().and_then(|target| Ok((target, words()?)));
    let (target, words) = match checked {
        Ok(checked) => checked,
        Err(error) => return fail(&error, Exit::Usage),
    };
    block_on(Threads::One, async {
        match connect(&target).await {
            Ok(client) => command(client, words).await.unwrap_or_else(|exit| exit),
            Err(error) => fail(&error, Exit::Unreachable),
        }
    })
}

/// Prints the answer, which has findings or not.
pub(super) fn answer(text: &str, has_findings: bool) -> Exit {
    match print(text) {
        Exit::Done if has_findings => Exit::Findings,
        exit => exit,
    }
}
