//! A certificate authority: its certificate, and the key that signs with it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose};

use crate::certificate::Certificate;
use crate::error::CertError;
use crate::key::{self, PrivateKeyPem};
use crate::validity::Validity;

/// A certificate authority able to sign leaves. Cheap to clone; `Debug` shows no key.
#[derive(Clone)]
pub struct Authority {
    certificate: Certificate,
    key: Arc<KeyPair>,
    key_pem: PrivateKeyPem,
}

impl Authority {
    /// Makes a new self-signed ECDSA P-256 authority, valid from one hour before `now` until `lifetime`
    /// after it, with `CA:TRUE, pathlen:0` and `keyCertSign` only.
    ///
    /// # Errors
    /// [`CertError::Dates`] or [`CertError::Issue`].
    pub fn issue(common_name: &str, now: SystemTime, lifetime: Duration) -> Result<Self, CertError> {
        let refused = |source| CertError::Issue { subject: common_name.to_owned(), source };
        let (not_before, not_after) = Validity::starting(now, lifetime)
            .and_then(|validity| validity.as_dates())
            .ok_or_else(|| CertError::Dates { subject: common_name.to_owned() })?;
        let mut params = CertificateParams::default();
        params.not_before = not_before;
        params.not_after = not_after;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().map_err(refused)?;
        let certificate = params.self_signed(&key).map_err(refused)?;
        // Loads the new certificate from its PEM, so that a new and a loaded authority cannot differ.
        Self::from_pem(&certificate.pem(), &key.serialize_pem())
    }

    /// Loads an authority from its certificate (the first, where there are several) and its PKCS#8 key. The
    /// authority may be expired: check its [`validity`](Self::validity).
    ///
    /// # Errors
    /// A half is missing or cannot be decoded, the certificate is not an authority's, or the key belongs to a
    /// different certificate.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, CertError> {
        let certificate = Certificate::from_pem(certificate)?;
        if !certificate.is_authority() {
            return Err(CertError::NotAnAuthority { subject: certificate.subject().to_owned() });
        }
        let pair = key::read(key.as_bytes())?;
        if pair.public_key_raw() != certificate.public_key() {
            return Err(CertError::KeyMismatch { subject: certificate.subject().to_owned() });
        }
        Ok(Self { certificate, key: Arc::new(pair), key_pem: PrivateKeyPem::new(key) })
    }

    /// The certificate: the public half of the authority.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The certificate of the authority, as PEM.
    pub fn cert_pem(&self) -> String {
        self.certificate.pem()
    }

    /// The signing key, in a type that no formatter prints.
    pub fn key_pem(&self) -> &PrivateKeyPem {
        &self.key_pem
    }

    /// Period in which the authority may be used.
    pub fn validity(&self) -> Validity {
        self.certificate.validity()
    }

    /// Last second in which the authority may be used.
    pub fn not_after(&self) -> SystemTime {
        self.validity().not_after()
    }

    /// SHA-256 of the certificate in lower-case hexadecimal.
    pub fn fingerprint(&self) -> String {
        self.certificate.fingerprint()
    }

    pub(crate) fn signing_key(&self) -> &KeyPair {
        &self.key
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("subject", &self.certificate.subject())
            .field("fingerprint", &self.fingerprint())
            .field("validity", &self.validity())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + 20_000 * DAY
    }

    #[test]
    fn an_issued_authority_loads_again() {
        let made = Authority::issue("copyrator", now(), 365 * DAY).unwrap();
        let loaded = Authority::from_pem(&made.cert_pem(), made.key_pem().expose()).unwrap();
        assert_eq!(loaded.fingerprint(), made.fingerprint());
        assert_eq!(loaded.not_after(), now() + 365 * DAY);
        assert_eq!(loaded.validity().not_before(), now() - Duration::from_secs(3600));
        assert_eq!(loaded.certificate().common_name(), "copyrator");
        assert!(loaded.certificate().is_self_issued());
    }

    #[test]
    fn a_key_of_another_pair_is_refused() {
        let one = Authority::issue("one", now(), DAY).unwrap();
        let two = Authority::issue("two", now(), DAY).unwrap();
        let torn = Authority::from_pem(&one.cert_pem(), two.key_pem().expose()).unwrap_err();
        assert!(matches!(torn, CertError::KeyMismatch { subject } if subject == "CN=one"));
    }

    #[test]
    fn a_leaf_is_no_authority() {
        let leaf = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let refused = Authority::from_pem(&leaf.cert.pem(), &leaf.signing_key.serialize_pem()).unwrap_err();
        assert!(matches!(refused, CertError::NotAnAuthority { .. }));
    }

    #[test]
    fn debug_shows_no_key() {
        let made = Authority::issue("copyrator", now(), DAY).unwrap();
        let shown = format!("{made:?}");
        assert!(shown.contains("CN=copyrator"));
        assert!(made.key_pem().expose().lines().all(|line| !shown.contains(line)));
    }
}
