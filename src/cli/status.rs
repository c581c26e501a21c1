//! `copyrator status`

use super::{
    ClusterArgs, Exit, Threads, block_on, fail, print,
    standing::{ReadError, read, table},
};
use crate::run::client::{Target, client};

/// How the output looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// A table for people.
    #[default]
    Table,
    /// For machines.
    Json,
}

/// Show rules, monitors and policies and how they stand, worst first.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator status\n  copyrator status -n platform\n  copyrator status -o json\n\n\
    Exit code 1 if anything is not as declared, or may not be read."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// One namespace instead of all.
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// All namespaces (the default).
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// How the output looks.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    pub(super) fn run(self) -> Exit {
        block_on(Threads::One, async move {
            let target = Target::from(self.cluster);
            let client = match client(&target, &std::sync::Arc::default()).await {
                Ok(client) => client,
                Err(error) => return fail(&error, Exit::Unreachable),
            };
            let rows = match read(&client, self.namespace.as_deref()).await {
                Ok(rows) => rows,
                Err(error @ ReadError::Refused { .. }) => return fail(&error, Exit::Findings),
                Err(error @ ReadError::Unreachable(_)) => return fail(&error, Exit::Unreachable),
            };
            let text = match self.output {
                Output::Table => table(&rows),
                Output::Json => serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n",
            };
            match print(&text) {
                Exit::Done if rows.iter().any(|row| row.is_worrying()) => Exit::Findings,
                exit => exit,
            }
        })
    }
}
