//! `copyrator status`

use kube::Client;

use super::{
    ClusterArgs, Exit, Threads, block_on, connect,
    copies::{self, CopyStanding},
    fail,
    installed::{Installed, InstalledArgs},
    note, print,
    restarts::{self, RestartRow},
    standing::{ReadError, Standing, of_annotations, of_workloads, read, read_rules, sort, table},
    survey::{Look, survey},
    with_causes,
};
use crate::run::client::Target;

/// How the output looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// A table for people.
    #[default]
    Table,
    /// The same, and the copies and workloads that are in order, with whole digests.
    Wide,
    /// For machines.
    Json,
}

/// Show rules with every copy, monitors with every workload, and policies, and how they stand, worst first.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator status\n  copyrator status -n platform\n  copyrator status -o wide\n  copyrator status -o json\n\n\
    What is said of a copy or workload is what `copyrator plan` says of it, and what became of the last attempt. RUNNING and \
    WANTED are the first characters of keyed digests: of the content that a workload is recorded to run with, and of what is \
    there now.\n\
    Exit code 1 if anything is not as declared, or may not be read."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// One namespace instead of all: what is in it, workloads too, and the copies that land in it.
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// All namespaces (the default).
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// How the output looks.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    installed: InstalledArgs,
}

impl Args {
    pub(super) fn run(self) -> Exit {
        let installed = match self.installed.clone().check() {
            Ok(installed) => installed,
            Err(error) => return fail(&error, Exit::Usage),
        };
        block_on(Threads::One, self.show(installed))
    }

    async fn show(self, installed: Installed) -> Exit {
        let target = Target::from(self.cluster);
        let client = match connect(&target).await {
            Ok(client) => client,
            Err(error) => return fail(&error, Exit::Unreachable),
        };
        let (mut rows, copies, workloads) = match look(&client, &installed, self.namespace.as_deref()).await {
            Ok(seen) => seen,
            Err(error @ ReadError::Refused { .. }) => return fail(&error, Exit::Findings),
            Err(error @ ReadError::Unreachable(_)) => return fail(&error, Exit::Unreachable),
        };
        let is_worrying =
            rows.iter().any(Standing::is_worrying) || workloads.iter().any(RestartRow::is_worrying);
        if self.output == Output::Json {
            rows.extend(of_workloads(&workloads));
            sort(&mut rows);
        }
        let text = match self.output {
            Output::Table | Output::Wide => {
                let wide = self.output == Output::Wide;
                table(&rows) + &copies::table(&copies, wide) + &restarts::table(&workloads, wide)
            }
            Output::Json => serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n",
        };
        match print(&text) {
            Exit::Done if is_worrying => Exit::Findings,
            exit => exit,
        }
    }
}

/// Every object of ours, every copy and every workload; who may not see them one by one is told what the statuses say.
async fn look(
    client: &Client,
    installed: &Installed,
    namespace: Option<&str>,
) -> Result<(Vec<Standing>, Vec<CopyStanding>, Vec<RestartRow>), ReadError> {
    let mut rows = read(client, namespace).await?;
    let (copies, workloads) = match survey(client, installed, Look::AsItIs(namespace)).await {
        Ok(seen) => {
            seen.notes.iter().for_each(|said| note(said));
            let copies = copies::standings(&seen, namespace);
            let is_told = |rule: &crate::model::NamespacedName| {
                namespace.is_none_or(|here| *rule.namespace == *here)
                    || copies.iter().any(|copy| copy.rule.as_ref() == Some(rule))
            };
            rows.extend(of_annotations(&seen, is_told));
            if let Some(here) = namespace {
                let reaches = |namespace: &str, name: &str| {
                    let is_it =
                        |it: &crate::model::NamespacedName| *it.namespace == *namespace && *it.name == *name;
                    namespace != here && copies.iter().filter_map(|copy| copy.rule.as_ref()).any(is_it)
                };
                rows.extend(read_rules(client, reaches).await?);
            }
            rows.iter_mut().for_each(|row| row.give(&copies));
            let workloads = restarts::rows(&seen, namespace);
            if let Some(workloads) = &workloads {
                rows.iter_mut().for_each(|row| row.give_workloads(workloads));
            }
            (copies, workloads.unwrap_or_default())
        }
        Err(error) => {
            note(&format!("copies and workloads are not shown one by one: {}", with_causes(&error)));
            (Vec::new(), Vec::new())
        }
    };
    sort(&mut rows);
    Ok((rows, copies, workloads))
}
