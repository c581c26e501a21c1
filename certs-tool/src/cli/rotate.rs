//! `copyrator-certs rotate`

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use copyrator_certs::{CaSecret, inspect};

use super::{CliError, Format, Outcome, Written, days, files};

/// The user's next steps, in the order in which no call fails.
const NEXT: [&str; 3] = [
    "give ca-bundle.crt, which has the old and the new authority, to every client, and wait until all clients have loaded it",
    "let the server load the new tls.crt and tls.key",
    "when no server uses a certificate of the old authority any more, remove the old authority from every client",
];

/// Replace the authority in a directory that `issue` wrote, keeping the old one trusted.
///
/// Writes a new ca.crt and ca.key, ca-bundle.crt with both authorities, and a new tls.crt and tls.key for
/// the same names. Give the bundle to every client before the server loads the new certificate.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  copyrator-certs rotate --dir certs\n  copyrator-certs rotate --dir certs --days 30 -o json\n\n\
    To rotate the CA that Copyrator itself manages in the cluster:\n  \
    kubectl -n copyrator-system annotate secret copyrator-webhook-ca copyrator.dev/rotate=now\n\n\
    Exit codes: 0 done, 2 wrong usage or unusable input."
)]
pub struct Rotate {
    /// Directory with ca.crt, ca.key and tls.crt.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Days the new server certificate lasts. The new authority lasts as long as the one before.
    #[arg(long, default_value_t = 90)]
    days: u32,
    /// How to say what was written.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

impl Rotate {
    /// Renews everything first, then writes: the bundle before the certificates that need it, the old
    /// authority before its successor (in order of file names), and the leaf last.
    pub fn run(self, now: SystemTime) -> Result<Outcome, CliError> {
        let dir = &self.dir;
        let secret = CaSecret::from_data(&files::read_authority(dir)?)?;
        let served = files::read(&dir.join(files::LEAF_CERT))?;
        let report = inspect::inspect([(files::LEAF_CERT, served.as_str())], now)?;
        let leaf = report.certificates.into_iter().next().ok_or(CliError::Nothing)?;

        let renewed = secret.renew(now)?;
        let leaf = renewed.current.issue_leaf(&leaf.dns_names, &leaf.ip_addresses, now, days(self.days))?;

        let mut written = Written::new(&NEXT);
        written.replace(dir, files::BUNDLE, renewed.trust_bundle(now).as_bytes(), now)?;
        let data = renewed.to_data();
        for (name, content) in &data {
            written.replace(dir, name, content, now)?;
        }
        for used_up in ["ca-next.crt", "ca-next.key", "ca-old.crt"] {
            if !data.contains_key(used_up) {
                written.remove(dir, used_up)?;
            }
        }
        written.replace(dir, files::LEAF_KEY, leaf.key_pem.expose().as_bytes(), now)?;
        written.replace(dir, files::LEAF_CERT, leaf.chain_pem.as_bytes(), now)?;
        written.print(self.output)?;
        Ok(Outcome::Done)
    }
}
