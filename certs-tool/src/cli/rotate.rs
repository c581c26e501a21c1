//! `copyrator-certs rotate`

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use copyrator_certs::{CaSecret, inspect};

use super::{CliError, Outcome, days, files};

/// Replace the authority in a directory that `issue` wrote, keeping the old one trusted.
///
/// Writes a new ca.crt and ca.key, ca-bundle.crt with both authorities, and a new tls.crt and tls.key for
/// the same names. Give the bundle to every client before the server loads the new certificate.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  copyrator-certs rotate --dir certs\n  copyrator-certs rotate --dir certs --days 30"
)]
pub struct Rotate {
    /// Directory with ca.crt, ca.key and tls.crt.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Days the new server certificate lasts. The new authority lasts as long as the one before.
    #[arg(long, default_value_t = 90)]
    days: u32,
}

impl Rotate {
    /// Renews everything first and writes then: the bundle before what needs it, then the old authority
    /// before its successor (the names sort so), the leaf last.
    pub fn run(self, now: SystemTime) -> Result<Outcome, CliError> {
        let dir = &self.dir;
        let secret = CaSecret::from_data(&files::read_authority(dir)?)?;
        let served = files::read(&dir.join(files::LEAF_CERT))?;
        let report = inspect::inspect([(files::LEAF_CERT, served.as_str())], now)?;
        let leaf = report.certificates.into_iter().next().ok_or(CliError::Nothing)?;

        let renewed = secret.renew(now)?;
        let leaf = renewed.current.issue_leaf(&leaf.dns_names, &leaf.ip_addresses, now, days(self.days))?;

        files::replace(dir, files::BUNDLE, renewed.trust_bundle(now).as_bytes())?;
        let data = renewed.to_data();
        for (name, content) in &data {
            files::replace(dir, name, content)?;
        }
        for used_up in ["ca-next.crt", "ca-next.key", "ca-old.crt"] {
            if !data.contains_key(used_up) {
                files::remove(dir, used_up)?;
            }
        }
        files::replace(dir, files::LEAF_KEY, leaf.key_pem.expose().as_bytes())?;
        files::replace(dir, files::LEAF_CERT, leaf.chain_pem.as_bytes())?;
        Ok(Outcome::Done)
    }
}
