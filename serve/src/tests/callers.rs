//! Which callers are accepted, and how fast they may send requests.

use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;

use super::super::{Callers, ClientTrust, PeerRate};
use super::*;

const REFUSED: &str = "copyrator: the client certificate of this connection is not trusted any more\n";

fn authority(name: &str) -> Authority {
    Authority::issue(name, SystemTime::now(), HOUR).unwrap()
}

/// A client's chain and key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(authority: &Authority, name: &str, sans: &[&str], usage: ExtendedKeyUsagePurpose) -> Identity {
    let key = KeyPair::from_pem(authority.key_pem().expose()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&authority.cert_pem(), key).unwrap();
    let sans: Vec<String> = sans.iter().map(|san| (*san).to_owned()).collect();
    let mut params = CertificateParams::new(sans).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

fn client(authority: &Authority, name: &str, sans: &[&str]) -> Identity {
    identity(authority, name, sans, ExtendedKeyUsagePurpose::ClientAuth)
}

async fn trusting(trust: &ClientTrust) -> Server {
    let callers = Callers { trust: Some(trust.clone()), rate: None };
    Server::with(callers, Limits::default(), Duration::ZERO).await
}

impl Server {
    fn as_client(&self, identity: Identity) -> TlsConnector {
        TlsConnector::from(Arc::new(self.as_client_of(identity, rustls::DEFAULT_VERSIONS)))
    }

    fn as_client_of(
        &self,
        (chain, key): Identity,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.cert_pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let config = config.unwrap().with_root_certificates(roots).with_client_auth_cert(chain, key);
        config.unwrap()
    }

    /// Opens a connection and sends one request. With TLS 1.3 a client only learns then that it is refused.
    async fn call(&self, connector: &TlsConnector) -> std::io::Result<String> {
        let mut client = soon(connect(connector, self.address)).await?;
        soon(ask(&mut client, "/")).await.map(|(body, _)| body)
    }
}

/// SIG-Security's threat model, ids 1 and 2: everybody who can reach the port can send floods and costly
/// payloads.
#[tokio::test]
async fn only_a_certificate_of_the_authority_with_a_known_name_lets_a_caller_in() {
    let (ours, other) = (authority("api servers"), authority("others"));
    let trust = ClientTrust::new(["api-server".to_owned(), "spiffe://cluster/api".to_owned()]);
    let server = trusting(&trust).await;
    let known = server.as_client(client(&ours, "api-server", &[]));
    assert!(server.call(&known).await.is_err(), "nobody is trusted before there is a bundle");

    assert_eq!(trust.install(ours.cert_pem().as_bytes()).unwrap(), 1);
    assert_eq!(server.call(&known).await.unwrap(), "hello");
    let by_san = client(&ours, "", &["a.test", "api-server"]);
    assert_eq!(server.call(&server.as_client(by_san)).await.unwrap(), "hello");
    for (who, connector) in [
        ("nobody", server.connector(&[])),
        ("one of another authority", server.as_client(client(&other, "api-server", &[]))),
        ("somebody of the same authority", server.as_client(client(&ours, "kubelet", &["b.test"]))),
        (
            "a server",
            server.as_client(identity(&ours, "api-server", &[], ExtendedKeyUsagePurpose::ServerAuth)),
        ),
    ] {
        let failed = server.metrics.handshakes_failed.get();
        assert!(server.call(&connector).await.is_err(), "{who} was let in");
        assert_eq!(server.metrics.handshakes_failed.get(), failed + 1, "{who}");
    }
    assert_eq!(server.call(&known).await.unwrap(), "hello");
}

#[tokio::test]
async fn without_names_every_certificate_of_the_authority_lets_in() {
    let (ours, trust) = (authority("api servers"), ClientTrust::new([]));
    let server = trusting(&trust).await;
    trust.install(ours.cert_pem().as_bytes()).unwrap();
    assert_eq!(server.call(&server.as_client(client(&ours, "anybody", &[]))).await.unwrap(), "hello");
    assert!(server.call(&server.connector(&[])).await.is_err());
}

/// controller-runtime reads its client CA once.
#[tokio::test]
async fn another_bundle_counts_at_once_on_kept_connections_too_and_breaks_none_that_it_trusts() {
    let (first, second) = (authority("first"), authority("second"));
    let trust = ClientTrust::new([]);
    trust.install(first.cert_pem().as_bytes()).unwrap();
    let server = trusting(&trust).await;
    let (old, new) =
        (server.as_client(client(&first, "a", &[])), server.as_client(client(&second, "a", &[])));
    let mut kept = soon(connect(&old, server.address)).await.unwrap();
    assert_eq!(soon(ask(&mut kept, "/")).await.unwrap(), ("hello".to_owned(), true));
    assert!(server.call(&new).await.is_err());

    // A rotation: first both authorities, then only the second.
    trust.install((first.cert_pem() + &second.cert_pem()).as_bytes()).unwrap();
    assert_eq!(soon(ask(&mut kept, "/")).await.unwrap(), ("hello".to_owned(), true));
    assert_eq!(server.call(&new).await.unwrap(), "hello");
    trust.install(second.cert_pem().as_bytes()).unwrap();
    assert_eq!(soon(ask(&mut kept, "/")).await.unwrap(), (REFUSED.to_owned(), false));
    assert_eq!(server.metrics.untrusted.get(), 1);
    assert!(server.call(&old).await.is_err(), "a session of before was resumed");
    assert_eq!(server.call(&new).await.unwrap(), "hello");
}

/// A resumed session is not verified: with an old ticket, a client of a removed authority was accepted. Each
/// TLS version has its own way to resume, and the client tries both.
#[tokio::test]
async fn no_session_of_before_is_resumed_whatever_its_version() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let (first, second) = (authority("first"), authority("second"));
        let trust = ClientTrust::new([]);
        trust.install(first.cert_pem().as_bytes()).unwrap();
        let server = trusting(&trust).await;
        let mut config = server.as_client_of(client(&first, "a", &[]), &[version]);
        config.enable_early_data = true;
        let old = TlsConnector::from(Arc::new(config));
        for _ in 0..3 {
            let mut known = soon(connect(&old, server.address)).await.unwrap();
            assert_eq!(soon(ask(&mut known, "/")).await.unwrap().0, "hello");
            let kind = known.get_ref().get_ref().1.handshake_kind();
            assert_eq!(kind, Some(rustls::HandshakeKind::Full), "{version:?}");
        }
        trust.install(second.cert_pem().as_bytes()).unwrap();
        assert!(server.call(&old).await.is_err(), "{version:?}: a session of before was resumed");
    }
}

/// The API server trusts another CA than ours.
#[tokio::test]
async fn a_caller_that_does_not_trust_us_is_counted_and_nobody_else() {
    let server = Server::start(Limits::default(), Duration::ZERO).await;
    let stranger = {
        let mut roots = RootCertStore::empty();
        let other = authority("another").cert_pem();
        roots.add(CertificateDer::from_pem_slice(other.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        TlsConnector::from(Arc::new(config.unwrap().with_root_certificates(roots).with_no_client_auth()))
    };
    assert!(server.call(&stranger).await.is_err());
    until(|| server.metrics.certificates_refused.get() == 1).await;
    assert_eq!(server.call(&server.connector(&[])).await.unwrap(), "hello");
    drop(TcpStream::connect(server.address).await.unwrap());
    until(|| server.metrics.handshakes_failed.get() == 2).await;
    assert_eq!(server.metrics.certificates_refused.get(), 1, "who hangs up has refused nothing");
}

#[tokio::test]
async fn a_torn_bundle_leaves_the_last_good_one() {
    let (ours, trust) = (authority("api servers"), ClientTrust::new([]));
    let server = trusting(&trust).await;
    let pem = ours.cert_pem();
    trust.install(pem.as_bytes()).unwrap();
    let no_authority = pem.replace(pem.lines().nth(2).unwrap(), "AAAA");
    for (torn, says) in [
        ("", "has no certificate"),
        ("hello", "has no certificate"),
        (&pem[..pem.len() / 2], "is incomplete"),
        (&(pem.clone() + &pem[..100]), "is incomplete"),
        (&(pem.clone() + &no_authority), "certificate 2"),
    ] {
        let error = trust.install(torn.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(server.call(&server.as_client(client(&ours, "a", &[]))).await.unwrap(), "hello");
}

/// SIG-Security's threat model, id 1: a peer that floods is refused cheaply, and accepted again when it has
/// calmed down.
#[tokio::test]
async fn a_peer_that_asks_too_fast_is_turned_away_and_may_come_back() {
    let callers = Callers { trust: None, rate: PeerRate::new(1) };
    let server = Server::with(callers, Limits::default(), Duration::ZERO).await;
    let mut client = soon(server.connect()).await.unwrap();
    let mut bodies = Vec::new();
    for _ in 0..30 {
        bodies.push(soon(ask(&mut client, "/")).await.unwrap());
    }
    assert_eq!(bodies[0], ("hello".to_owned(), true));
    let away = ("copyrator: too many requests from this address (--peer-rate)\n".to_owned(), true);
    assert!(bodies.contains(&away), "{bodies:?}");
    assert!(server.metrics.limited.get() > 0);
    let again = async {
        while soon(ask(&mut client, "/")).await.unwrap().0 != "hello" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon(again).await;
}
