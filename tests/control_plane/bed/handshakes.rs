//! What an API server does that has just started: it takes the caBundle of our hooks and calls the webhook on a new
//! connection. The one of the test bed keeps its connections, and would not notice.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base64::{Engine, engine::general_purpose::STANDARD};
use copyrator_certs::Certificate;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::Person;
use super::traffic::Ends;

/// Between two of them.
const PAUSE: Duration = Duration::from_millis(30);
/// An API server hears of a hook sooner than that, and than any `--ca-propagation` here: what takes longer, because the
/// machine is busy, shows nothing of trust.
const STALE: Duration = Duration::from_secs(1);

/// What the handshakes so far have shown.
#[derive(Clone, Default)]
pub struct Seen {
    /// Serving certificates, in order, each once.
    pub leaves: Vec<Certificate>,
    /// What the hooks had trusted, in order, one after the other.
    pub bundles: Vec<Vec<Certificate>>,
    /// Handshakes that failed, and why.
    pub failures: Vec<String>,
    /// All of them.
    pub count: usize,
}

/// Handshakes, one after the other.
#[derive(Clone, Default)]
pub struct Handshakes(Arc<Mutex<Seen>>);

impl Handshakes {
    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes them for as long as `meanwhile` takes.
    pub fn made_while(&self, admin: &Person, meanwhile: impl FnOnce()) {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _end = Ends(&is_over);
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    self.make(admin);
                    thread::sleep(PAUSE);
                }
            });
            meanwhile();
        });
    }

    /// One handshake, with what the hooks carry now.
    fn make(&self, admin: &Person) {
        let asked = Instant::now();
        let hooks =
            admin.get("ValidatingWebhookConfiguration", "", "copyrator").expect("the hooks are there");
        let config = &hooks["webhooks"][0]["clientConfig"];
        let bundle = STANDARD.decode(config["caBundle"].as_str().unwrap_or_default()).expect("base64");
        let bundle = Certificate::all_from_pem(&String::from_utf8_lossy(&bundle)).expect("a bundle");
        let url = config["url"].as_str().expect("the test bed's hooks have a URL");
        let address = url.trim_start_matches("https://").split('/').next().expect("a host and port");
        let shaken = shake(address, &bundle);
        let distrusted = shaken.as_ref().is_err_and(|why| why.contains("invalid peer certificate"));
        if distrusted && asked.elapsed() > STALE {
            return;
        }
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.count += 1;
        match shaken {
            Ok(leaf) if !seen.leaves.contains(&leaf) => seen.leaves.push(leaf),
            Ok(_) => {}
            Err(why) => seen.failures.push(why),
        }
        if seen.bundles.last() != Some(&bundle) {
            seen.bundles.push(bundle);
        }
    }
}

fn shake(address: &str, bundle: &[Certificate]) -> Result<Certificate, String> {
    let mut roots = RootCertStore::empty();
    for root in bundle {
        roots.add(root.der().clone()).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config =
        config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    let host = address.split(':').next().unwrap_or_default().to_owned();
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())?;
    let mut socket = TcpStream::connect(address).map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(Duration::from_secs(5))).map_err(|error| error.to_string())?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).map_err(|error| error.to_string())?;
    }
    let leaf = connection.peer_certificates().and_then(|chain| chain.first()).ok_or("no certificate")?;
    let leaf = Certificate::from_der(leaf.clone().into_owned()).map_err(|error| error.to_string());
    connection.send_close_notify();
    // A peer that has closed already heard enough.
    let _ = connection.complete_io(&mut socket).and_then(|_| socket.flush());
    leaf
}
