//! A verifier that shares no code with us accepts what we issue, and only that.
#![allow(clippy::unwrap_used)] // a test, its set-up functions too

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use copyrator_certs::{Authority, CaSecret, Leaf, service_names};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + 20_000 * DAY
}

fn accepts(bundle: &str, leaf: &Leaf, name: &str, at: SystemTime) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(root.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(leaf.chain_pem.as_bytes()).map(Result::unwrap).collect();
    let at = UnixTime::since_unix_epoch(at.duration_since(SystemTime::UNIX_EPOCH).unwrap());
    let name = ServerName::try_from(name.to_owned()).unwrap();
    verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], at).map(drop)
}

fn leaf_of(authority: &Authority, at: SystemTime) -> Leaf {
    let address: IpAddr = [192, 0, 2, 7].into();
    authority.issue_leaf(&service_names("hook", "ops"), &[address], at, 7 * DAY).unwrap()
}

#[test]
fn a_leaf_is_accepted_for_its_names_only() {
    let secret = CaSecret::new(Authority::issue("ca", now(), 365 * DAY).unwrap());
    let leaf = leaf_of(&secret.current, now());
    let bundle = secret.trust_bundle(now());
    for name in ["hook.ops.svc", "hook.ops", "hook.ops.svc.cluster.local", "192.0.2.7"] {
        accepts(&bundle, &leaf, name, now()).unwrap();
    }
    accepts(&bundle, &leaf, "hook.other.svc", now()).unwrap_err();
}

#[test]
fn a_slow_clock_accepts_and_a_late_one_refuses() {
    let secret = CaSecret::new(Authority::issue("ca", now(), 365 * DAY).unwrap());
    let leaf = leaf_of(&secret.current, now());
    let bundle = secret.trust_bundle(now());
    accepts(&bundle, &leaf, "hook.ops.svc", now() - Duration::from_secs(3000)).unwrap();
    accepts(&bundle, &leaf, "hook.ops.svc", now() + 8 * DAY).unwrap_err();
}

#[test]
fn leaves_of_both_authorities_are_accepted_after_a_renewal() {
    let before = CaSecret::new(Authority::issue("ca", now(), 30 * DAY).unwrap());
    let later = now() + 20 * DAY;
    assert!(!before.renewal_due(now()) && before.renewal_due(later));
    let old_leaf = leaf_of(&before.current, later - DAY);

    let after = before.renew(later).unwrap();
    let new_leaf = leaf_of(&after.current, later);
    let bundle = after.trust_bundle(later);
    accepts(&bundle, &old_leaf, "hook.ops.svc", later).unwrap();
    accepts(&bundle, &new_leaf, "hook.ops.svc", later).unwrap();
    accepts(&before.trust_bundle(later), &new_leaf, "hook.ops.svc", later).unwrap_err();
}
