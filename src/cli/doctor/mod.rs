//! `copyrator doctor`

mod certificates;
mod chart;
mod definitions;
mod examine;
mod facts;
mod finding;
mod foreign;
mod gather;
mod held;
mod hooks;
mod labels;
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
use super::{
    arguments::{ClusterArgs, Output, connect, output},
    terminal::{Console, Exit, Threads, block_on, fail, print, say, with_causes},
};
use crate::cluster::Target;

/// Say what is wrong with this install, on which object, and the command that fixes it; the worst first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  copyrator doctor\n  copyrator doctor -n copyrator-system -o json\n  \
    copyrator doctor --ignore foreign-fail-hook\n\n\
    It reads, asks, and sends a dry run of a rule to see whether calls reach the webhook; nothing is stored. What you may not \
    read is `unknown`, with the right that is missing. docs/doctor.md explains every id.\n\
    Exit code 0: nothing found; 1: something found, or not known; 2: usage; 3: the cluster does not answer.")]
pub struct Args {
    /// Where Copyrator is installed: that is the namespace asked about here.
    #[arg(
        short,
        long,
        visible_alias = "copyrator-namespace",
        env = "COPYRATOR_NAMESPACE",
        default_value = "copyrator-system",
        value_name = "NS"
    )]
    namespace: String,
    /// How the output looks.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// What you know of and accept.
    #[arg(long, value_enum, value_name = "ID", value_delimiter = ',', hide_possible_values = true)]
    ignore: Vec<Id>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    console: Console,
}

impl Args {
    pub(super) fn run(self) -> Exit {
        match self.cluster.clone().check() {
            Ok(target) => block_on(Threads::One, self.show(target)),
            Err(error) => fail(&error, Exit::Usage),
        }
    }

    async fn show(self, target: Target) -> Exit {
        let client = match connect(&target).await {
            Ok(client) => client,
            Err(error) => return fail(&error, Exit::Unreachable),
        };
        let facts = match gather::gather(&client, &self.namespace, Timestamp::now(), &self.console).await {
            Ok(facts) => facts,
            Err(error) => {
                say(&format!("cannot reach the cluster: {}", with_causes(&*error)));
                return Exit::Unreachable;
            }
        };
        let found = examine::examine(&facts, &self.ignore);
        let in_order = examine::in_order(&facts, &found, &self.ignore);
        if facts.server.as_ref().is_ok_and(|server| !server.stamps()) {
            self.console.note(
                "this API server does not stamp authors by itself (from Kubernetes 1.36 on it does): a hook does, and while \
                 no webhook answers, rules and monitors cannot be written",
            );
        }
        let report = || {
            json!({
                "version": env!("CARGO_PKG_VERSION"),
                "namespace": self.namespace,
                "server": facts.server.as_ref().map(ToString::to_string).ok(),
                "findings": found,
                "inOrder": in_order,
                "ignored": self.ignore,
            })
        };
        let text = match self.output {
            Output::Table => table::table(&found, in_order.len()),
            Output::Wide => table::table(&found, in_order.len()) + &table::names(&in_order),
            Output::Json => output::json("Diagnosis", &report()),
            Output::Yaml => output::yaml("Diagnosis", &report()),
            Output::Name => table::ids(&found),
        };
        match print(&text) {
            Exit::Done if !found.is_empty() => Exit::Findings,
            exit => exit,
        }
    }
}
