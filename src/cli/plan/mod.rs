//! `copyrator plan`

mod report;
mod restarts;
mod table;

use std::{io::IsTerminal as _, path::PathBuf};

use self::{report::Report, table::table};
use super::{
    ClusterArgs, Exit, Threads, block_on, connect, fail,
    installed::{Installed, InstalledArgs},
    manifests, note, print,
    survey::{Files, Look, declared_in, objects_in, survey},
};
use crate::run::client::Target;

/// How the output looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// Lines as in a diff, for people.
    #[default]
    Table,
    /// The same, and the copies and workloads that are in order.
    Wide,
    /// For machines.
    Json,
}

/// Show what would be made, changed, removed, restarted and refused, and why. Touches nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Signs: + made, ~ changed, - removed, * restarted, ! refused, ? not known, . waiting, = in order or not affected\n\n\
    Examples:\n  copyrator plan\n  copyrator plan -f rule.yaml\n  copyrator plan -f app-settings.yaml\n  \
    kustomize build . | copyrator plan -f -\n  copyrator plan -n shop -o json\n\n\
    Rules, monitors, ConfigMaps and Secrets of files are planned with as if you had just applied them: what is copied, and \
    then which workloads restart. What quotas and other webhooks say is known only when something is written.\n\n\
    Exit codes: 0 nothing to do; 1 something would change or be refused, or cannot be told; 2 usage, or a file that \
    cannot be read; 3 cluster unreachable."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Rules, monitors, ConfigMaps and Secrets that are not applied yet: files, directories, or - for standard input.
    #[arg(short, long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only rules of this namespace, copies and workloads in it, and workloads that restart for copies of its rules; also
    /// where objects of files go that name none.
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
        let (objects, documents) = objects_in(documents, &home);
        let (declared, others) = declared_in(documents, &home);
        others.iter().for_each(|other| note(other));
        let seen = match survey(&client, &installed, Look::Ahead(Files { declared, objects })).await {
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
