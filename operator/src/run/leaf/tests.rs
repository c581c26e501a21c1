//! Which leaf is served despite faults and clocks that jump: the last good one, and each fault is logged
//! once.

mod mounted;

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use copyrator_certs::{Authority, CaSecret, Certificate};

use super::*;
use crate::serve::Readiness;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
const NAME: &str = "copyrator.test";

/// A keeper, its certificate, its readiness, and its log.
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
            renewal: None,
            certificate: readiness.require("certificate"),
            amiss: readiness.remark("renewal"),
            signed_by: None,
            trust: Trust::new(NAME.into(), Times::default().propagation, false),
            trusted: false,
        };
        Self { keeper, serving, readiness, log: Arc::default() }
    }

    fn look(&mut self, found: Result<LeafSource, String>, now: SystemTime) -> Duration {
        let lines = Lines(self.log.clone());
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || lines.clone()).finish();
        tracing::subscriber::with_default(subscriber, || self.keeper.look(found, now))
    }

    fn served(&self) -> Certificate {
        self.serving.leaf().expect("something is served")
    }

    /// The warnings that were logged so far.
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

fn ca(authority: &Authority) -> Result<LeafSource, String> {
    Ok(LeafSource::Ca(Box::new(CaSecret::new(authority.clone()))))
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

#[test]
fn a_leaf_is_renewed_as_early_as_asked_and_no_later_than_at_two_thirds() {
    for (asked, due) in [(MINUTE, MINUTE), (DAY, DAY * 2 / 3)] {
        let mut bench = Bench::new();
        bench.keeper.renewal = Some(asked);
        let first = authority(start());
        let again = bench.look(ca(&first), start());
        let one = bench.served();
        assert!(again <= LOOK_EVERY && again <= asked);
        bench.look(ca(&first), start() + due - Duration::from_secs(1));
        assert_eq!(bench.served(), one);
        bench.look(ca(&first), start() + due);
        assert_ne!(bench.served(), one);
    }
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

/// Half a minute is long while only we can answer.
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
    let carriers = || async { panic!("a CA of our own needs no asking") };
    let sources = Sources { find: || async { ca(&first) }, carriers, refusals: || 0, clock };
    tokio::join!(keep_leaf(bench.keeper, sources, stop), jumping);
}

/// When somebody deletes the CA, the hooks' callers trust the next one at once. Checking every half minute
/// would refuse them for as long.
#[tokio::test(start_paused = true)]
async fn a_caller_that_refuses_the_leaf_has_us_look_at_once() {
    let bench = Bench::new();
    let (now, begun) = (start(), tokio::time::Instant::now());
    let authorities = [authority(now), authority(now)];
    let (which, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let stop = CancellationToken::new();
    let (serving, ended) = (bench.serving.clone(), stop.clone());
    let deleting = async {
        tokio::time::sleep(TICK * 3).await;
        let first = serving.leaf().unwrap();
        which.store(1, Ordering::Relaxed);
        tokio::time::sleep(TICK * 3).await;
        assert_eq!(serving.leaf().unwrap(), first, "nobody has told");
        refused.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(TICK * 3).await;
        assert_ne!(serving.leaf().unwrap(), first);
        assert!(begun.elapsed() < LOOK_EVERY);
        ended.cancel();
    };
    let sources = Sources {
        find: || async {
            let current = usize::try_from(which.load(Ordering::Relaxed)).unwrap();
            ca(&authorities[current])
        },
        carriers: || async { panic!("a CA of our own needs no asking") },
        refusals: || refused.load(Ordering::Relaxed),
        clock: || now + begun.elapsed(),
    };
    tokio::join!(keep_leaf(bench.keeper, sources, stop), deleting);
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
    assert!(
        said.starts_with("ready\nrenewal: the Secret is torn: restore it; the process keeps the last valid"),
        "{said}"
    );
    assert_eq!(bench.warned().len(), 1, "{:?}", bench.warned());
    // Expired: not ready any more, which is logged once.
    bench.look(Err("the Secret is torn: restore it".into()), start() + 2 * DAY);
    bench.look(Err("the Secret is torn: restore it".into()), start() + 2 * DAY);
    assert_eq!(bench.readiness.to_string(), "certificate: the Secret is torn: restore it\n");
    assert_eq!(bench.warned().len(), 2, "{:?}", bench.warned());
    bench.look(ca(&first), start() + 2 * DAY);
    assert_eq!(bench.readiness.to_string(), "ready\n");
}
