//! `copyrator man`: prints or writes manual pages.

use std::path::PathBuf;

use clap::Command;
use clap_mangen::{Man, generate_to};

use copyrator_cli::terminal::{Exit, fail, print};

/// Print the manual page of copyrator, or write it and one for each command to a directory.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator man | man -l -\n  copyrator man /usr/local/share/man/man1\n\n\
    Exit codes: 0 done; 1 a file cannot be written; 2 usage."
)]
pub(crate) struct Args {
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
    /// Prints or writes the manual pages of the program, which `program` describes.
    pub(super) fn run(self, program: Command) -> Exit {
        let printed = match self.directory {
            Some(directory) => generate_to(program, &directory)
                .map(|()| Exit::Done)
                .map_err(|source| ManError::Write { directory, source }),
            None => {
                let mut page = Vec::new();
                let rendered = Man::new(program).render(&mut page).map_err(ManError::Render);
                rendered.map(|()| print(&String::from_utf8_lossy(&page)))
            }
        };
        printed.unwrap_or_else(|error| fail(&error, Exit::Findings))
    }
}
