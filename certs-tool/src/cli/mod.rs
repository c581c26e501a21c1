//! The commands, one file each.

pub mod files;
pub mod inspect;
pub mod issue;
pub mod rotate;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use copyrator_certs::inspect::{CertReport, inspect as read_pem};
use copyrator_certs::{CaSecretError, CertError};
use serde::Serialize;

/// The outcome of a command that ran to its end.
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

/// How to print what a command has to say.
#[derive(Clone, Copy, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

/// A report on the files that a command has written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// The files, in the order in which they were replaced.
    wrote: Vec<String>,
    /// The files that a rotation has removed.
    removed: Vec<String>,
    /// The certificates in the written files.
    certificates: Vec<CertReport>,
    /// The user's next steps, in order.
    next: Vec<&'static str>,
}

impl Written {
    /// Returns an empty report with these next steps.
    pub fn new(next: &[&'static str]) -> Self {
        Self { wrote: Vec::new(), removed: Vec::new(), certificates: Vec::new(), next: next.to_vec() }
    }

    /// Replaces a file and adds it to the report.
    pub fn replace(
        &mut self,
        dir: &Path,
        name: &str,
        content: &[u8],
        now: SystemTime,
    ) -> Result<(), CliError> {
        files::replace(dir, name, content)?;
        let path = dir.join(name).display().to_string();
        // The report names the files of keys, but does not read them.
        if let (false, Ok(text)) = (name.ends_with(".key"), std::str::from_utf8(content)) {
            self.certificates.extend(read_pem([(path.as_str(), text)], now)?.certificates);
        }
        self.wrote.push(path);
        Ok(())
    }

    /// Removes a file, and adds it to the report if it existed.
    pub fn remove(&mut self, dir: &Path, name: &str) -> Result<(), CliError> {
        if files::remove(dir, name)? {
            self.removed.push(dir.join(name).display().to_string());
        }
        Ok(())
    }

    /// Prints the report on standard output.
    pub fn print(&self, format: Format) -> Result<(), CliError> {
        let mut out = std::io::stdout().lock();
        match format {
            Format::Json => {
                serde_json::to_writer_pretty(&mut out, self).map_err(std::io::Error::from)?;
                writeln!(out)?;
            }
            Format::Text => {
                for path in &self.wrote {
                    writeln!(out, "wrote {path}")?;
                    for certificate in self.certificates.iter().filter(|it| it.origin == *path) {
                        let (subject, until) = (&certificate.subject, certificate.validity.not_after());
                        let kind = if certificate.is_ca { "authority" } else { "server" };
                        let until = copyrator_certs::validity::rfc3339(until);
                        writeln!(
                            out,
                            "  {kind} {subject}, until {until}, sha256 {}",
                            certificate.fingerprint
                        )?;
                    }
                }
                for path in &self.removed {
                    writeln!(out, "removed {path}")?;
                }
                for (number, step) in self.next.iter().enumerate() {
                    writeln!(out, "{}. {step}", number + 1)?;
                }
            }
        }
        Ok(())
    }
}

/// Why a command failed: exit code 2.
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
    /// A file that must hold a certificate holds no certificate, or a damaged certificate.
    #[error(transparent)]
    Inspect(#[from] copyrator_certs::inspect::InspectError),
    /// Standard output is closed, or the report has no JSON form.
    #[error("cannot write the report: {0}")]
    Output(#[from] std::io::Error),
    /// `--service` without a namespace.
    #[error("`--service {0}` is not NAME.NAMESPACE")]
    Service(String),
    /// None of the files given holds a certificate or a key.
    #[error("these files have no certificate")]
    Nothing,
}

/// Converts whole days, as the flags give them, to a duration.
pub fn days(days: u32) -> Duration {
    Duration::from_secs(u64::from(days) * 86_400)
}
