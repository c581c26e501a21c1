//! A parsed certificate: the public half of an authority or leaf.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;

use crate::error::CertError;
use crate::validity::Validity;

/// Base64 columns of a PEM line (RFC 7468 §2).
const PEM_COLUMNS: usize = 64;

/// A certificate, with the fields that the rest of the crate needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    der: CertificateDer<'static>,
    subject: String,
    common_name: String,
    validity: Validity,
    self_issued: bool,
    may_sign: bool,
    public_key: Vec<u8>,
}

impl Certificate {
    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// [`CertError::NoCertificate`] or [`CertError::Undecodable`].
    pub fn from_pem(pem: &str) -> Result<Self, CertError> {
        Self::all_from_pem(pem)?.into_iter().next().ok_or(CertError::NoCertificate)
    }

    /// Reads every certificate of a PEM text, in order; empty for a text with none.
    ///
    /// # Errors
    /// [`CertError::Undecodable`] if any certificate is damaged.
    pub fn all_from_pem(pem: &str) -> Result<Vec<Self>, CertError> {
        CertificateDer::pem_slice_iter(pem.as_bytes())
            .map(|der| Self::from_der(der.map_err(|_| CertError::Undecodable)?))
            .collect()
    }

    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// [`CertError::Undecodable`].
    pub fn from_der(der: CertificateDer<'static>) -> Result<Self, CertError> {
        let (rest, parsed) = x509_parser::parse_x509_certificate(&der).map_err(|_| CertError::Undecodable)?;
        if !rest.is_empty() {
            return Err(CertError::Undecodable);
        }
        Ok(Self {
            subject: parsed.subject().to_string(),
            common_name: common_name(&parsed),
            validity: Validity::of(&parsed),
            self_issued: parsed.subject().as_raw() == parsed.issuer().as_raw(),
            may_sign: may_sign(&parsed),
            public_key: parsed.public_key().subject_public_key.data.to_vec(),
            der,
        })
    }

    /// PEM text, in lines of 64 columns.
    pub fn pem(&self) -> String {
        let encoded = STANDARD.encode(&self.der);
        let mut pem = String::with_capacity(encoded.len() + encoded.len() / PEM_COLUMNS + 64);
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(PEM_COLUMNS));
            pem.push_str(line);
            pem.push('\n');
            rest = after;
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }

    /// The whole certificate, as DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// The whole subject, such as `CN=copyrator`; empty where it has none.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The subject's common name; empty where it has none.
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// Period in which the certificate may be used.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether subject and issuer are the same: a root, or a self-signed leaf.
    pub fn is_self_issued(&self) -> bool {
        self.self_issued
    }

    /// Whether the certificate may sign others: `CA:TRUE`, and `keyCertSign` unless the key usage is absent.
    pub fn is_authority(&self) -> bool {
        self.may_sign
    }

    /// SHA-256 of the DER in lower-case hexadecimal. The fingerprint is public, and identifies the
    /// certificate uniquely.
    pub fn fingerprint(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.der);
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The public key's raw bits, to compare with those of a private key.
    pub(crate) fn public_key(&self) -> &[u8] {
        &self.public_key
    }
}

fn may_sign(parsed: &X509Certificate<'_>) -> bool {
    let usage = match parsed.key_usage() {
        Ok(Some(usage)) => usage.value.key_cert_sign(),
        Ok(None) => true, // absent means unrestricted (RFC 5280 §4.2.1.3)
        Err(_) => false,
    };
    parsed.is_ca() && usage
}

fn common_name(parsed: &X509Certificate<'_>) -> String {
    let name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    name.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_is_what_other_tools_write() {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap().cert.pem();
        assert_eq!(Certificate::from_pem(&made).unwrap().pem(), made);
    }

    #[test]
    fn a_text_without_a_certificate_is_told_from_a_damaged_one() {
        assert!(matches!(Certificate::from_pem("hello"), Err(CertError::NoCertificate)));
        let torn = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(Certificate::from_pem(torn), Err(CertError::Undecodable)));
        let cut = "-----BEGIN CERTIFICATE-----\nAAAA\n";
        assert!(Certificate::from_pem(cut).is_err());
    }
}
