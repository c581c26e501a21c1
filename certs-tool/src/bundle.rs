//! The Secret of the certificate authority, and the meaning of its keys.
//!
//! | key | meaning |
//! |---|---|
//! | `ca.crt`, `ca.key` | the authority that signs now |
//! | `ca-next.crt`, `ca-next.key` | during a rotation: the next authority, already trusted, not yet signing |
//! | `ca-old.crt` | during a rotation: earlier authorities whose leaves may still be served |

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::ca::Authority;
use crate::certificate::Certificate;
use crate::error::CertError;

const CURRENT_CERT: &str = "ca.crt";
const CURRENT_KEY: &str = "ca.key";
const NEXT_CERT: &str = "ca-next.crt";
const NEXT_KEY: &str = "ca-next.key";
const OLD_CERT: &str = "ca-old.crt";

/// Earlier authorities kept in the bundle, which every webhook's `caBundle` contains. Renewals are rare: more
/// valid authorities than this mean that something renews in a loop.
const OLD_KEPT: usize = 4;

/// Why the Secret's data make no authority. The message names the key, never its content.
#[derive(Debug, thiserror::Error)]
pub enum CaSecretError {
    /// One half of a pair is missing, or both halves of the current authority are missing.
    #[error("the CA Secret has no `{key}`")]
    Missing {
        /// Key of the Secret's data.
        key: &'static str,
    },
    /// The value is not text, so it is no PEM either.
    #[error("the CA Secret's `{key}` is not UTF-8 text")]
    NotText {
        /// Key of the Secret's data.
        key: &'static str,
    },
    /// The value is no usable certificate or key, or does not match the other half of its pair.
    #[error("the CA Secret's `{key}`: {source}")]
    Unusable {
        /// Key of the Secret's data.
        key: &'static str,
        /// The problem with the value.
        source: CertError,
    },
}

/// The decoded Secret. `Debug` shows no key.
#[derive(Clone, Debug)]
pub struct CaSecret {
    /// The authority that signs leaves now.
    pub current: Authority,
    /// The authority that will sign once every hook trusts it.
    pub next: Option<Authority>,
    /// Earlier authorities, newest first.
    pub old: Vec<Certificate>,
}

impl CaSecret {
    /// Returns a Secret with one fresh authority and no rotation under way.
    pub fn new(current: Authority) -> Self {
        Self { current, next: None, old: Vec::new() }
    }

    /// Decodes a Secret's data. Keys other than the five above are ignored.
    ///
    /// # Errors
    /// A missing half, or a value that cannot be decoded. A wrong `ca-old.crt` is an error, too: if it were
    /// dropped silently, clients would stop trusting leaves that are still served.
    pub fn from_data(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, CaSecretError> {
        let current = authority(data, CURRENT_CERT, CURRENT_KEY)?
            .ok_or(CaSecretError::Missing { key: CURRENT_CERT })?;
        let next = authority(data, NEXT_CERT, NEXT_KEY)?;
        let old = match text(data, OLD_CERT)? {
            None => Vec::new(),
            Some(pem) => certificates(pem).map_err(unusable(OLD_CERT))?,
        };
        Ok(Self { current, next, old })
    }

    /// Returns the Secret's data; the exact inverse of [`from_data`](Self::from_data). The data contain
    /// private keys: write them only to the API server or to a file with mode 0600.
    pub fn to_data(&self) -> BTreeMap<String, Vec<u8>> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, value: String| data.insert(key.to_owned(), value.into_bytes());
        put(CURRENT_CERT, self.current.cert_pem());
        put(CURRENT_KEY, self.current.key_pem().expose().to_owned());
        if let Some(next) = &self.next {
            put(NEXT_CERT, next.cert_pem());
            put(NEXT_KEY, next.key_pem().expose().to_owned());
        }
        if !self.old.is_empty() {
            put(OLD_CERT, self.old.iter().map(Certificate::pem).collect());
        }
        data
    }

    /// Returns the PEM of every certificate that a client must trust at `now`: always the current certificate
    /// (an empty bundle would be worse than an expired certificate), and the next and old certificates while
    /// they are valid.
    pub fn trust_bundle(&self, now: SystemTime) -> String {
        let others = self.next.iter().map(Authority::certificate).chain(&self.old);
        let others = others.filter(|certificate| !certificate.validity().is_expired(now));
        std::iter::once(self.current.certificate()).chain(others).map(Certificate::pem).collect()
    }

    /// Whether the current authority has used up two thirds of its lifetime at `now`, by the wall clock.
    pub fn renewal_due(&self, now: SystemTime) -> bool {
        self.current.validity().renewal_at() <= now
    }

    /// Returns the Secret with a new current authority of the same name and lifetime. The previous authority
    /// stays in the bundle while it is valid, so clients still accept leaves that it signed. An already
    /// announced next authority is used instead of a fresh one, unless it is itself due for renewal.
    ///
    /// # Errors
    /// See [`Authority::issue`].
    pub fn renew(&self, now: SystemTime) -> Result<Self, CertError> {
        let fresh = || {
            let name = self.current.certificate().common_name();
            Authority::issue(name, now, self.current.validity().lifetime())
        };
        let announced = self.next.clone().filter(|next| next.validity().renewal_at() > now);
        Ok(self.succeeded_by(announced.map_or_else(fresh, Ok)?, now))
    }

    /// Returns this Secret with a new current authority. The previous authority becomes the newest entry of
    /// `old`.
    pub(crate) fn succeeded_by(&self, current: Authority, now: SystemTime) -> Self {
        let before = std::iter::once(self.current.certificate()).chain(&self.old);
        let mut old: Vec<_> =
            before.filter(|certificate| !certificate.validity().is_expired(now)).cloned().collect();
        old.truncate(OLD_KEPT);
        Self { current, next: None, old }
    }
}

fn authority(
    data: &BTreeMap<String, Vec<u8>>,
    cert: &'static str,
    key: &'static str,
) -> Result<Option<Authority>, CaSecretError> {
    match (text(data, cert)?, text(data, key)?) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(CaSecretError::Missing { key: cert }),
        (Some(_), None) => Err(CaSecretError::Missing { key }),
        (Some(cert_pem), Some(key_pem)) => {
            let loaded = Authority::from_pem(cert_pem, key_pem).map_err(|source| {
                let of_the_key = matches!(source, CertError::Key(_) | CertError::KeyMismatch { .. });
                CaSecretError::Unusable { key: if of_the_key { key } else { cert }, source }
            })?;
            Ok(Some(loaded))
        }
    }
}

fn text<'a>(
    data: &'a BTreeMap<String, Vec<u8>>,
    key: &'static str,
) -> Result<Option<&'a str>, CaSecretError> {
    let value = data.get(key).map(|bytes| std::str::from_utf8(bytes));
    value.transpose().map_err(|_| CaSecretError::NotText { key })
}

fn certificates(pem: &str) -> Result<Vec<Certificate>, CertError> {
    let certificates = Certificate::all_from_pem(pem)?;
    match certificates.iter().find(|certificate| !certificate.is_authority()) {
        Some(leaf) => Err(CertError::NotAnAuthority { subject: leaf.subject().to_owned() }),
        None if certificates.is_empty() => Err(CertError::NoCertificate),
        None => Ok(certificates),
    }
}

fn unusable(key: &'static str) -> impl FnOnce(CertError) -> CaSecretError {
    move |source| CaSecretError::Unusable { key, source }
}
