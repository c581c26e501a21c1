//! `copyrator man`: prints or writes manual pages.

use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_mangen::{Man, generate_to};

use super::{
    Cli,
    terminal::{Exit, fail, print},
};

/// Print the manual page of copyrator, or write it and one for each command to a directory.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator man | man -l -\n  copyrator man /usr/local/share/man/man1\n\n\
    Exit codes: 0 done; 1 a file cannot be written; 2 usage."
)]
pub(super) struct Args {
    /// Write copyrator.1, copyrator-plan.1 and so on to this existing directory.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Why no manual pages can be written.
#[derive(Debug, thiserror::Error)]
enum ManError {
    #[error("cannot write manual pages to {}", directory.display())]
    Write {
        directory: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot render the manual page")]
    Render(#[source] std::io::Error),
}

impl Args {
    pub(super) fn run(self) -> Exit {
        let printed = match self.directory {
            Some(directory) => generate_to(Cli::command(), &directory)
                .map(|()| Exit::Done)
                .map_err(|source| ManError::Write { directory, source }),
            None => {
                let mut page = Vec::new();
                let rendered = Man::new(Cli::command()).render(&mut page).map_err(ManError::Render);
                rendered.map(|()| print(&String::from_utf8_lossy(&page)))
            }
        };
        printed.unwrap_or_else(|error| fail(&error, Exit::Findings))
    }
}
