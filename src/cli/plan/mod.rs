//! `copyrator plan`

mod report;
mod table;

use std::{io::IsTerminal as _, path::PathBuf};

use self::{report::Report, table::table};
use super::{
    ClusterArgs, Exit, Threads, block_on, connect, fail,
    installed::{Installed, InstalledArgs},
    manifests, note, print,
    survey::{rules_in, survey},
};
use crate::run::client::Target;

/// How the output looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// Lines as in a diff, for people.
    #[default]
    Table,
    /// The same, and the copies that are in order.
    Wide,
    /// For machines.
    Json,
}

/// Show what would be made, changed, removed and refused, and why. Touches nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Signs: + made, ~ changed, - removed, ! refused, ? not known, . waiting, = in order\n\n\
    Examples:\n  copyrator plan\n  copyrator plan -f rule.yaml\n  \
    kustomize build . | copyrator plan -f -\n  copyrator plan -n shop -o json\n\n\
    Rules of files are planned with as if you had just applied them. What quotas and other webhooks say to a copy is \
    known only when it is written.\n\n\
    Exit codes: 0 nothing to do; 1 something would change or be refused, or cannot be told; 2 usage, or a file that \
    cannot be read; 3 cluster unreachable."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Rules that are not applied yet: files, directories, or - for standard input.
    #[arg(short, long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only rules of this namespace and copies in it; also where rules of files go that name none.
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
    /// No colour, as the environment says.
    #[arg(long, env = "NO_COLOR", hide = true)]
    no_color: Option<String>,
}

impl Args {
    pub(super) fn run(self) -> Exit {
        let documents = match manifests::read(&self.files) {
            Ok(documents) => documents,
            Err(error) => return fail(&error, Exit::Usage),
        };
        let installed = match self.installed.clone().check() {
            Ok(installed) => installed,
            Err(error) => return fail(&error, Exit::Usage),
        };
        block_on(Threads::One, self.plan(documents, installed))
    }

    async fn plan(self, documents: Vec<manifests::Document>, installed: Installed) -> Exit {
        let client = match connect(&Target::from(self.cluster)).await {
            Ok(client) => client,
            Err(error) => return fail(&error, Exit::Unreachable),
        };
        let home = self.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
        let (rules, others) = rules_in(documents, &home);
        others.iter().for_each(|other| note(other));
        let seen = match survey(&client, &installed, rules).await {
            Ok(seen) => seen,
            Err(error) => {
                let exit = error.exit();
                return fail(&error, exit);
            }
        };
        seen.notes.iter().for_each(|said| note(said));
        let report = Report::new(&seen, self.namespace.as_deref(), self.output == Output::Wide);
        let colour = std::io::stdout().is_terminal() && self.no_color.is_none_or(|value| value.is_empty());
        let text = match self.output {
            Output::Table | Output::Wide => table(&report, colour),
            Output::Json => serde_json::to_string_pretty(&report).unwrap_or_default() + "\n",
        };
        match print(&text) {
            Exit::Done if report.has_findings() => Exit::Findings,
            exit => exit,
        }
    }
}
