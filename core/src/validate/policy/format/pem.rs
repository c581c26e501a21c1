//! Certificates, private keys, and pairs of a certificate and its key, in PEM.

use jiff::{SignedDuration, Timestamp};
use x509_parser::{
    certificate::X509Certificate,
    error::X509Error,
    oid_registry::{OID_NIST_HASH_SHA256, OID_NIST_HASH_SHA384, OID_NIST_HASH_SHA512},
    prelude::FromDer,
    signature_algorithm::SignatureAlgorithm,
};

use super::{key::PublicKey, pem_sections::sections};
use crate::validate::policy::{Position, fault::Fault};

/// The maximum number of certificates in a chain: each certificate costs verifying a signature.
const LONGEST_CHAIN: usize = 16;

/// How long certificates must remain valid.
#[derive(Clone, Copy, Debug)]
pub(in crate::validate::policy) struct Remaining {
    /// The least remaining time.
    pub(in crate::validate::policy) least: SignedDuration,
    /// The present time, for the remaining validity.
    pub(in crate::validate::policy) now: Timestamp,
}

/// A certificate of a PEM text.
pub(super) struct Certificate {
    place: Position,
    der: Vec<u8>,
}

impl Certificate {
    /// Parses the certificate; `None` for text that is no X.509 certificate, or has trailing bytes.
    fn parsed(&self) -> Option<X509Certificate<'_>> {
        X509Certificate::from_der(&self.der)
            .ok()
            .filter(|(rest, _)| rest.is_empty())
            .map(|(_, parsed)| parsed)
    }
}

/// Reads every certificate of a PEM text.
pub(super) fn certificates(value: &[u8]) -> Result<Vec<Certificate>, Fault> {
    let sections = sections(value)?.into_iter().filter(|section| section.label == "CERTIFICATE");
    let certificates: Vec<Certificate> = sections
        .map(|section| Certificate { place: section.place, der: section.content.unwrap_or_default() })
        .collect();
    if certificates.is_empty() {
        return Err(Fault::new(
            "has no certificate",
            "write PEM that begins with -----BEGIN CERTIFICATE-----",
        ));
    }
    match certificates.iter().find(|certificate| certificate.parsed().is_none()) {
        None => Ok(certificates),
        Some(certificate) => Err(Fault {
            place: Some(certificate.place),
            ..Fault::new(
                "has a PEM section that is not an X.509 certificate",
                "use the certificate as it was issued",
            )
        }),
    }
}

/// Accepts a text whose certificates all remain valid for long enough.
pub(in crate::validate::policy) fn remaining(value: &[u8], asked: Remaining) -> Result<(), Fault> {
    let all = certificates(value)?;
    let until = asked.now.saturating_add(asked.least).unwrap_or(Timestamp::MAX).as_second();
    let ends = |certificate: &Certificate| {
        certificate.parsed().map_or(i64::MIN, |it| it.validity().not_after.timestamp())
    };
    let Some(index) = all.iter().position(|certificate| ends(certificate) <= until) else { return Ok(()) };
    let what = match ends(&all[index]) <= asked.now.as_second() {
        true => "has expired".to_owned(),
        false => format!("expires sooner than the required {:#}", asked.least),
    };
    Err(Fault {
        place: Some(all[index].place),
        ..Fault::new(
            format!("has a certificate (number {} of {}) that {what}", index + 1, all.len()),
            "renew it",
        )
    })
}

/// Reads the first private key of a PEM text. Servers ignore any further keys.
pub(super) fn key(value: &[u8]) -> Result<PublicKey, Fault> {
    let mut sections = sections(value)?.into_iter();
    let first = sections.find(|section| section.label.ends_with("PRIVATE KEY")).ok_or_else(|| {
        Fault::new("has no private key", "write PEM that begins with -----BEGIN … PRIVATE KEY-----")
    })?;
    let Some(private) = first.content.filter(|_| first.label != "ENCRYPTED PRIVATE KEY") else {
        return Err(Fault::new(
            "is an encrypted private key, which no server can use without its passphrase",
            "decrypt it: openssl pkey -in encrypted.pem -out key.pem",
        ));
    };
    PublicKey::of(&first.label, &private).ok_or_else(|| {
        Fault::new(
            "is an unsupported or damaged private key",
            "write an unencrypted RSA (2048 to 16384 bits), ECDSA (P-256, P-384 or P-521) or Ed25519 key",
        )
    })
}

/// Accepts a private key that belongs to the first certificate of a chain, in which each certificate is
/// issued by the next one.
pub(in crate::validate::policy) fn pair(
    certificate: &[u8],
    private: &[u8],
) -> Result<(), (&'static str, Fault)> {
    let chain = certificates(certificate).map_err(|fault| ("tls.crt", fault))?;
    let private = key(private).map_err(|fault| ("tls.key", fault))?;
    let links: Vec<_> = chain.iter().filter_map(Certificate::parsed).collect();
    if !links.first().is_some_and(|leaf| private.is_of(leaf)) {
        return Err((
            "tls.key",
            Fault::new(
                "does not belong to the first certificate of tls.crt",
                "write the private key of the certificate, and put the leaf certificate first in tls.crt",
            ),
        ));
    }
    if chain.len() > LONGEST_CHAIN {
        let what =
            format!("has {} certificates, more than the maximum of {LONGEST_CHAIN} for a chain", chain.len());
        return Err((
            "tls.crt",
            Fault::new(what, "write the leaf and its intermediate certificates, without root certificates"),
        ));
    }
    for (index, link) in links.windows(2).enumerate() {
        if !is_issued_by(&link[0], &link[1]) {
            let fault = Fault::new(
                format!("has a certificate (number {}) that the next certificate did not issue", index + 1),
                "write the leaf first, then each certificate's issuer",
            );
            return Err(("tls.crt", Fault { place: Some(chain[index].place), ..fault }));
        }
    }
    Ok(())
}

/// Compares names and verifies the signature. A signature by an unsupported algorithm is accepted.
fn is_issued_by(certificate: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> bool {
    certificate.issuer().as_raw() == issuer.subject().as_raw()
        && match certificate.verify_signature(Some(issuer.public_key())) {
            Ok(()) | Err(X509Error::SignatureUnsupportedAlgorithm) => true,
            Err(_) => has_a_salt_of_its_own(certificate),
        }
}

/// Whether the signature is RSA-PSS with a salt that is not as long as the digest. The library verifies no
/// other length, although OpenSSL uses the longest possible salt by default.
fn has_a_salt_of_its_own(certificate: &X509Certificate<'_>) -> bool {
    match SignatureAlgorithm::try_from(&certificate.signature_algorithm) {
        Ok(SignatureAlgorithm::RSASSA_PSS(parameters)) => {
            let lengths =
                [(OID_NIST_HASH_SHA256, 32), (OID_NIST_HASH_SHA384, 48), (OID_NIST_HASH_SHA512, 64)];
            let digest = lengths.iter().find(|(oid, _)| oid == parameters.hash_algorithm_oid());
            digest.is_none_or(|(_, length)| parameters.salt_length() != *length)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use copyrator_certs::Authority;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn told(result: Result<(), (&'static str, Fault)>) -> Result<(), String> {
        result.map_err(|(key, fault)| {
            let line = fault.place.map(|place| format!(" in line {}", place.line)).unwrap_or_default();
            format!("{key} {}{line}", fault.what)
        })
    }

    #[test]
    fn a_pair_belongs_together() {
        let authority = Authority::issue("test", SystemTime::now(), 10 * DAY).unwrap();
        let leaf =
            || authority.issue_leaf(&["a.example.com".to_owned()], &[], SystemTime::now(), DAY).unwrap();
        let (one, other) = (leaf(), leaf());
        let certificate = one.chain_pem.clone();
        let fault = |certificate: &str, key: &str| told(pair(certificate.as_bytes(), key.as_bytes()));
        let key = one.key_pem.expose();
        assert_eq!(fault(&certificate, key), Ok(()));
        for (certificate, key, says) in [
            (
                &*certificate,
                other.key_pem.expose(),
                "tls.key does not belong to the first certificate of tls.crt",
            ),
            (&certificate, "secret", "tls.key has no private key"),
            (
                &certificate,
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                "tls.key is an unsupported or damaged private key",
            ),
            (
                &certificate,
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
                "tls.key is an encrypted private key",
            ),
            ("x", key, "tls.crt has no certificate"),
            (
                &certificate.replacen("MII", "AAA", 1),
                key,
                "tls.crt has a PEM section that is not an X.509 certificate in line 1",
            ),
        ] {
            let told = fault(certificate, key).unwrap_err();
            assert!(told.starts_with(says), "{says}: {told}");
        }
    }

    #[test]
    fn each_certificate_of_a_chain_is_issued_by_the_next() {
        let named = |name| Authority::issue(name, SystemTime::now(), 10 * DAY).unwrap();
        let (authority, twin, stranger) = (named("test"), named("test"), named("other"));
        let leaf = authority.issue_leaf(&["a".to_owned()], &[], SystemTime::now(), DAY).unwrap();
        const END: &str = "-----END CERTIFICATE-----\n";
        let first = leaf.chain_pem.split_inclusive(END).next().unwrap().to_owned();
        let check = |chain: &[&str]| told(pair(chain.concat().as_bytes(), leaf.key_pem.expose().as_bytes()));
        let (right, same_name, other) = (authority.cert_pem(), twin.cert_pem(), stranger.cert_pem());
        assert_eq!(check(&[&first]), Ok(()));
        assert_eq!(check(&[&first, &right]), Ok(()));
        for wrong in [&same_name, &other, &first] {
            let told = check(&[&first, wrong]).unwrap_err();
            assert_eq!(
                told,
                "tls.crt has a certificate (number 1) that the next certificate did not issue in line 1"
            );
        }
        let told = check(&[&first, &right, &other]).unwrap_err();
        assert!(told.contains("number 2") && !told.ends_with("line 1"), "{told}");
        assert!(
            check(&[&first, &right.repeat(16)])
                .unwrap_err()
                .contains("17 certificates, more than the maximum of 16")
        );
        assert!(check(&[&right, &first]).unwrap_err().contains("does not belong"));
    }

    #[test]
    fn every_certificate_must_be_valid_for_long_enough() {
        let issued = SystemTime::now();
        let authority = Authority::issue("test", issued, 10 * DAY).unwrap();
        let leaf = authority.issue_leaf(&["a".to_owned()], &[], issued, DAY).unwrap();
        let both = format!("{}{}", authority.cert_pem(), leaf.chain_pem);
        let (authority, issued) = (authority.cert_pem(), Timestamp::try_from(issued).unwrap());
        let check = |text: &str, least_hours, hours_from_now| {
            let now = issued.saturating_add(SignedDuration::from_hours(hours_from_now)).unwrap();
            let asked = Remaining { least: SignedDuration::from_hours(least_hours), now };
            remaining(text.as_bytes(), asked).map_err(|fault| fault.what.into_owned())
        };
        assert_eq!(check(&authority, 0, 239), Ok(()));
        assert_eq!(check(&both, 20, 0), Ok(()));
        assert_eq!(
            check(&authority, 0, 241).unwrap_err(),
            "has a certificate (number 1 of 1) that has expired"
        );
        assert_eq!(
            check(&authority, 48, 200).unwrap_err(),
            "has a certificate (number 1 of 1) that expires sooner than the required 48h"
        );
        assert!(check(&both, 48, 0).unwrap_err().starts_with("has a certificate (number 2 of "));
        assert!(check(&authority, i64::MAX / 3600 - 1, 0).is_err());
    }

    #[test]
    fn keys_of_each_kind_are_read() {
        let leaf = Authority::issue("test", SystemTime::now(), DAY).unwrap();
        assert!(key(leaf.key_pem().expose().as_bytes()).is_ok());
        assert!(key(leaf.cert_pem().as_bytes()).is_err_and(|fault| fault.what == "has no private key"));
        let legacy = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        assert!(key(legacy.as_bytes()).is_err_and(|fault| fault.what.contains("encrypted")));
    }

    #[test]
    fn bombs_of_sections_are_read_once() {
        let section = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(certificates(section.repeat(17_000).as_bytes()).is_err());
        assert!(certificates("-----BEGIN CERTIFICATE-----\n".repeat(37_000).as_bytes()).is_err());
        assert!(key("-----BEGIN PRIVATE KEY-----\n".repeat(37_000).as_bytes()).is_err());
        assert!(certificates(&b"-".repeat(1 << 20)).is_err());
        let good = Authority::issue("test", SystemTime::now(), DAY).unwrap().cert_pem();
        assert!(certificates(good.repeat((1 << 20) / good.len()).as_bytes()).is_ok());
    }
}
