//! The authority's Secret: round trip, rotation, and what is torn.
#![allow(clippy::unwrap_used)] // a test, its set-up functions too

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use copyrator_certs::{Authority, CaSecret, Certificate};

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + 20_000 * DAY
}

fn secret(name: &str) -> CaSecret {
    CaSecret::new(Authority::issue(name, now(), 30 * DAY).unwrap())
}

fn count(bundle: &str) -> usize {
    Certificate::all_from_pem(bundle).unwrap().len()
}

fn error(data: &BTreeMap<String, Vec<u8>>) -> String {
    CaSecret::from_data(data).unwrap_err().to_string()
}

#[test]
fn data_read_back_are_the_same() {
    let mut rotating = secret("ca").renew(now() + DAY).unwrap();
    rotating.next = Some(Authority::issue("ca", now(), 30 * DAY).unwrap());
    let data = rotating.to_data();
    let keys: Vec<_> = data.keys().map(String::as_str).collect();
    assert_eq!(keys, ["ca-next.crt", "ca-next.key", "ca-old.crt", "ca.crt", "ca.key"]);
    let read = CaSecret::from_data(&data).unwrap();
    assert_eq!(read.to_data(), data);
    assert_eq!(count(&read.trust_bundle(now())), 3);
}

#[test]
fn an_old_authority_leaves_the_bundle_when_it_expires() {
    let renewed = secret("ca").renew(now() + 20 * DAY).unwrap();
    assert_eq!(count(&renewed.trust_bundle(now() + 30 * DAY)), 2);
    assert_eq!(count(&renewed.trust_bundle(now() + 31 * DAY)), 1);
    let again = renewed.renew(now() + 40 * DAY).unwrap();
    assert_eq!(again.old, [renewed.current.certificate().clone()]);
}

#[test]
fn renewing_in_a_loop_does_not_grow_the_bundle_without_end() {
    let mut current = secret("ca");
    for _ in 0..10 {
        current = current.renew(now()).unwrap();
    }
    assert_eq!(count(&current.trust_bundle(now())), 5);
}

#[test]
fn an_announced_authority_is_the_one_that_follows() {
    let mut published = secret("ca");
    let next = Authority::issue("ca", now(), 30 * DAY).unwrap();
    published.next = Some(next.clone());
    assert_eq!(published.renew(now() + DAY).unwrap().current.fingerprint(), next.fingerprint());
    // One announced and forgotten until it is itself due is not worth switching to.
    assert_ne!(published.renew(now() + 25 * DAY).unwrap().current.fingerprint(), next.fingerprint());
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(error(&BTreeMap::new()), "the CA Secret has no `ca.crt`");
    for key in ["ca.crt", "ca.key"] {
        let mut data = secret("ca").to_data();
        data.remove(key);
        assert_eq!(error(&data), format!("the CA Secret has no `{key}`"));
    }
    let mut data = secret("ca").to_data();
    data.insert("ca-next.key".to_owned(), b"x".to_vec());
    assert_eq!(error(&data), "the CA Secret has no `ca-next.crt`");
}

#[test]
fn what_is_undecodable_is_named_and_not_quoted() {
    for (key, says) in [
        ("ca.crt", "the CA Secret's `ca.crt`: the file has no PEM certificate"),
        ("ca.key", "the CA Secret's `ca.key`: the file has no PEM private key"),
        ("ca-old.crt", "the CA Secret's `ca-old.crt`: the file has no PEM certificate"),
    ] {
        let mut data = secret("ca").to_data();
        data.insert(key.to_owned(), b"hunter2".to_vec());
        assert_eq!(error(&data), says);
        data.insert(key.to_owned(), vec![0xff, 0xfe]);
        assert_eq!(error(&data), format!("the CA Secret's `{key}` is not UTF-8 text"));
    }
}

#[test]
fn a_torn_pair_is_named() {
    let mut data = secret("one").to_data();
    data.insert("ca.key".to_owned(), secret("two").to_data()["ca.key"].clone());
    assert_eq!(
        error(&data),
        "the CA Secret's `ca.key`: the key does not belong to the certificate of `CN=one`"
    );
}

#[test]
fn debug_shows_no_key() {
    let secret = secret("ca");
    let shown = format!("{secret:?} {:?}", CaSecret::from_data(&secret.to_data()));
    assert!(secret.current.key_pem().expose().lines().all(|line| !shown.contains(line)));
}
