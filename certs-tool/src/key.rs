//! Private keys, in a type no formatter can print.

use std::fmt;

use rcgen::KeyPair;
use ring::signature::{KeyPair as _, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

/// A private key in PEM. The type has no `Display` or `Serialize`, and its `Debug` shows no content; code
/// that writes the key to a file or a Secret calls [`expose`](Self::expose).
#[derive(Clone)]
pub struct PrivateKeyPem(String);

impl PrivateKeyPem {
    /// Wraps a PEM text as it is, without reading it.
    pub fn new(pem: impl Into<String>) -> Self {
        Self(pem.into())
    }

    /// The PEM text itself. Never hand the text to a formatter or a log.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivateKeyPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKeyPem(…)")
    }
}

/// Why a private key could not be used. The message never quotes the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The PEM text holds no section with a private key.
    #[error("the file has no PEM private key")]
    Absent,
    /// A key in its traditional form, which the signing library does not read.
    #[error("the key is not in PKCS#8 form; convert it with `openssl pkcs8 -topk8 -nocrypt`")]
    NotPkcs8,
    /// PKCS#8, but damaged, encrypted or of an unsupported algorithm.
    #[error("the key cannot be decoded, or is not an ECDSA P-256/P-384, Ed25519 or RSA key")]
    Undecodable,
}

/// Reads the first private key of a PEM text.
pub(crate) fn read(pem: &[u8]) -> Result<KeyPair, KeyError> {
    let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::Absent)?;
    if !matches!(der, PrivateKeyDer::Pkcs8(_)) {
        return Err(KeyError::NotPkcs8);
    }
    // Drops the parser's error, which may quote the key.
    KeyPair::try_from(&der).map_err(|_| KeyError::Undecodable)
}

/// DER prefix of the public half in a SEC1 key, and the length of the point after it: `[1] { BIT STRING }`
/// with an uncompressed point of P-256 or P-384. The public half is the last field of a SEC1 key (RFC 5915
/// §3).
const SEC1_POINTS: [(&[u8], usize); 2] =
    [(&[0xa1, 0x44, 0x03, 0x42, 0x00], 65), (&[0xa1, 0x64, 0x03, 0x62, 0x00], 97)];

/// Returns the public bits of the first private key in a PEM text. Reads every form that servers accept:
/// cert-manager, for example, writes SEC1 and PKCS#1 by default.
pub(crate) fn public_bits(pem: &[u8]) -> Result<Vec<u8>, KeyError> {
    match PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::Absent)? {
        PrivateKeyDer::Pkcs1(der) => {
            let key = RsaKeyPair::from_der(der.secret_pkcs1_der()).map_err(|_| KeyError::Undecodable)?;
            Ok(key.public_key().as_ref().to_vec())
        }
        PrivateKeyDer::Sec1(der) => {
            let der = der.secret_sec1_der();
            let point = SEC1_POINTS.iter().find_map(|(prefix, length)| {
                let (before, point) = der.split_at_checked(der.len().checked_sub(*length)?)?;
                before.ends_with(prefix).then_some(point)
            });
            point.map(<[u8]>::to_vec).ok_or(KeyError::Undecodable)
        }
        _ => Ok(read(pem)?.public_key_raw().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn debug_shows_no_key() {
        let pem = KeyPair::generate().unwrap().serialize_pem();
        let shown = format!("{:?}", PrivateKeyPem::new(pem.clone()));
        assert_eq!(shown, "PrivateKeyPem(…)");
        assert!(pem.lines().skip(1).all(|line| !shown.contains(line)));
    }

    #[test]
    fn a_traditional_key_shows_its_public_half() {
        // PKCS#8 wraps the traditional form, which starts like this (RFC 5915 §3, P-256).
        let made = KeyPair::generate().unwrap();
        let start = [0x30, 0x6b, 0x02, 0x01, 0x01, 0x04, 0x20];
        let at = made.serialized_der().windows(start.len()).position(|window| window == start).unwrap();
        let sec1 = STANDARD.encode(&made.serialized_der()[at..]);
        let pem = format!("-----BEGIN EC PRIVATE KEY-----\n{sec1}\n-----END EC PRIVATE KEY-----\n");
        assert_eq!(public_bits(pem.as_bytes()).unwrap(), made.public_key_raw());
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
