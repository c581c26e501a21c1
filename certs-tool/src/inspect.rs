//! Reports on certificates and keys, for people and scripts.

use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde::Serialize;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::public_key::PublicKey;

use crate::certificate::Certificate;
use crate::error::CertError;
use crate::key::{self, KeyError};
use crate::validity::{Validity, rfc3339};

/// The description of one certificate. Serialises in camelCase with RFC 3339 dates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertReport {
    /// Origin of the certificate: a file's name, or the caller's name for the text.
    pub origin: String,
    /// Subject, such as `CN=copyrator`.
    pub subject: String,
    /// Issuer; the subject itself for a root.
    pub issuer: String,
    /// DNS names of the certificate.
    pub dns_names: Vec<String>,
    /// IP addresses of the certificate.
    pub ip_addresses: Vec<IpAddr>,
    /// Period in which the certificate may be used.
    #[serde(flatten)]
    pub validity: Validity,
    /// Whether the certificate may sign others.
    pub is_ca: bool,
    /// Type and size of the public key, such as `EC 256`.
    pub key_type: String,
    /// Object identifier of the signature algorithm.
    pub signature: String,
    /// SHA-256 of the certificate, lower-case hexadecimal.
    pub fingerprint: String,
    /// Whether one of the inspected keys belongs to the certificate; `None` if no key could be compared.
    pub matches_key: Option<bool>,
}

/// A problem that needs attention. Any finding makes `copyrator-certs inspect` exit with 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "finding")]
pub enum Finding {
    /// The certificate has expired.
    Expired {
        /// Origin of the certificate.
        origin: String,
        /// The certificate's subject, as one line.
        subject: String,
    },
    /// The certificate is not valid yet.
    NotYetValid {
        /// Origin of the certificate.
        origin: String,
        /// The certificate's subject, as one line.
        subject: String,
    },
    /// The private key belongs to none of the certificates.
    KeyWithoutCertificate {
        /// Origin of the key.
        origin: String,
    },
    /// The private key could not be compared.
    UnreadableKey {
        /// Origin of the key.
        origin: String,
        /// The reason, without the key's content.
        reason: String,
    },
}

/// Why a text could not be inspected.
#[derive(Debug, thiserror::Error)]
#[error("cannot inspect `{origin}`: {source}")]
pub struct InspectError {
    /// Origin of the text.
    pub origin: String,
    /// The error in the text.
    pub source: CertError,
}

/// Everything found in a set of PEM texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The certificates, in the order read.
    pub certificates: Vec<CertReport>,
    /// Problems that need attention at the given time.
    pub findings: Vec<Finding>,
}

/// Describes the certificates in these texts at `now`, and compares them with the private keys in the texts.
/// Each text comes with the name of its origin.
///
/// # Errors
/// The origin of a damaged certificate, with the reason.
pub fn inspect<'a>(
    texts: impl IntoIterator<Item = (&'a str, &'a str)>,
    now: SystemTime,
) -> Result<Report, InspectError> {
    let mut certificates = Vec::new();
    let mut keys = Vec::new();
    for (origin, text) in texts {
        let read = Certificate::all_from_pem(text).map_err(failed(origin))?;
        certificates.extend(read.into_iter().map(|certificate| (origin, certificate)));
        if PrivateKeyDer::from_pem_slice(text.as_bytes()).is_ok() {
            keys.push((origin, key::public_bits(text.as_bytes())));
        }
    }
    let mut report = Report::default();
    for (origin, certificate) in &certificates {
        let readable: Vec<_> = keys.iter().filter_map(|(_, key)| key.as_ref().ok()).collect();
        let matches_key =
            (!readable.is_empty()).then(|| readable.iter().any(|key| is_pair(key, certificate)));
        let described = describe(origin, certificate, matches_key).map_err(failed(origin))?;
        report.certificates.push(described);
        report.findings.extend(out_of_date(origin, certificate, now));
    }
    for (origin, key) in &keys {
        report.findings.extend(unmatched(origin, key, &certificates));
    }
    Ok(report)
}

fn failed(origin: &str) -> impl FnOnce(CertError) -> InspectError {
    move |source| InspectError { origin: origin.to_owned(), source }
}

fn out_of_date(origin: &str, certificate: &Certificate, now: SystemTime) -> Option<Finding> {
    let (origin, subject) = (origin.to_owned(), certificate.subject().to_owned());
    match certificate.validity() {
        period if period.is_expired(now) => Some(Finding::Expired { origin, subject }),
        period if !period.contains(now) => Some(Finding::NotYetValid { origin, subject }),
        _ => None,
    }
}

fn unmatched(
    origin: &str,
    key: &Result<Vec<u8>, KeyError>,
    certificates: &[(&str, Certificate)],
) -> Option<Finding> {
    let origin = origin.to_owned();
    match key {
        Err(reason) => Some(Finding::UnreadableKey { origin, reason: reason.to_string() }),
        Ok(_) if certificates.is_empty() => None, // nothing it could have matched
        Ok(key) if certificates.iter().any(|(_, certificate)| is_pair(key, certificate)) => None,
        Ok(_) => Some(Finding::KeyWithoutCertificate { origin }),
    }
}

fn is_pair(public_bits: &[u8], certificate: &Certificate) -> bool {
    public_bits == certificate.public_key()
}

fn describe(
    origin: &str,
    certificate: &Certificate,
    matches_key: Option<bool>,
) -> Result<CertReport, CertError> {
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate.der()).map_err(|_| CertError::Undecodable)?;
    let mut dns_names = Vec::new();
    let mut ip_addresses = Vec::new();
    if let Some(names) = parsed.subject_alternative_name().map_err(|_| CertError::Undecodable)? {
        for name in &names.value.general_names {
            match name {
                GeneralName::DNSName(name) => dns_names.push((*name).to_owned()),
                GeneralName::IPAddress(octets) => ip_addresses.extend(address(octets)),
                _ => {}
            }
        }
    }
    Ok(CertReport {
        origin: origin.to_owned(),
        subject: certificate.subject().to_owned(),
        issuer: parsed.issuer().to_string(),
        dns_names,
        ip_addresses,
        validity: certificate.validity(),
        is_ca: certificate.is_authority(),
        key_type: key_type(&parsed),
        signature: parsed.signature_algorithm.algorithm.to_id_string(),
        fingerprint: certificate.fingerprint(),
        matches_key,
    })
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
    }
}

fn key_type(parsed: &X509Certificate<'_>) -> String {
    match parsed.public_key().parsed() {
        Ok(PublicKey::EC(point)) => format!("EC {}", point.key_size()),
        Ok(PublicKey::RSA(key)) => format!("RSA {}", key.key_size()),
        _ => parsed.public_key().algorithm.algorithm.to_id_string(),
    }
}

impl fmt::Display for CertReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.dns_names.iter().cloned().chain(self.ip_addresses.iter().map(IpAddr::to_string));
        let own_key = match self.matches_key {
            Some(true) => "found",
            Some(false) => "none of these",
            None => "not given",
        };
        writeln!(f, "{}", self.origin)?;
        writeln!(f, "  subject      {}", self.subject)?;
        writeln!(f, "  issuer       {}", self.issuer)?;
        writeln!(f, "  names        {}", names.collect::<Vec<_>>().join(", "))?;
        writeln!(f, "  not before   {}", rfc3339(self.validity.not_before()))?;
        writeln!(f, "  not after    {}", rfc3339(self.validity.not_after()))?;
        writeln!(f, "  authority    {}", if self.is_ca { "yes" } else { "no" })?;
        writeln!(f, "  key          {} ({own_key})", self.key_type)?;
        writeln!(f, "  signature    {}", self.signature)?;
        writeln!(f, "  sha256       {}", self.fingerprint)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { origin, subject } => write!(f, "{origin}: `{subject}` has expired"),
            Self::NotYetValid { origin, subject } => write!(f, "{origin}: `{subject}` is not valid yet"),
            Self::KeyWithoutCertificate { origin } => {
                write!(f, "{origin}: the key does not belong to any of the certificates")
            }
            Self::UnreadableKey { origin, reason } => write!(f, "{origin}: {reason}"),
        }
    }
}
