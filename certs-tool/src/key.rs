//! Private keys, in a type no formatter can print.

use std::fmt;

use rcgen::KeyPair;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

/// A private key in PEM. It has no `Display` or `Serialize` and its `Debug` shows no content; whoever
/// writes it to a file or a Secret says so with [`expose`](Self::expose).
#[derive(Clone)]
pub struct PrivateKeyPem(String);

impl PrivateKeyPem {
    /// Wraps a PEM text as it is, without reading it.
    pub fn new(pem: impl Into<String>) -> Self {
        Self(pem.into())
    }

    /// The PEM text itself. Never hand it to a formatter or a log.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivateKeyPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKeyPem(…)")
    }
}

/// Why a private key could not be used. Says nothing of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The PEM text holds no section with a private key.
    #[error("no PEM private key in it")]
    Absent,
    /// A key in its traditional form, which the signing library does not read.
    #[error("the key is not in PKCS#8 form; convert it with `openssl pkcs8 -topk8 -nocrypt`")]
    NotPkcs8,
    /// PKCS#8, but damaged, encrypted or of a kind unknown here.
    #[error("the key cannot be decoded, or is neither ECDSA P-256/P-384, Ed25519 nor RSA")]
    Undecodable,
}

/// Reads the first private key of a PEM text.
pub(crate) fn read(pem: &[u8]) -> Result<KeyPair, KeyError> {
    let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::Absent)?;
    if !matches!(der, PrivateKeyDer::Pkcs8(_)) {
        return Err(KeyError::NotPkcs8);
    }
    // The source is dropped: what a parser says of a key may quote it.
    KeyPair::try_from(&der).map_err(|_| KeyError::Undecodable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_key() {
        let pem = KeyPair::generate().unwrap().serialize_pem();
        let shown = format!("{:?}", PrivateKeyPem::new(pem.clone()));
        assert_eq!(shown, "PrivateKeyPem(…)");
        assert!(pem.lines().skip(1).all(|line| !shown.contains(line)));
    }

    #[test]
    fn errors_name_the_fault() {
        assert_eq!(read(b"nothing").unwrap_err(), KeyError::Absent);
        let sec1 = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n";
        assert_eq!(read(sec1.as_bytes()).unwrap_err(), KeyError::NotPkcs8);
        let torn = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert_eq!(read(torn.as_bytes()).unwrap_err(), KeyError::Undecodable);
    }
}
