//! `copyrator doctor`: finds what is wrong with an install.

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
mod instances;
mod labels;
mod leader;
mod pods;
mod policies;
mod read;
mod rights;
mod table;
#[cfg(test)]
mod tests;
mod unread;

use jiff::Timestamp;
use kube::Client;
use schemars::JsonSchema;
use serde::Serialize;

use self::finding::{Finding, Id};
use super::command;
use crate::{
    arguments::{ClusterArgs, Output},
    names::GrantedKinds,
    terminal::{Console, Exit, say, with_distinct_causes},
};

/// Show the problems of this installation, with the object and the command that fixes it; the worst first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  copyrator doctor\n  copyrator doctor -n copyrator-system -o json\n  \
    copyrator doctor --ignore foreign-fail-hook\n\n\
    It reads, asks, and sends a dry run of a rule to see whether calls reach the webhook; nothing is stored. What you may not \
    read is `unknown`, with the right that is missing. docs/doctor.md explains every id.\n\
    Exit code 0: nothing found; 1: something found, or not known; 2: usage; 3: the cluster does not answer.")]
pub struct Args {
    /// The namespace of the installation to check.
    #[arg(
        short,
        long,
        visible_alias = "copyrator-namespace",
        env = "COPYRATOR_NAMESPACE",
        default_value = "copyrator-system",
        value_name = "NS"
    )]
    namespace: String,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Ids of findings that you accept.
    #[arg(long, value_enum, value_name = "ID", value_delimiter = ',', hide_possible_values = true)]
    ignore: Vec<Id>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    console: Console,
}

impl Args {
    /// Runs the command, and returns its exit code.
    pub fn run(self) -> Exit {
        command::run(&self.cluster, || Ok(()), async |client, ()| self.show(&client).await)
    }

    async fn show(&self, client: &Client) -> Result<Exit, Exit> {
        let diagnosed =
            diagnose(client, &self.namespace, &self.ignore, &self.console, &GrantedKinds::default()).await;
        let report = diagnosed.map_err(|error| {
            say(&format!("cannot reach the cluster: {}", with_distinct_causes(&*error)));
            Exit::Unreachable
        })?;
        report.notes.iter().for_each(|said| self.console.note(said));
        let (found, in_order) = (&report.findings, &report.in_order);
        let table = |wide| {
            let names = if wide { table::names(in_order) } else { String::new() };
            table::table(found, in_order.len()) + &names
        };
        let text = self.output.text("Diagnosis", &report, table, || table::ids(found));
        Ok(command::answer(&text, !found.is_empty()))
    }
}

/// What is wrong with an install.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The version of this program.
    pub version: &'static str,
    /// Where Copyrator is installed.
    pub namespace: String,
    /// The version of the API server, where it may be read.
    pub server: Option<String>,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// The checks that found nothing.
    pub in_order: Vec<Id>,
    /// The findings that the caller knows of and accepts.
    pub ignored: Vec<Id>,
    /// What is no fault, and good to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Reads the install and examines it. Announces long waits on `console`.
///
/// # Errors
/// The API server does not answer.
pub async fn diagnose(
    client: &Client,
    namespace: &str,
    ignored: &[Id],
    console: &Console,
    kinds: &GrantedKinds,
) -> Result<Diagnosis, Box<kube::Error>> {
    let facts = gather::gather(client, namespace, Timestamp::now(), console, kinds).await?;
    let findings = examine::examine(&facts, ignored);
    let in_order = examine::in_order(&facts, &findings, ignored);
    let is_unstamped = facts.server.as_ref().is_ok_and(|server| !server.stamps());
    let unstamped = is_unstamped.then(|| UNSTAMPED.to_owned());
    Ok(Diagnosis {
        version: env!("CARGO_PKG_VERSION"),
        namespace: namespace.to_owned(),
        server: facts.server.as_ref().map(ToString::to_string).ok(),
        findings,
        in_order,
        ignored: ignored.to_vec(),
        notes: unstamped
            .into_iter()
            .chain(instances::notes(&facts.owned))
            .chain(policies::notes(&facts.by_user))
            .collect(),
    })
}

/// The note for an API server before 1.36.
const UNSTAMPED: &str = "a hook records the authors of rules and monitors, because this API server does not (it does from \
                         Kubernetes 1.36): while no webhook answers, the API server refuses writes of rules and monitors";
