//! The program that is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::Outcome;

/// The operator's program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Its size in MB (10^6 bytes).
    pub(crate) megabytes: f64,
    /// What it is started with beside what the chart gives it.
    pub(crate) serve_flags: Vec<&'static str>,
}

impl Program {
    /// Looks at a program.
    pub(crate) fn at(path: &Path) -> Outcome<Program> {
        let size = std::fs::metadata(path).map_err(|error| {
            format!("cannot read {}: {error}; run `make bench`, or cargo build first", path.display())
        })?;
        let help = Command::new(path).args(["serve", "--help"]).output()?;
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        // A source that changes again and again is the measurement here, and not to be held back.
        let brake = ["--min-spread-interval", "0s"];
        let serve_flags = if help.contains(brake[0]) { brake.to_vec() } else { Vec::new() };
        Ok(Program { path: path.to_owned(), megabytes: size.len() as f64 / 1e6, serve_flags })
    }
}
