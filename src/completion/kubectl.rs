//! `kubectl_complete-copyrator`: kubectl runs this program with the words after `kubectl copyrator`, of which
//! the last may be empty. The program prints one proposal per line, and a directive as the last line.

use std::{ffi::OsString, time::Duration};

use clap::{Args as _, Command, FromArgMatches as _};
use clap_complete::engine::complete;
use copyrator_cli::{
    arguments::{ClusterArgs, connect},
    terminal::{Exit, Threads, block_on, print},
};
use copyrator_cluster::connect::Target;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::ListParams};

use super::words::{asks_for_namespace, value_of};

/// How long to wait for the cluster: a user who presses the tab key waits no longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of proposed names: a longer list is of no use.
const NAMES: u32 = 500;

/// The directive for kubectl: propose the printed words and no files.
const ONLY_THESE: u8 = 4;
const FILES: u8 = 0;

/// Proposes the last of these words, which follow the program's name; `program` describes the program's
/// command line.
pub(crate) fn through_kubectl(program: Command, words: Vec<OsString>) -> Exit {
    let proposals = if asks_for_namespace(&words) { namespaces(&words) } else { of_command(program, &words) };
    let directive = if proposals.is_empty() { FILES } else { ONLY_THESE };
    let lines: String = proposals.iter().map(|one| format!("{one}\n")).collect();
    print(&format!("{lines}:{directive}\n"))
}

/// Proposes commands, flags and their values.
fn of_command(mut program: Command, words: &[OsString]) -> Vec<String> {
    let line: Vec<OsString> = std::iter::once("copyrator".into()).chain(words.iter().cloned()).collect();
    let last = line.len() - 1;
    let found = complete(&mut program, line, last, None).unwrap_or_default();
    let shown = found.into_iter().filter(|candidate| !candidate.is_hide_set());
    let line = |candidate: clap_complete::CompletionCandidate| {
        let value = candidate.get_value().to_string_lossy().into_owned();
        match candidate.get_help() {
            // The help is cut to one line, because kubectl shows the text after the tab beside the proposal.
            Some(help) => format!("{value}\t{}", help.to_string().lines().next().unwrap_or_default()),
            None => value,
        }
    };
    shown.map(line).collect()
}

/// The namespaces that begin like the last word; none if the user may not list them.
fn namespaces(words: &[OsString]) -> Vec<String> {
    let begun = words.last().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(target) = target(words) else { return Vec::new() };
    let target = Target { request_timeout: Some(PATIENCE), ..target };
    let mut names = Vec::new();
    block_on(Threads::One, async {
        if let Ok(client) = connect(&target).await {
            let all = Api::<Namespace>::all(client);
            if let Ok(listed) = all.list_metadata(&ListParams::default().limit(NAMES)).await {
                names.extend(listed.items.iter().map(ResourceExt::name_any));
            }
        }
        Exit::Done
    });
    names.retain(|name| name.starts_with(&begun));
    names
}

/// The cluster that the words so far name; `None` for words that cannot be parsed.
fn target(words: &[OsString]) -> Option<Target> {
    let command = ClusterArgs::augment_args(Command::new("copyrator").no_binary_name(true));
    let said: Vec<String> = command
        .get_arguments()
        .filter_map(|flag| {
            let long = format!("--{}", flag.get_long()?);
            let is_given = words.iter().any(|word| *word == *long);
            // The word after a flag that needs no value is not the flag's value.
            let takes_none = flag.get_num_args().is_some_and(|range| range.min_values() == 0);
            if takes_none {
                is_given.then_some(long)
            } else {
                Some(format!("{long}={}", value_of(words, &long)?))
            }
        })
        .collect();
    let found = command.try_get_matches_from(said).ok()?;
    ClusterArgs::from_arg_matches(&found).ok()?.check().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_is_the_one_that_the_words_name() {
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        let found = target(&words("plan --context prod --server=https://a:1 --insecure-skip-tls-verify -n "))
            .unwrap();
        assert_eq!(found.context.as_deref(), Some("prod"));
        assert_eq!(found.server.map(|server| server.to_string()).as_deref(), Some("https://a:1/"));
        assert!(found.trust.is_blind);
        assert!(target(&words("plan --server nonsense -n ")).is_none());
    }
}
