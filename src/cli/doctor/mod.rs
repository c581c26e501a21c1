//! `copyrator doctor`

mod certificates;
mod chart;
mod definitions;
mod examine;
mod facts;
mod finding;
mod foreign;
mod gather;
mod hooks;
mod install;
mod leader;
mod pods;
mod rights;
#[cfg(test)]
mod sound;
mod table;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::json;

use self::finding::Id;
use super::{ClusterArgs, Exit, Threads, block_on, connect, fail, note, print};
use crate::run::client::Target;

/// How the output looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people.
    #[default]
    Table,
    /// For machines.
    Json,
}

/// Say what is wrong with this install, on which object, and the command that fixes it; the worst first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  copyrator doctor\n  copyrator doctor -n copyrator-system -o json\n  \
    copyrator doctor --ignore foreign-fail-hook\n\n\
    It reads, asks, and sends a dry run of a rule to see whether calls reach the webhook; nothing is stored. What you may not \
    read is `unknown`, with the right that is missing. docs/operations.md explains every id.\n\
    Exit code 0: nothing found; 1: something found, or not known; 2: usage; 3: the cluster does not answer.")]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Where Copyrator is installed.
    #[arg(short, long, env = "COPYRATOR_NAMESPACE", default_value = "copyrator-system", value_name = "NS")]
    namespace: String,
    /// How the output looks.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// What you know of and accept.
    #[arg(long, value_enum, value_name = "ID", value_delimiter = ',', hide_possible_values = true)]
    ignore: Vec<Id>,
}

impl Args {
    pub(super) fn run(self) -> Exit {
        block_on(Threads::One, self.show())
    }

    async fn show(self) -> Exit {
        let client = match connect(&Target::from(self.cluster)).await {
            Ok(client) => client,
            Err(error) => return fail(&error, Exit::Unreachable),
        };
        let facts = match gather::gather(&client, &self.namespace, Timestamp::now()).await {
            Ok(facts) => facts,
            Err(error) => return fail(&*error, Exit::Unreachable),
        };
        let found = examine::examine(&facts, &self.ignore);
        let in_order = examine::in_order(&facts, &found, &self.ignore);
        if facts.server.as_ref().is_ok_and(|server| !server.stamps()) {
            note(
                "this API server does not stamp authors by itself (from Kubernetes 1.36 on it does): a hook does, and while \
                 no webhook answers, rules and monitors cannot be written",
            );
        }
        let text = match self.output {
            Output::Table => table::table(&found, in_order.len()),
            Output::Json => {
                let report = json!({
                    "version": env!("CARGO_PKG_VERSION"),
                    "namespace": self.namespace,
                    "server": facts.server.as_ref().map(ToString::to_string).ok(),
                    "findings": found,
                    "inOrder": in_order,
                    "ignored": self.ignore,
                });
                serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"
            }
        };
        match print(&text) {
            Exit::Done if !found.is_empty() => Exit::Findings,
            exit => exit,
        }
    }
}
