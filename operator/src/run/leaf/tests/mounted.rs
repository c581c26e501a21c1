//! Which mounted leaf is served: the last one that callers trust; another one never counts as trusted.

use std::{fs, os::unix::fs::symlink, path::Path, sync::atomic::AtomicUsize};

use copyrator_certs::Leaf;

use super::{super::source::Carrier, *};
use crate::serve::mounted;

impl Bench {
    fn look_at(&mut self, dir: &Path, carriers: &Carriers, now: SystemTime) {
        self.look(found(dir, carriers.clone()), now);
    }

    fn said(&self) -> String {
        self.readiness.to_string()
    }
}

fn found(dir: &Path, carriers: Carriers) -> Result<LeafSource, String> {
    let pair = mounted::pair(dir).map_err(|error| error.to_string())?;
    Ok(LeafSource::Mounted(Box::new(pair), carriers))
}

/// Two hooks with the same bundle.
fn carried(authorities: &[&Authority]) -> Carriers {
    let bundle: Vec<Certificate> = authorities.iter().map(|one| one.certificate().clone()).collect();
    let hook = |name: &str| Carrier { hook: name.into(), bundle: bundle.clone() };
    Carriers::Hooks(vec![hook("own-kinds"), hook("policies")])
}

fn leaf(authority: &Authority, now: SystemTime) -> Leaf {
    authority.issue_leaf(&[NAME.to_owned()], &[], now, 90 * DAY).unwrap()
}

/// As the kubelet does it: a new directory, and `..data` renamed over.
fn mount(dir: &Path, version: &str, leaf: &Leaf, key: &Leaf, authorities: &[&Authority]) {
    let new = dir.join(format!("..{version}"));
    fs::create_dir(&new).unwrap();
    fs::write(new.join("tls.crt"), &leaf.chain_pem).unwrap();
    fs::write(new.join("tls.key"), key.key_pem.expose()).unwrap();
    let bundle: String = authorities.iter().map(|authority| authority.cert_pem()).collect();
    fs::write(new.join("ca.crt"), bundle).unwrap();
    let before = fs::read_link(dir.join("..data")).ok();
    symlink(format!("..{version}"), dir.join("..data_tmp")).unwrap();
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        symlink(format!("..data/{name}"), dir.join(name)).ok();
    }
    if let Some(before) = before {
        fs::remove_dir_all(dir.join(before)).unwrap();
    }
}

/// A watch on the file sees one swap at most (kubewarden policy-server#1026, linkerd2#7519).
#[test]
fn a_mounted_secret_is_followed_over_two_symlink_swaps() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, first) = (dir.path(), authority(start()));
    let mut bench = Bench::new();
    for (version, day) in [("one", 0), ("two", 60), ("three", 120)] {
        let now = start() + day * DAY;
        let leaf = leaf(&first, now);
        mount(dir, version, &leaf, &leaf, &[&first]);
        for minute in 0..2 {
            bench.look_at(dir, &carried(&[&first]), now + minute * MINUTE);
            assert_eq!(bench.served().pem(), leaf.chain_pem, "{version}");
        }
    }
    assert!(bench.warned().is_empty() && bench.readiness.ready(), "{:?}", bench.warned());
}

#[test]
fn a_torn_mount_keeps_the_last_good_one_and_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, first) = (dir.path(), authority(start()));
    let mut bench = Bench::new();
    let (good, other) = (leaf(&first, start()), leaf(&first, start()));
    let hooks = carried(&[&first]);
    mount(dir, "good", &good, &good, &[&first]);
    bench.look_at(dir, &hooks, start());
    bench.look_at(dir, &hooks, start() + MINUTE);
    let expired = first.issue_leaf(&[NAME.to_owned()], &[], start(), MINUTE).unwrap();
    let foreign = leaf(&authority(start()), start());
    let named_otherwise = first.issue_leaf(&["other.test".into()], &[], start(), DAY).unwrap();
    let cases = [
        ("mismatch", &other, &good, "private key does not belong to the certificate"),
        ("expired", &expired, &expired, "valid only from"),
        ("foreign", &foreign, &foreign, "the mounted ca.crt does not verify the mounted tls.crt for"),
        ("named", &named_otherwise, &named_otherwise, "for `copyrator.test`"),
    ];
    for (number, (version, chain, key, says)) in cases.into_iter().enumerate() {
        mount(dir, version, chain, key, &[&first]);
        for _ in 0..3 {
            bench.look_at(dir, &hooks, start() + 2 * MINUTE);
        }
        assert_eq!(bench.served().pem(), good.chain_pem, "{version}");
        let said = bench.said();
        assert!(said.starts_with("ready\nrenewal: ") && said.contains(says), "{version}: {said}");
        assert_eq!(bench.warned().len(), number + 1, "{version}: {:?}", bench.warned());
    }
    fs::remove_file(dir.join("..data")).unwrap();
    bench.look_at(dir, &hooks, start() + 2 * MINUTE);
    assert!(bench.said().contains("cannot read"), "{}", bench.said());
    mount(dir, "mended", &other, &other, &[&first]);
    bench.look_at(dir, &hooks, start() + 2 * MINUTE);
    assert_eq!((bench.served().pem(), bench.said()), (other.chain_pem, "ready\n".into()));
}

/// The reconciler's volume changes some minutes after ours, and the hooks change after that.
#[test]
fn a_running_webhook_changes_over_when_hooks_have_carried_the_new_ca_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (first, second, third) = (authority(start()), authority(start()), authority(start()));
    let (old, new, last) = (leaf(&first, start()), leaf(&second, start()), leaf(&third, start()));
    let mut bench = Bench::new();
    mount(dir, "old", &old, &old, &[&first]);
    bench.look_at(dir, &carried(&[&first]), start());
    assert_eq!(bench.said(), "ready\n");
    mount(dir, "new", &new, &new, &[&second]);
    let unread = || Carriers::Unread("cannot read them: no answer".into());
    let read = carried(&[&second, &first]);
    for (minute, hooks, served, says) in [
        (0, carried(&[&first]), &old, "lacks the CA of the mounted tls.crt (own-kinds and 1 more)"),
        (60, carried(&[&first]), &old, "waiting for the reconciler"),
        (61, unread(), &old, "cannot read them: no answer: cannot check whether callers trust"),
        (62, read.clone(), &old, "after the next check"),
        (62, unread(), &old, "cannot read them: no answer"),
        (63, read.clone(), &new, "ready\n"),
    ] {
        bench.look_at(dir, &hooks, start() + minute * MINUTE);
        assert_eq!(bench.served().pem(), served.chain_pem, "{minute}");
        let said = bench.said();
        assert!(said.starts_with("ready\n") && said.contains(says), "{minute}: {said}");
    }
    assert_eq!(bench.said(), "ready\n");

    // The hooks carry both authorities first, then the leaf changes: it counts at the second look.
    mount(dir, "last", &last, &last, &[&second, &third]);
    for served in [&new, &last] {
        bench.look_at(dir, &carried(&[&second, &third]), start() + 72 * MINUTE);
        assert_eq!(bench.served().pem(), served.chain_pem);
    }
    assert_eq!(bench.said(), "ready\n");
}

/// Once, it was ready at once, and refused by the API server (`x509: certificate signed by unknown
/// authority`).
#[test]
fn a_webhook_that_starts_is_ready_when_hooks_carry_its_ca_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (first, second) = (authority(start()), authority(start()));
    let new = leaf(&second, start());
    mount(dir, "new", &new, &new, &[&second]);
    let mut bench = Bench::new();
    for (minute, hooks, says) in [
        (0, carried(&[&first]), "certificate: the caBundle of the hooks lacks the CA of the mounted tls.crt"),
        (60, carried(&[&first]), "certificate: the caBundle of the hooks lacks"),
        (
            61,
            carried(&[&second]),
            "certificate: the hooks have the CA of the mounted tls.crt: the process uses the certificate after",
        ),
        (62, carried(&[&second]), "ready\n"),
        // Callers trust it already, so the reconciler reports later problems.
        (63, carried(&[&first]), "ready\n"),
    ] {
        bench.look_at(dir, &hooks, start() + minute * MINUTE);
        assert!(bench.said().starts_with(says), "{minute}: {}", bench.said());
        assert_eq!(bench.served().pem(), new.chain_pem, "{minute}");
    }
    assert_eq!(bench.warned().len(), 2, "{:?}", bench.warned());

    // The usual case: hooks have carried the CA for long. Or the first start: there is no hook.
    for hooks in [carried(&[&second]), Carriers::Hooks(Vec::new())] {
        let mut bench = Bench::new();
        bench.look_at(dir, &hooks, start());
        assert_eq!((bench.said().as_str(), bench.warned().len()), ("ready\n", 0));
        bench.look_at(dir, &carried(&[&second]), start() + Duration::from_secs(2));
        assert_eq!(bench.said(), "ready\n");
    }
}

#[test]
fn a_leaf_that_ends_gives_way_to_one_that_is_not_trusted_and_is_not_ready() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (first, second) = (authority(start()), authority(start()));
    let (old, new) =
        (first.issue_leaf(&[NAME.to_owned()], &[], start(), 5 * MINUTE).unwrap(), leaf(&second, start()));
    let mut bench = Bench::new();
    mount(dir, "old", &old, &old, &[&first]);
    bench.look_at(dir, &carried(&[&first]), start());
    mount(dir, "new", &new, &new, &[&second]);
    bench.look_at(dir, &carried(&[&first]), start() + 4 * MINUTE);
    assert_eq!((bench.served().pem(), bench.readiness.ready()), (old.chain_pem, true), "{}", bench.said());
    bench.look_at(dir, &carried(&[&first]), start() + 6 * MINUTE);
    assert_eq!(bench.served().pem(), new.chain_pem);
    assert!(bench.said().starts_with("certificate: the caBundle of the hooks lacks"), "{}", bench.said());
}

/// Without changes, there are no requests to the API server.
#[tokio::test(start_paused = true)]
async fn the_hooks_are_read_until_a_leaf_is_trusted_and_again_for_one_of_another_ca() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (first, second) = (authority(start()), authority(start()));
    let (one, other, last) = (leaf(&first, start()), leaf(&first, start()), leaf(&second, start()));
    mount(dir, "one", &one, &one, &[&first]);
    let bench = Bench::new();
    let began = tokio::time::Instant::now();
    let clock = move || start() + began.elapsed();
    let asked = AtomicUsize::new(0);
    let count = || asked.load(Ordering::Relaxed);
    let hooks = || {
        asked.fetch_add(1, Ordering::Relaxed);
        let hooks = carried(&[&first, &second]);
        async { hooks }
    };
    let stop = CancellationToken::new();
    let (ended, serving) = (stop.clone(), bench.serving.clone());
    let happens = async {
        tokio::time::sleep(60 * MINUTE).await;
        mount(dir, "other", &other, &other, &[&first]);
        tokio::time::sleep(MINUTE).await;
        assert_eq!(serving.leaf().unwrap().pem(), other.chain_pem);
        mount(dir, "last", &last, &last, &[&second]);
        tokio::time::sleep(60 * MINUTE).await;
        assert_eq!(serving.leaf().unwrap().pem(), last.chain_pem);
        assert_eq!(count(), 3, "other authorities are mounted: two more looks");
        ended.cancel();
    };
    let find = || async { found(dir, Carriers::not_needed()) };
    tokio::join!(
        keep_leaf(bench.keeper, Sources { find, carriers: hooks, refusals: || 0, clock }, stop),
        happens
    );
}
