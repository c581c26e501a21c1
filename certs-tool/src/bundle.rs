//! The Secret that holds the authority: its keys, and what they mean.
//!
//! | key | meaning |
//! |---|---|
//! | `ca.crt`, `ca.key` | the authority that signs now |
//! | `ca-next.crt`, `ca-next.key` | during a rotation: already to be trusted, not yet signing |
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

/// Earlier authorities kept in the bundle. Renewing is rare, so more than this many still valid ones
/// mean that something renews in a loop, and the bundle is copied into every hook.
const OLD_KEPT: usize = 4;

/// Why the Secret's data make no authority. Names the key, never its content.
#[derive(Debug, thiserror::Error)]
pub enum CaSecretError {
    /// Half of a pair is there, or nothing at all.
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
    /// The value is no usable certificate or key, or not of one pair with its other half.
    #[error("the CA Secret's `{key}`: {source}")]
    Unusable {
        /// Key of the Secret's data.
        key: &'static str,
        /// What is wrong with it.
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
    /// A Secret with one fresh authority and no rotation under way.
    pub fn new(current: Authority) -> Self {
        Self { current, next: None, old: Vec::new() }
    }

    /// Decodes a Secret's data. Keys other than the five above are ignored.
    ///
    /// # Errors
    /// Anything torn or undecodable: a wrong `ca-old.crt` too, for dropping it silently would break
    /// the trust of leaves still being served.
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

    /// The Secret's data; the exact inverse of [`from_data`](Self::from_data). Holds private keys: for
    /// the API server or a file with mode 0600 only.
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

    /// PEM of every certificate a client must trust at `now`: the current one always (an empty bundle
    /// would be worse than an expired one), the next and the old ones while they are valid.
    pub fn trust_bundle(&self, now: SystemTime) -> String {
        let others = self.next.iter().map(Authority::certificate).chain(&self.old);
        let others = others.filter(|certificate| !certificate.validity().is_expired(now));
        std::iter::once(self.current.certificate()).chain(others).map(Certificate::pem).collect()
    }

    /// Whether the current authority has used up two thirds of its lifetime at `now`, by the wall clock.
    pub fn renewal_due(&self, now: SystemTime) -> bool {
        self.current.validity().renewal_at() <= now
    }

    /// A new current authority of the same name and lifetime; the one before stays in the bundle for as
    /// long as it is valid, so leaves it signed keep being accepted. An authority already announced as
    /// next is used instead of a fresh one.
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

    /// This with another current authority; the one before becomes the newest of the old.
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
