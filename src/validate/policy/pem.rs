//! Certificates and the pair of a certificate and its key.

use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use x509_parser::prelude::FromDer;

use super::format::Fault;

/// Reads every certificate of a PEM text.
pub(super) fn certificates(value: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let fault = |what, fix| Fault { what, fix, place: None };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(value).collect();
    let certificates = read.map_err(|_| {
        fault(
            "holds a damaged PEM section",
            "each section needs its BEGIN and END lines and base64 between them",
        )
    })?;
    if certificates.is_empty() {
        return Err(fault("holds no certificate", "write PEM that begins with -----BEGIN CERTIFICATE-----"));
    }
    let readable = |certificate: &CertificateDer<'_>| {
        x509_parser::certificate::X509Certificate::from_der(certificate)
            .is_ok_and(|(rest, _)| rest.is_empty())
    };
    match certificates.iter().all(readable) {
        true => Ok(certificates),
        false => Err(fault(
            "holds a PEM section that is no X.509 certificate",
            "write the certificate as it was issued",
        )),
    }
}

/// Whether a certificate (the first of its text) belongs to a private key.
pub(super) fn pair(certificate: &[u8], key: &[u8]) -> Result<(), (&'static str, Fault)> {
    let leaf = certificates(certificate).map_err(|fault| ("tls.crt", fault))?.swap_remove(0);
    let of_key = |what, fix| ("tls.key", Fault { what, fix, place: None });
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
        of_key("holds no private key", "write PEM that begins with -----BEGIN … PRIVATE KEY-----")
    })?;
    // What the parser says of a key may quote it: dropped.
    let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(|_| {
        of_key(
            "is a private key that cannot be read",
            "write an unencrypted RSA (2048 bits or more), ECDSA P-256 or P-384, or Ed25519 key",
        )
    })?;
    let matches = x509_parser::certificate::X509Certificate::from_der(&leaf).is_ok_and(|(_, certificate)| {
        key.public_key().is_some_and(|public| certificate.public_key().raw == public.as_ref())
    });
    match matches {
        true => Ok(()),
        false => Err(of_key(
            "does not belong to the first certificate of tls.crt",
            "write the key the certificate was issued for, and the leaf certificate first",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_pair_belongs_together() {
        let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
        let authority = copyrator_certs::Authority::issue("test", now, 10 * day).unwrap();
        let leaf = || authority.issue_leaf(&["a.example.com".to_owned()], &[], now, day).unwrap();
        let (one, other) = (leaf(), leaf());
        let certificate = one.chain_pem.clone();
        let fault = |certificate: &str, key: &str| {
            pair(certificate.as_bytes(), key.as_bytes())
                .map_err(|(key, fault)| format!("{key} {}", fault.what))
        };
        assert_eq!(fault(&certificate, one.key_pem.expose()), Ok(()));
        assert_eq!(
            fault(&certificate, other.key_pem.expose()).unwrap_err(),
            "tls.key does not belong to the first certificate of tls.crt"
        );
        assert_eq!(fault(&certificate, "secret").unwrap_err(), "tls.key holds no private key");
        assert_eq!(fault("x", one.key_pem.expose()).unwrap_err(), "tls.crt holds no certificate");
        let torn = certificate.replacen("MII", "AAA", 1);
        assert!(fault(&torn, one.key_pem.expose()).unwrap_err().starts_with("tls.crt holds a"), "{torn}");
        assert!(
            certificates(format!("{certificate}{}", authority.cert_pem()).as_bytes())
                .is_ok_and(|all| all.len() >= 2)
        );
    }
}
