//! Runs a command that asks a cluster: checks its arguments, connects, and prints the answer.

use kube::Client;

use crate::{
    arguments::{ClusterArgs, UsageError, connect},
    terminal::{Exit, Threads, block_on, fail, print},
};

/// Runs a command on the cluster that its arguments name. `words` checks the other arguments; `command` reads
/// the cluster, prints the answer, and reports failures itself.
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

/// Prints the answer; the exit code says whether it has findings.
pub(super) fn answer(text: &str, has_findings: bool) -> Exit {
    match print(text) {
        Exit::Done if has_findings => Exit::Findings,
        exit => exit,
    }
}
