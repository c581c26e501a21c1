//! The program that is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::Outcome;

/// The operator's program: where it is, and how it is started.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Its size in MB (10^6 bytes).
    pub(crate) megabytes: f64,
    /// What it is started with beside what the chart gives it.
    pub(crate) serve_flags: Vec<&'static str>,
    /// What takes the brake off restarts that go on at once, where it has one.
    #[serde(skip)]
    unbraked: Vec<&'static str>,
    /// What takes the limit for each peer off the webhook, where it has one.
    #[serde(skip)]
    for_any_peer: Vec<&'static str>,
}

impl Program {
    /// Looks at a program.
    pub(crate) fn at(path: &Path) -> Outcome<Program> {
        let size = std::fs::metadata(path).map_err(|error| {
            format!("cannot read {}: {error}; run `make bench`, or cargo build first", path.display())
        })?;
        let help = Command::new(path).args(["serve", "--help"]).output()?;
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let known = |flag: [&'static str; 2]| if help.contains(flag[0]) { flag.to_vec() } else { Vec::new() };
        Ok(Program {
            path: path.to_owned(),
            megabytes: size.len() as f64 / 1e6,
            // A source that changes again and again is the measurement here, and not to be held back.
            serve_flags: known(["--min-spread-interval", "0s"]),
            unbraked: known(["--max-rollouts", "0"]),
            for_any_peer: known(["--peer-rate", "0"]),
        })
    }

    /// The same, without a limit for restarts that go on at once.
    pub(crate) fn unbraked(&self) -> Program {
        let serve_flags = [&self.serve_flags[..], &self.unbraked].concat();
        Program { serve_flags, ..self.clone() }
    }

    /// The same, with a sweep a minute after each start.
    pub(crate) fn sweeping(&self) -> Program {
        let serve_flags = [&self.serve_flags[..], &["--sweep-interval", "60s"]].concat();
        Program { serve_flags, ..self.clone() }
    }

    /// The same, without a limit for what one peer may ask a second: the generator of a load is one.
    pub(crate) fn for_any_peer(&self) -> Program {
        let serve_flags = [&self.serve_flags[..], &self.for_any_peer].concat();
        Program { serve_flags, ..self.clone() }
    }
}
