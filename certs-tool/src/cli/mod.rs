//! The commands, one file each.

pub mod files;
pub mod inspect;
pub mod issue;
pub mod rotate;

use std::process::ExitCode;
use std::time::Duration;

use copyrator_certs::{CaSecretError, CertError};

/// What a command that ran to its end found.
pub enum Outcome {
    /// Done, nothing to report: exit code 0.
    Done,
    /// Something needs attention: exit code 1.
    Findings,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::Findings => Self::from(1),
        }
    }
}

/// Why a command could not do what it was asked: exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] files::FileError),
    /// The authority's files do not fit together.
    #[error(transparent)]
    Secret(#[from] CaSecretError),
    /// A certificate could not be read or made.
    #[error(transparent)]
    Certificate(#[from] CertError),
    /// A file holds no certificate where one is needed, or a damaged one.
    #[error(transparent)]
    Inspect(#[from] copyrator_certs::inspect::InspectError),
    /// Standard output is closed, or the report has no JSON form.
    #[error("cannot write the report: {0}")]
    Output(#[from] std::io::Error),
    /// `--service` without a namespace.
    #[error("`--service {0}` is not NAME.NAMESPACE")]
    Service(String),
    /// None of the files given holds a certificate or a key.
    #[error("no certificate in these files")]
    Nothing,
}

/// Whole days, as the flags give them.
pub fn days(days: u32) -> Duration {
    Duration::from_secs(u64::from(days) * 86_400)
}
