//! `copyrator-certs inspect`

use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use copyrator_certs::inspect;

use super::{CliError, Format, Outcome, files};

/// Show certificates, and what is wrong with them: expired, or a key of another pair.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    copyrator-certs inspect tls.crt tls.key\n  \
    kubectl get secret hook-tls -o jsonpath='{.data.tls\\.crt}' | base64 -d | copyrator-certs inspect /dev/stdin\n  \
    copyrator-certs inspect ca-bundle.crt -o json | jq -r '.certificates[].notAfter'")]
pub struct Inspect {
    /// PEM files with certificates, keys, or both.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How to print the report.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

impl Inspect {
    /// Reads the files and prints the report; findings go to standard error in text form.
    pub fn run(self, now: SystemTime) -> Result<Outcome, CliError> {
        let mut texts = Vec::new();
        for path in &self.files {
            texts.push((path.display().to_string(), files::read(path)?));
        }
        let report = inspect::inspect(texts.iter().map(|(name, text)| (&**name, &**text)), now)?;
        if report.certificates.is_empty() && report.findings.is_empty() {
            return Err(CliError::Nothing);
        }
        let mut out = std::io::stdout().lock();
        match self.output {
            Format::Json => {
                serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
                writeln!(out)?;
            }
            Format::Text => {
                for certificate in &report.certificates {
                    write!(out, "{certificate}")?;
                }
                for finding in &report.findings {
                    writeln!(std::io::stderr(), "{finding}")?;
                }
            }
        }
        Ok(if report.findings.is_empty() { Outcome::Done } else { Outcome::Findings })
    }
}
