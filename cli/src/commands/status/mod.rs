//! `copyrator status`: shows the state of rules, monitors and policies.

mod lease;
mod rows;
mod wait;

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde::Serialize;

use self::rows::{ReadFailure, look};
pub use self::rows::{Rows, rows_of};
use super::command;
use crate::{
    arguments::{ClusterArgs, LabelArgs, Labels, Output, Scope, output, seconds},
    installed::{Installed, InstalledArgs},
    states::{ObjectRow, copies, restarts, table},
    survey::{Selected, SurveyTarget, read_scope},
    terminal::{Console, Exit, print, say},
};

/// Show the state of rules with every copy, of monitors with every workload, and of policies; the worst
/// first.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator status\n  copyrator status -n platform\n  copyrator status -l team=blue -o wide\n  \
    copyrator status -o json\n  kubectl apply -f rules.yaml && copyrator status -n platform --wait --timeout 2m\n\n\
    With -n: the rules, monitors and workloads of that namespace, and the copies in it. Each copy or workload has the state that `copyrator plan` shows, and the result of the last attempt. RUNNING and WANTED are the first characters of keyed digests: of the content that the workload runs, and of the current content.\n\n\
    --wait ends when every status is about the current spec, every copy is in order or held back on purpose, and no restart is due or in progress. At the deadline, it lists what is missing. Without the right to list copies and workloads, it waits only for the statuses.\n\n\
    Exit codes: 0 everything is as declared; 1 something is not, or you may not read it; 2 usage; 3 cluster unreachable."
)]
pub struct Args {
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    labels: LabelArgs,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Wait until everything is as declared, then show it.
    #[arg(long)]
    wait: bool,
    /// With --wait: the longest time to wait.
    #[arg(long, default_value = "5m", value_name = "DURATION", requires = "wait")]
    timeout: String,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    console: Console,
    #[command(flatten)]
    installed: InstalledArgs,
}

/// The checked options of the command line.
struct Options {
    labels: Option<Labels>,
    installed: Installed,
    timeout: Duration,
}

/// The body of machine-readable output.
#[derive(Serialize)]
struct Status {
    /// Every object of ours, the worst first.
    items: Vec<ObjectRow>,
}

impl Args {
    /// Runs the command, and returns its exit code.
    pub fn run(self) -> Exit {
        let words = || {
            let (labels, installed) = (self.labels.clone().check()?, self.installed.clone().check()?);
            Ok(Options { labels, installed, timeout: seconds("timeout", &self.timeout)? })
        };
        command::run(&self.cluster, words, async |client, options| self.show(&client, &options).await)
    }

    async fn show(&self, client: &Client, options: &Options) -> Result<Exit, Exit> {
        let looked = match self.wait {
            true => wait::until_settled(options.timeout, || self.look(client, options)).await,
            false => self.look(client, options).await,
        };
        let looked = looked.map_err(|ReadFailure { why, exit }| {
            say(&why);
            exit
        })?;
        if let Some(said) = lease::unrenewed(client, &options.installed.namespace, Timestamp::now()).await {
            self.console.note(&said);
        }
        looked.notes.iter().for_each(|said| self.console.note(said));
        let is_worrying = looked.is_worrying();
        let missing = if self.wait { looked.unsettled() } else { Vec::new() };
        Ok(match print(&self.text(looked)) {
            Exit::Done if !missing.is_empty() => wait::give_up(&self.timeout, &missing),
            Exit::Done if is_worrying => Exit::Findings,
            exit => exit,
        })
    }

    async fn look(&self, client: &Client, options: &Options) -> Result<Rows, ReadFailure> {
        let read_scope = read_scope(client, &options.installed, self.scope.one()).await;
        let read_scope = read_scope.map_err(|error| ReadFailure::new(&error, error.exit()))?;
        let selected = Selected::find_if(client, &read_scope, options.labels.clone()).await;
        let selected = selected.map_err(|error| ReadFailure::new(&error, error.exit()))?;
        let of_labels = options.labels.as_ref().map(|labels| labels.text.as_str());
        let target = SurveyTarget { installed: &options.installed, read_scope: &read_scope };
        let seen = look(client, target, self.scope.one(), of_labels, selected).await;
        seen.map_err(|error| ReadFailure::new(&error, error.exit()))
    }

    fn text(&self, looked: Rows) -> String {
        if let Output::Table | Output::Wide = self.output {
            let wide = self.output == Output::Wide;
            let Rows { rows, copies, workloads, .. } = looked;
            return table(&rows) + &copies::table(&copies, wide) + &restarts::table(&workloads, wide);
        }
        let items = looked.items();
        match self.output {
            Output::Yaml => output::yaml("Status", &Status { items }),
            Output::Name => output::names(items.iter().map(ObjectRow::kind_and_name)),
            _ => output::json("Status", &Status { items }),
        }
    }
}
