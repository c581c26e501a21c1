//! Client certificates: which CAs and names a listener accepts, replaceable while serving.
//!
//! A connection outlives the bundle that accepted it, so each connection checks again at its next request
//! after the bundle has changed. Sessions are not resumed, since a resumed session is not verified.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    server::{
        NoServerSessionStorage, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use rustls_pki_types::{CertificateDer, UnixTime, pem::PemObject};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Why a bundle was not installed; the previous bundle stays in use.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The text contains an incomplete PEM block, such as the first half of a file.
    #[error("the bundle is not PEM text, or is incomplete")]
    Torn,
    /// The text contains no certificate.
    #[error("the bundle has no certificate")]
    Empty,
    /// A certificate in the bundle cannot be a trusted authority.
    #[error("certificate {number} of the bundle is not a usable certificate authority")]
    Unusable {
        /// The position of the certificate, from 1.
        number: usize,
        /// The reason that rustls gives.
        #[source]
        source: Error,
    },
    /// rustls could not build the verifier.
    #[error("the bundle cannot be used")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

/// The names of a certificate from a trusted authority, none of which is accepted.
#[derive(Debug, thiserror::Error)]
#[error(
    "a client certificate for {0:?} is trusted, but neither its common name nor a SAN is one of --client-names"
)]
struct Stranger(BTreeSet<String>);

/// The accepted client certificates. Clones share the certificates.
#[derive(Clone, Debug)]
pub struct ClientTrust(Arc<Gate>);

struct Gate {
    /// The accepted names; empty: every certificate of the authorities.
    names: BTreeSet<String>,
    provider: Arc<CryptoProvider>,
    installed: RwLock<Installed>,
}

#[derive(Clone, Default)]
struct Installed {
    /// The number of the bundle, from 1; 0 without a bundle.
    generation: u64,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl ClientTrust {
    /// Creates a trust without a bundle, which accepts no client. A trust with a bundle accepts clients whose
    /// certificate has one of these names (empty: any) as common name or as DNS, URI or mail SAN.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Self(Arc::new(Gate { names: names.into_iter().collect(), provider, installed: RwLock::default() }))
    }

    /// Replaces the accepted authorities. Returns how many authorities the bundle has.
    ///
    /// # Errors
    /// Returns an error if the bundle is invalid; the previous bundle stays in use.
    pub fn install(&self, bundle_pem: &[u8]) -> Result<usize, TrustError> {
        let mut roots = RootCertStore::empty();
        for (index, certificate) in CertificateDer::pem_slice_iter(bundle_pem).enumerate() {
            let certificate = certificate.map_err(|_| TrustError::Torn)?;
            roots.add(certificate).map_err(|source| TrustError::Unusable { number: index + 1, source })?;
        }
        let count = roots.len();
        if count == 0 {
            return Err(TrustError::Empty);
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), self.0.provider.clone());
        let verifier = builder.build().map_err(TrustError::Verifier)?;
        let mut installed = self.0.installed.write().unwrap_or_else(PoisonError::into_inner);
        *installed = Installed { generation: installed.generation + 1, verifier: Some(verifier) };
        Ok(count)
    }

    /// Whether a bundle is installed.
    pub fn is_installed(&self) -> bool {
        self.generation() > 0
    }

    /// The number of the installed bundle, from 1.
    pub fn generation(&self) -> u64 {
        self.0.now().generation
    }

    /// The verifier that demands certificates in a handshake.
    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        self.0.clone()
    }

    /// Makes a listener verify every handshake.
    pub(super) fn forbid_resumption(config: &mut rustls::ServerConfig) {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }

    /// Returns the caller of a new connection, before its handshake.
    pub(super) fn caller(&self) -> Caller {
        let generation = AtomicU64::new(self.generation());
        Caller { trust: self.clone(), generation, chain: Vec::new() }
    }
}

/// The caller at the other end of one connection.
pub(super) struct Caller {
    trust: ClientTrust,
    /// The number of the bundle that last verified the caller's certificate.
    generation: AtomicU64,
    chain: Vec<CertificateDer<'static>>,
}

impl Caller {
    /// Sets the certificates that the caller presented in the handshake.
    pub(super) fn presented(self, chain: Option<&[CertificateDer<'_>]>) -> Self {
        let owned = |certificate: &CertificateDer<'_>| certificate.clone().into_owned();
        Self { chain: chain.unwrap_or_default().iter().map(owned).collect(), ..self }
    }

    /// Whether the current bundle accepts the caller's certificate.
    pub(super) fn is_trusted(&self) -> bool {
        let installed = self.trust.0.now();
        if self.generation.load(Ordering::Relaxed) == installed.generation {
            return true;
        }
        let Some((leaf, rest)) = self.chain.split_first() else { return false };
        let trusted = self.trust.0.verify(&installed, leaf, rest, UnixTime::now()).is_ok();
        if trusted {
            self.generation.store(installed.generation, Ordering::Relaxed);
        }
        trusted
    }
}

impl Gate {
    fn now(&self) -> Installed {
        // The value is replaced as a whole, so a panic elsewhere cannot have left it half-written.
        self.installed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn verify(
        &self,
        installed: &Installed,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let Some(verifier) = &installed.verifier else {
            return Err(Error::General(
                "the process has not read a bundle of client authorities yet".to_owned(),
            ));
        };
        let verified = verifier.verify_client_cert(leaf, rest, now)?;
        if self.names.is_empty() {
            return Ok(verified);
        }
        let names = names(leaf).ok_or(CertificateError::BadEncoding)?;
        match names.is_disjoint(&self.names) {
            false => Ok(verified),
            true => Err(CertificateError::Other(OtherError(Arc::new(Stranger(names)))).into()),
        }
    }
}

/// Returns the common names of a certificate, and its textual SANs.
fn names(certificate: &CertificateDer<'_>) -> Option<BTreeSet<String>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let alternative = certificate.subject_alternative_name().ok()?;
    let alternative = alternative.iter().flat_map(|extension| &extension.value.general_names);
    let alternative = alternative.filter_map(|name| match name {
        GeneralName::DNSName(text) | GeneralName::URI(text) | GeneralName::RFC822Name(text) => Some(*text),
        _ => None,
    });
    Some(common.chain(alternative).map(str::to_owned).collect())
}

impl ClientCertVerifier for Gate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // The server does not name the accepted authorities: they can change, and a client with one
        // certificate sends that certificate anyway.
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(&self.now(), leaf, rest, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTrust").field("names", &self.names).finish_non_exhaustive()
    }
}
