//! Certificates that another tool maintains, in a directory: a mounted Secret of type `kubernetes.io/tls`.
//!
//! The kubelet makes a new directory for each version and swaps the symbolic link `..data` to the new
//! directory. The files keep their names, so a watch on the files would notice nothing. The files are read
//! again each time and compared by content.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use copyrator_certs::{CertError, Certificate, PrivateKeyPem};
use rustls::RootCertStore;
use rustls::client::{WebPkiServerVerifier, danger::ServerCertVerifier};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
/// A swap can interrupt one read; several interrupted reads in a row mean that somebody writes all the time.
const TRIES: usize = 3;

/// Why nothing usable is mounted. Messages never quote a key.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; the mounted Secret needs {needed}", .path.display())]
    Read {
        /// The path of the file that was read.
        path: PathBuf,
        /// The files that the mounted Secret needs.
        needed: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A file contains no certificate.
    #[error("cannot use {}: {source}", .path.display())]
    Certificate {
        /// The path of the file that was read.
        path: PathBuf,
        /// The error in the file's content.
        source: CertError,
    },
}

/// A mounted serving certificate.
pub struct Mounted {
    /// The content of `tls.crt`.
    pub chain_pem: String,
    /// The certificates of `tls.crt`; the first certificate is the leaf.
    pub chain: Vec<Certificate>,
    /// The content of `tls.key`, not decoded.
    pub key: PrivateKeyPem,
    /// The certificates in `ca.crt`, which callers should trust.
    pub authorities: Vec<Certificate>,
}

/// Reads all three files, in the same version.
///
/// # Errors
/// A file is missing, or contains no certificate.
pub fn pair(dir: &Path) -> Result<Mounted, MountError> {
    let [chain_pem, key, authorities] = texts(dir, [CHAIN, KEY, AUTHORITIES])?;
    Ok(Mounted {
        chain: certificates(dir, CHAIN, &chain_pem)?,
        chain_pem,
        key: PrivateKeyPem::new(key),
        authorities: certificates(dir, AUTHORITIES, &authorities)?,
    })
}

/// A mounted certificate without `ca.crt`: its callers, such as browsers, already trust its authority.
pub(crate) struct Served {
    /// The content of `tls.crt`.
    pub chain_pem: String,
    /// The first certificate of the chain, which is the server's own.
    pub leaf: Certificate,
    /// The content of `tls.key`, not decoded.
    pub key: PrivateKeyPem,
}

/// Reads certificate and key, in the same version.
///
/// # Errors
/// A file is missing, or contains no certificate.
pub(crate) fn served(dir: &Path) -> Result<Served, MountError> {
    let [chain_pem, key] = texts(dir, [CHAIN, KEY])?;
    let leaf = certificates(dir, CHAIN, &chain_pem)?.into_iter().next();
    let leaf = leaf
        .ok_or_else(|| MountError::Certificate { path: dir.join(CHAIN), source: CertError::NoCertificate })?;
    Ok(Served { chain_pem, leaf, key: PrivateKeyPem::new(key) })
}

/// Reads the certificates that callers should trust.
///
/// # Errors
/// The file is missing, or contains no certificate.
pub fn authorities(dir: &Path) -> Result<Vec<Certificate>, MountError> {
    let [text] = texts(dir, [AUTHORITIES])?;
    certificates(dir, AUTHORITIES, &text)
}

/// Checks that a client that trusts these authorities accepts this chain for this name at `now`.
///
/// # Errors
/// The client rejects the chain, for this reason.
pub fn accepts(
    authorities: &[Certificate],
    chain: &[Certificate],
    name: &str,
    now: SystemTime,
) -> Result<(), String> {
    let Some((leaf, others)) = chain.split_first() else { return Err("no certificate".into()) };
    if authorities.contains(leaf) {
        return Ok(()); // a leaf that is trusted itself; the API server accepts it, too
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().map(|authority| authority.der().clone()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build();
    let verifier = verifier.map_err(|error| error.to_string())?;
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let at = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    let others: Vec<CertificateDer<'_>> = others.iter().map(|one| one.der().clone()).collect();
    let accepted = verifier.verify_server_cert(leaf.der(), &others, &name, &[], at);
    accepted.map(drop).map_err(|error| error.to_string())
}

/// Reads these files in the same version. Tries again if the version changes meanwhile.
fn texts<const N: usize>(dir: &Path, names: [&str; N]) -> Result<[String; N], MountError> {
    let mut tried = read_all(&version(dir), dir, names);
    for _ in 1..TRIES {
        if tried.is_ok() {
            break;
        }
        tried = read_all(&version(dir), dir, names);
    }
    tried
}

/// The directory of the mounted version.
fn version(dir: &Path) -> PathBuf {
    fs::canonicalize(dir.join("..data")).unwrap_or_else(|_| dir.to_owned())
}

fn read_all<const N: usize>(version: &Path, dir: &Path, names: [&str; N]) -> Result<[String; N], MountError> {
    let mut texts = [const { String::new() }; N];
    for (text, name) in texts.iter_mut().zip(names) {
        let read = fs::read_to_string(version.join(name));
        *text = read.map_err(|source| {
            let needed =
                if names.contains(&KEY) { names.join(", ") } else { [CHAIN, KEY, AUTHORITIES].join(", ") };
            MountError::Read { path: dir.join(name), needed, source }
        })?;
    }
    Ok(texts)
}

fn certificates(dir: &Path, name: &str, text: &str) -> Result<Vec<Certificate>, MountError> {
    let failed = |source| MountError::Certificate { path: dir.join(name), source };
    match Certificate::all_from_pem(text) {
        Ok(found) if found.is_empty() => Err(failed(CertError::NoCertificate)),
        found => found.map_err(failed),
    }
}
