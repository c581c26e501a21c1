//! Errors of reading and making certificates and keys.

use std::time::SystemTime;

use crate::key::KeyError;
use crate::validity::rfc3339;

/// Why a certificate could not be read or made. Never quotes key material.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// The PEM text holds no certificate.
    #[error("the file has no PEM certificate")]
    NoCertificate,
    /// The text holds a certificate that cannot be decoded.
    #[error("the certificate cannot be decoded")]
    Undecodable,
    /// The certificate may not sign others: no `CA:TRUE`, or a key usage without `keyCertSign`.
    #[error("the certificate of `{subject}` is not a certificate authority's")]
    NotAnAuthority {
        /// Subject of the certificate.
        subject: String,
    },
    /// The private key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Certificate and key are both valid, but do not belong together.
    #[error("the key does not belong to the certificate of `{subject}`")]
    KeyMismatch {
        /// Subject of the certificate.
        subject: String,
    },
    /// The requested dates do not fit a certificate (1970–9999).
    #[error("cannot issue `{subject}`: a certificate cannot express these dates")]
    Dates {
        /// Subject to be issued.
        subject: String,
    },
    /// The leaf would have no name, and so match no connection.
    #[error("cannot issue a leaf without a DNS name or IP address")]
    NoNames,
    /// The authority itself has expired, so clients would refuse anything that it signs.
    #[error("cannot issue `{subject}`: its authority expired at {}", rfc3339(*.not_after))]
    AuthorityExpired {
        /// Subject to be issued.
        subject: String,
        /// Last second of the authority.
        not_after: SystemTime,
    },
    /// A name was refused, or the signature failed.
    #[error("cannot issue `{subject}`: {source}")]
    Issue {
        /// Subject to be issued.
        subject: String,
        /// The library's error.
        source: rcgen::Error,
    },
}
