//! What is served, over faults and clocks that jump: the last good one, and each fault told once.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use copyrator_certs::{Authority, Leaf};

use super::*;
use crate::serve::Readiness;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
const NAME: &str = "copyrator.test";

/// A keeper, what it serves, what readiness says, and what it logged.
struct Bench {
    keeper: LeafKeeper,
    serving: Arc<ServingCert>,
    readiness: Readiness,
    log: Arc<Mutex<Vec<u8>>>,
}

/// The log, in memory.
#[derive(Clone)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Bench {
    fn new() -> Self {
        let readiness = Readiness::new(CancellationToken::new());
        let serving = Arc::new(ServingCert::new());
        let keeper = LeafKeeper {
            serving: serving.clone(),
            names: vec![NAME.into()],
            addresses: Vec::new(),
            times: Times::default(),
            certificate: readiness.require("certificate"),
            amiss: readiness.remark("renewal"),
            signed_by: None,
            settled: Vec::new(),
            coming: None,
        };
        Self { keeper, serving, readiness, log: Arc::default() }
    }

    fn look(&mut self, found: Result<Found, String>, now: SystemTime) -> Duration {
        let lines = Lines(self.log.clone());
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || lines.clone()).finish();
        tracing::subscriber::with_default(subscriber, || self.keeper.look(found, now))
    }

    fn look_at(&mut self, dir: &Path, now: SystemTime) {
        let found = mounted::pair(dir).map(|pair| Found::Mounted(Box::new(pair)));
        self.look(found.map_err(|error| error.to_string()), now);
    }

    fn served(&self) -> Certificate {
        self.serving.leaf().expect("something is served")
    }

    /// Warnings so far.
    fn warned(&self) -> Vec<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8(log.clone()).unwrap();
        text.lines().filter(|line| line.contains("WARN")).map(str::to_owned).collect()
    }
}

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + 20_000 * DAY
}

fn authority(now: SystemTime) -> Authority {
    Authority::issue("ca", now, 365 * DAY).unwrap()
}

fn ca(authority: &Authority) -> Result<Found, String> {
    Ok(Found::Ca(Box::new(CaSecret::new(authority.clone()))))
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

#[test]
fn a_leaf_is_renewed_at_two_thirds_and_follows_its_ca() {
    let mut bench = Bench::new();
    let first = authority(start());
    bench.look(ca(&first), start());
    let one = bench.served();
    bench.look(ca(&first), start() + DAY / 2);
    assert_eq!(bench.served(), one);
    bench.look(ca(&first), start() + DAY * 2 / 3);
    let two = bench.served();
    assert_ne!(two, one);
    let next = authority(start());
    bench.look(ca(&next), start() + DAY * 2 / 3);
    assert_ne!(bench.served(), two);
    assert!(bench.warned().is_empty() && bench.readiness.ready());
}

/// Suspended machines, restored snapshots, clocks set by hand.
#[test]
fn whatever_the_clock_does_what_is_served_is_valid_now() {
    let mut bench = Bench::new();
    let first = authority(start() - 100 * DAY);
    for now in [start(), start() + 200 * DAY, start() - 50 * DAY, start() + DAY, start() - DAY, start()] {
        bench.look(ca(&first), now);
        assert!(bench.served().validity().contains(now));
        assert!(bench.readiness.ready(), "{}", bench.readiness);
    }
    assert!(bench.warned().is_empty());
}

/// Half a minute is long where nobody but us may answer.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_is_noticed_before_the_next_look_is_due() {
    let bench = Bench::new();
    let first = authority(start());
    let day = Arc::new(AtomicU64::new(0));
    let clock = {
        let day = day.clone();
        move || start() + u32::try_from(day.load(Ordering::Relaxed)).unwrap() * DAY
    };
    let stop = CancellationToken::new();
    let (serving, ended, shown) = (bench.serving.clone(), stop.clone(), clock.clone());
    let jumping = async move {
        for to in [0, 200, 100, 101, 0] {
            day.store(to, Ordering::Relaxed);
            tokio::time::sleep(TICK * 3).await;
            assert!(serving.leaf().unwrap().validity().contains(shown()), "day {to}");
        }
        ended.cancel();
    };
    tokio::join!(keep_leaf(bench.keeper, || async { ca(&first) }, clock, stop), jumping);
}

#[test]
fn an_expired_ca_is_told_once_and_recovered_from() {
    let mut bench = Bench::new();
    let first = authority(start());
    bench.look(ca(&first), start());
    let late = start() + 400 * DAY;
    for _ in 0..5 {
        assert_eq!(bench.look(ca(&first), late), LOOK_FOR);
    }
    assert!(!bench.readiness.ready());
    assert_eq!(bench.warned().len(), 1, "{:?}", bench.warned());
    bench.look(ca(&authority(late)), late);
    assert_eq!((bench.readiness.to_string().as_str(), bench.warned().len()), ("ready\n", 1));
}

#[test]
fn a_fault_keeps_the_last_good_one_until_it_ends_and_is_told_once() {
    let mut bench = Bench::new();
    let first = authority(start());
    bench.look(ca(&first), start());
    let good = bench.served();
    for minute in 0..10 {
        bench.look(Err("the Secret is torn: restore it".into()), start() + minute * MINUTE);
    }
    assert_eq!(bench.served(), good);
    let said = bench.readiness.to_string();
    assert!(said.starts_with("ready\nrenewal: the Secret is torn: restore it; the last good"), "{said}");
    assert_eq!(bench.warned().len(), 1, "{:?}", bench.warned());
    // Over: it is not ready any more, and says that, once more.
    bench.look(Err("the Secret is torn: restore it".into()), start() + 2 * DAY);
    bench.look(Err("the Secret is torn: restore it".into()), start() + 2 * DAY);
    assert_eq!(bench.readiness.to_string(), "certificate: the Secret is torn: restore it\n");
    assert_eq!(bench.warned().len(), 2, "{:?}", bench.warned());
    bench.look(ca(&first), start() + 2 * DAY);
    assert_eq!(bench.readiness.to_string(), "ready\n");
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
        bench.look_at(dir, now);
        assert_eq!(bench.served().pem(), leaf.chain_pem, "{version}");
    }
    assert!(bench.warned().is_empty() && bench.readiness.ready(), "{:?}", bench.warned());
}

#[test]
fn a_torn_mount_keeps_the_last_good_one_and_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, first) = (dir.path(), authority(start()));
    let mut bench = Bench::new();
    let (good, other) = (leaf(&first, start()), leaf(&first, start()));
    mount(dir, "good", &good, &good, &[&first]);
    bench.look_at(dir, start());
    let expired = first.issue_leaf(&[NAME.to_owned()], &[], start(), MINUTE).unwrap();
    let foreign = leaf(&authority(start()), start());
    let named_otherwise = first.issue_leaf(&["other.test".into()], &[], start(), DAY).unwrap();
    let cases = [
        ("mismatch", &other, &good, "private key is not its own"),
        ("expired", &expired, &expired, "valid from"),
        ("foreign", &foreign, &foreign, "not one that the mounted ca.crt vouches for"),
        ("named", &named_otherwise, &named_otherwise, "vouches for, as `copyrator.test`"),
    ];
    for (number, (version, chain, key, says)) in cases.into_iter().enumerate() {
        mount(dir, version, chain, key, &[&first]);
        for _ in 0..3 {
            bench.look_at(dir, start() + 2 * MINUTE);
        }
        assert_eq!(bench.served().pem(), good.chain_pem, "{version}");
        let said = bench.readiness.to_string();
        assert!(said.starts_with("ready\nrenewal: ") && said.contains(says), "{version}: {said}");
        assert_eq!(bench.warned().len(), number + 1, "{version}: {:?}", bench.warned());
    }
    fs::remove_file(dir.join("..data")).unwrap();
    bench.look_at(dir, start() + 2 * MINUTE);
    assert!(bench.readiness.to_string().contains("cannot read"), "{}", bench.readiness);
    mount(dir, "mended", &other, &other, &[&first]);
    bench.look_at(dir, start() + 2 * MINUTE);
    assert_eq!((bench.served().pem(), bench.readiness.to_string()), (other.chain_pem, "ready\n".into()));
}

/// The reconciler's volume changes some minutes after ours, and then the hooks.
#[test]
fn a_mounted_leaf_of_another_ca_waits_until_hooks_can_carry_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (first, second) = (authority(start()), authority(start()));
    let (old, new) = (leaf(&first, start()), leaf(&second, start()));
    let mut bench = Bench::new();
    mount(dir, "old", &old, &old, &[&first]);
    bench.look_at(dir, start());
    mount(dir, "new", &new, &new, &[&second]);
    for now in [start(), start() + 2 * MINUTE] {
        bench.look_at(dir, now);
        assert_eq!(bench.served().pem(), old.chain_pem);
    }
    assert!(bench.readiness.to_string().contains("hooks may not carry before"), "{}", bench.readiness);
    bench.look_at(dir, start() + 3 * MINUTE);
    assert_eq!(
        (bench.served().pem(), bench.readiness.to_string()),
        (new.chain_pem.clone(), "ready\n".into())
    );

    // Both are trusted first, then the leaf changes: nothing to wait for. A clock that went back waits no longer for it.
    let back = start() - Duration::from_secs(1800);
    let third = authority(start());
    let last = leaf(&third, start());
    mount(dir, "both", &new, &new, &[&second, &third]);
    bench.look_at(dir, start() + 4 * MINUTE);
    bench.look_at(dir, back);
    bench.look_at(dir, back + 3 * MINUTE);
    mount(dir, "last", &last, &last, &[&second, &third]);
    bench.look_at(dir, back + 3 * MINUTE);
    assert_eq!(bench.served().pem(), last.chain_pem);
}
