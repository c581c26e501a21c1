//! The serving certificate, replaceable while serving.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use copyrator_certs::{CertError, Certificate, PrivateKeyPem};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

use super::client_trust::ClientTrust;

/// Why a certificate was not installed; the previous certificate stays in use. Messages never quote the key.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The chain has no certificate, or a damaged certificate.
    #[error("cannot serve the certificate: {0}")]
    Chain(#[from] CertError),
    /// The text contains no private key, or a key of an unsupported kind.
    #[error("cannot serve the certificate of `{subject}`: its private key cannot be loaded")]
    Key {
        /// Subject of the leaf certificate.
        subject: String,
    },
    /// The private key does not belong to the leaf.
    #[error(
        "cannot serve the certificate of `{subject}`: the private key does not belong to the certificate"
    )]
    Mismatch {
        /// Subject of the leaf certificate.
        subject: String,
    },
}

/// The certificate that handshakes present. Clones share the certificate.
#[derive(Clone)]
pub struct ServingCert {
    slot: Arc<Slot>,
    provider: Arc<CryptoProvider>,
    ends: Gauge,
}

#[derive(Default)]
struct Slot(RwLock<Option<Installed>>);

#[derive(Clone)]
struct Installed {
    key: Arc<CertifiedKey>,
    leaf: Certificate,
}

impl Default for ServingCert {
    fn default() -> Self {
        Self::new()
    }
}

impl ServingCert {
    /// Creates a slot without a certificate: handshakes fail until [`install`](Self::install) has succeeded.
    pub fn new() -> Self {
        // The provider is explicit, so we need no process-wide default.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Self { slot: Arc::default(), provider, ends: Gauge::default() }
    }

    /// Registers a metric with the certificate's expiry. The registry's prefix must name the listener.
    pub fn register(&self, registry: &mut Registry) {
        let help = "When the serving certificate ends, in seconds since 1970; 0 while there is none";
        registry.register("certificate_not_after_timestamp_seconds", help, self.ends.clone());
    }

    /// Installs a new certificate, from the next handshake on, if its chain and key belong together.
    ///
    /// # Errors
    /// Returns an error if the certificate or key is unusable; the previous certificate stays in use.
    pub fn install(&self, chain_pem: &str, key_pem: &PrivateKeyPem) -> Result<(), InstallError> {
        let chain = Certificate::all_from_pem(chain_pem)?;
        let leaf = chain.first().cloned().ok_or(CertError::NoCertificate)?;
        let subject = || leaf.subject().to_owned();
        let key = PrivateKeyDer::from_pem_slice(key_pem.expose().as_bytes())
            .map_err(|_| InstallError::Key { subject: subject() })?;
        // The parser's message is dropped: it may quote the key.
        let signer = self
            .provider
            .key_provider
            .load_private_key(key)
            .map_err(|_| InstallError::Key { subject: subject() })?;
        let chain = chain.iter().map(|certificate| certificate.der().clone()).collect();
        let key = CertifiedKey::new(chain, signer);
        key.keys_match().map_err(|_| InstallError::Mismatch { subject: subject() })?;
        let ends = leaf.validity().not_after().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        *self.slot.0.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Installed { key: Arc::new(key), leaf });
        self.ends.set(i64::try_from(ends.as_secs()).unwrap_or(i64::MAX));
        Ok(())
    }

    /// Returns the last second of the certificate in use; `None` if none is installed.
    pub fn not_after(&self) -> Option<SystemTime> {
        self.slot.installed().map(|installed| installed.leaf.validity().not_after())
    }

    /// Whether the certificate is valid at this time.
    ///
    /// # Errors
    /// Returns the reason, if no certificate is installed or the installed certificate is expired or not
    /// valid yet.
    pub fn is_valid_at(&self, now: SystemTime) -> Result<(), String> {
        let Some(leaf) = self.leaf() else { return Err("there is no serving certificate yet".to_owned()) };
        match leaf.validity().contains(now) {
            true => Ok(()),
            false => {
                let ends = jiff::Timestamp::try_from(leaf.validity().not_after())
                    .map_or_else(|_| "?".to_owned(), |time| time.to_string());
                Err(format!("the serving certificate has expired, or is not valid yet: it ends {ends}"))
            }
        }
    }

    /// Returns the leaf certificate in use; `None` if none is installed.
    pub fn leaf(&self) -> Option<Certificate> {
        self.slot.installed().map(|installed| installed.leaf)
    }

    /// Returns the TLS configuration of a listener: TLS 1.2 and 1.3, and HTTP/1.1 only. The API server does
    /// not use HTTP/2 for webhooks (kubernetes/kubernetes pull 82090), so we avoid attacks over HTTP/2. With
    /// `clients`, every client needs a certificate that `clients` accepts.
    ///
    /// # Errors
    /// Returns an error only if the built-in provider lacks these TLS versions.
    pub fn server_config(
        &self,
        clients: Option<&ClientTrust>,
    ) -> Result<Arc<rustls::ServerConfig>, rustls::Error> {
        let builder = rustls::ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients.verifier()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(self.slot.clone());
        if clients.is_some() {
            ClientTrust::forbid_resumption(&mut config);
        }
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl Slot {
    fn installed(&self) -> Option<Installed> {
        // The value is replaced as a whole, so a panic elsewhere cannot have left it half-written.
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Slot {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // The certificate does not depend on the requested name: API servers request the Service's name,
        // people use other names.
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.key.clone())
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCert").field("leaf", &self.installed().map(|it| it.leaf)).finish()
    }
}

impl fmt::Debug for ServingCert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use copyrator_certs::{Authority, Leaf};

    use super::*;

    fn leaf(name: &str) -> Leaf {
        let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
        let authority = Authority::issue("ca", now, hour).unwrap();
        authority.issue_leaf(&[name.to_owned()], &[], now, hour).unwrap()
    }

    #[test]
    fn a_bad_certificate_leaves_the_last_good_one() {
        let serving = ServingCert::new();
        assert_eq!(serving.not_after(), None);
        let (good, other) = (leaf("good.test"), leaf("other.test"));
        serving.install(&good.chain_pem, &good.key_pem).unwrap();

        let mismatch = serving.install(&other.chain_pem, &good.key_pem).unwrap_err();
        assert!(matches!(mismatch, InstallError::Mismatch { subject } if subject == "CN=other.test"));
        let no_key = serving.install(&other.chain_pem, &PrivateKeyPem::new("hunter2")).unwrap_err();
        assert!(matches!(no_key, InstallError::Key { .. }));
        assert!(!no_key.to_string().contains("hunter2"));
        assert!(matches!(serving.install("", &good.key_pem), Err(InstallError::Chain(_))));
        assert_eq!(serving.leaf().unwrap().subject(), "CN=good.test");

        serving.install(&other.chain_pem, &other.key_pem).unwrap();
        assert_eq!(serving.leaf().unwrap().subject(), "CN=other.test");
        assert_eq!(serving.not_after(), Some(other.validity.not_after()));
    }

    #[test]
    fn a_certificate_counts_from_its_beginning_to_its_end_only() {
        let (serving, day) = (ServingCert::new(), Duration::from_secs(24 * 3600));
        let now = SystemTime::now();
        assert!(serving.is_valid_at(now).unwrap_err().contains("no serving certificate yet"));
        let good = leaf("good.test");
        serving.install(&good.chain_pem, &good.key_pem).unwrap();
        serving.is_valid_at(now).unwrap();
        // A clock that jumps must not make the certificate look valid.
        for wrong in [now + day, now - day] {
            assert!(serving.is_valid_at(wrong).unwrap_err().contains("it ends 20"), "{wrong:?}");
        }
        let mut registry = Registry::with_prefix("copyrator_webhook");
        serving.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let ends = good.validity.not_after().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert!(
            text.contains(&format!("copyrator_webhook_certificate_not_after_timestamp_seconds {ends}\n")),
            "{text}"
        );
    }

    #[test]
    fn debug_shows_no_key() {
        let serving = ServingCert::new();
        let good = leaf("good.test");
        serving.install(&good.chain_pem, &good.key_pem).unwrap();
        let shown = format!("{serving:?}");
        assert!(good.key_pem.expose().lines().all(|line| !shown.contains(line)), "{shown}");
    }
}
