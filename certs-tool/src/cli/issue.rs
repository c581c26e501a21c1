//! `copyrator-certs issue`

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use copyrator_certs::{Authority, CaSecret, service_names};

use super::{CliError, Format, Outcome, Written, days, files};

/// The user's next steps.
const NEXT: [&str; 2] = [
    "give ca-bundle.crt to every client (a webhook's caBundle)",
    "let the server load tls.crt and tls.key; keep ca.key secret",
];

/// Make a server certificate, and an authority to sign it unless one is given.
///
/// Writes tls.crt, tls.key and ca-bundle.crt (for a webhook's caBundle); with a new authority also
/// ca.crt and ca.key. Keys get mode 0600.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    copyrator-certs issue --service copyrator.copyrator-system --out-dir certs\n  \
    copyrator-certs issue --dns hook.example.com --ip 192.0.2.7 --ca-cert ca.crt --ca-key ca.key --out-dir certs\n  \
    copyrator-certs issue --dns hook.example.com --out-dir certs -o json | jq -r '.certificates[].notAfter'\n\n\
    Exit codes: 0 done, 2 wrong usage or unusable input (the command then writes nothing).")]
pub struct Issue {
    /// DNS name; may be repeated.
    #[arg(long, value_name = "NAME")]
    dns: Vec<String>,
    /// IP address; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    ip: Vec<IpAddr>,
    /// A Service: adds all its DNS names.
    #[arg(long, value_name = "NAME.NAMESPACE", required_unless_present_any = ["dns", "ip"])]
    service: Option<String>,
    /// Certificate of the authority that signs.
    #[arg(long, value_name = "FILE", requires = "ca_key")]
    ca_cert: Option<PathBuf>,
    /// PKCS#8 key of the authority that signs.
    #[arg(long, value_name = "FILE", requires = "ca_cert")]
    ca_key: Option<PathBuf>,
    /// Days the server certificate lasts; never longer than its authority.
    #[arg(long, default_value_t = 90)]
    days: u32,
    /// Days a new authority lasts.
    #[arg(long, default_value_t = 365)]
    ca_days: u32,
    /// Directory to write to; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out_dir: PathBuf,
    /// Replace files that are there already.
    #[arg(long)]
    force: bool,
    /// How to say what was written.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

impl Issue {
    /// Issues everything first, and writes only if everything could be made.
    pub fn run(self, now: SystemTime) -> Result<Outcome, CliError> {
        let mut names = self.dns;
        if let Some(service) = &self.service {
            let parts = service.split_once('.').filter(|(_, namespace)| !namespace.contains('.'));
            let (name, namespace) = parts.ok_or_else(|| CliError::Service(service.clone()))?;
            names.extend(service_names(name, namespace));
        }
        let given = self.ca_cert.as_deref().zip(self.ca_key.as_deref());
        let authority = match given {
            Some((cert, key)) => Authority::from_pem(&files::read(cert)?, &files::read(key)?)?,
            None => Authority::issue("copyrator-certs", now, days(self.ca_days))?,
        };
        let leaf = authority.issue_leaf(&names, &self.ip, now, days(self.days))?;

        let secret = CaSecret::new(authority);
        let mut contents = if given.is_none() { secret.to_data() } else { Default::default() };
        contents.insert(files::BUNDLE.to_owned(), secret.trust_bundle(now).into_bytes());
        contents.insert(files::LEAF_CERT.to_owned(), leaf.chain_pem.into_bytes());
        contents.insert(files::LEAF_KEY.to_owned(), leaf.key_pem.expose().as_bytes().to_vec());

        let dir = &self.out_dir;
        if let Some(name) = contents.keys().find(|name| !self.force && dir.join(name).exists()) {
            return Err(files::FileError::Exists { path: dir.join(name) }.into());
        }
        std::fs::create_dir_all(dir)
            .map_err(|source| files::FileError::Write { path: dir.clone(), source })?;
        let mut written = Written::new(&NEXT);
        for (name, content) in &contents {
            written.replace(dir, name, content, now)?;
        }
        written.print(self.output)?;
        Ok(Outcome::Done)
    }
}
