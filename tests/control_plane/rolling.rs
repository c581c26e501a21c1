//! We come and go, and nobody who writes notices.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::{Balancer, Operator, Role};

use crate::bed::objects::{config_map, version};
use crate::bed::{Bed, Person, Story, eventually, private};

/// Some thirty writes a second together, each writer on connections of its own.
const WRITERS: usize = 4;
const EVERY: Duration = Duration::from_millis(130);
/// How long a replica still gets connections after it has said that it goes, and how long it stays for them.
const LAG: Duration = Duration::from_secs(2);
const DRAIN: [&str; 2] = ["--drain-delay", "4s"];

/// The API server keeps using open connections to pods that end (kubernetes#127335, #75791), and with `failurePolicy: Fail` each
/// such call is a write that is refused.
#[test]
fn no_write_fails_while_two_webhooks_are_restarted_and_leaders_change() {
    let bed = private("rolling");
    let balancer = Balancer::open(LAG).expect("the balancer opens");
    let begin = |role, replica| bed.testbed.balanced(&balancer, role, replica, &DRAIN).expect("it starts");
    let start = |role, replica| {
        let mut started = begin(role, replica);
        started.wait_ready().expect("it becomes ready");
        started
    };
    // Neither role is ready without the other.
    let mut webhooks = [0, 1].map(|replica| begin(Role::Webhook, replica));
    let mut reconcilers = vec![begin(Role::Reconciler, 0), begin(Role::Reconciler, 1)];
    for process in webhooks.iter_mut().chain(&mut reconcilers) {
        process.wait_ready().expect("it becomes ready");
    }
    bed.testbed.wait_hooked().expect("the hooks are applied");
    let story = Story::new(&bed, "upgraded");
    let place = story.target("a");
    in_force(&story, &place);
    let hooks = || bed.admin.get("ValidatingWebhookConfiguration", "", "copyrator").expect("the hooks");
    let hooked = version(&hooks());

    let load = Load::default();
    thread::scope(|scope| {
        // Also where something here fails, the writers end.
        let _end = Ends(&load.is_over);
        for writer in 0..WRITERS {
            let (load, place) = (&load, &place);
            let person = Person::with(bed.testbed.cluster().admin_kubeconfig());
            scope.spawn(move || load.write(&person, place, writer));
        }
        load.some_more("before anything goes");
        for round in 0..3 {
            for (replica, webhook) in webhooks.iter_mut().enumerate() {
                let replica = u16::try_from(replica).expect("two of them");
                eventually("both get calls", || match balancer.ready() {
                    2 => Ok(()),
                    other => Err(format!("{other} of 2")),
                });
                webhook_ends(webhook);
                *webhook = start(Role::Webhook, replica);
                load.none_failed(&format!("round {round}, restart of webhook {replica}"));
            }
        }
        load.some_more("with both back");
        load.none_failed("rolling restarts");

        let first = leader(&bed);
        let standing = reconcilers.iter().position(|it| first == it.pod()).expect("one of them leads");
        reconcilers.remove(standing).terminate().expect("it ends in order");
        let second = until_another_leads(&bed, &first);
        load.some_more("after a leader that left");
        load.none_failed("a leader that left");

        reconcilers.push(start(Role::Reconciler, number(&first)));
        let standing = reconcilers.iter().position(|it| second == it.pod()).expect("the other leads");
        reconcilers.remove(standing).kill();
        until_another_leads(&bed, &second);
        load.some_more("after a leader that was killed");
        load.none_failed("a leader that was killed");
    });
    let (accepted, refused) = (load.accepted.into_inner(), load.refused.into_inner());
    println!("{accepted} writes were accepted and {refused} refused, and none failed");
    assert!(
        accepted > 500 && refused > 100,
        "{accepted} accepted, {refused} refused: there was hardly any load"
    );
    let shares = balancer.connections();
    assert!(shares.iter().all(|share| *share > 3), "one of them got no calls: {shares:?}");
    assert_eq!(version(&hooks()), hooked, "the hooks were written again");
}

/// As a kubelet ends a pod.
fn webhook_ends(webhook: &mut Operator) {
    let status = webhook.end().expect("it ends");
    assert!(status.success(), "{status}");
}

/// A policy that would rather have a write refused than unjudged.
fn in_force(story: &Story<'_>, place: &str) {
    let spec = json!({ "match": {}, "failurePolicy": "Fail", "data": [{ "name": "url", "keys": ["url"], "format": "url" }] });
    story.admin().create(&story.policy(&["ConfigMap"], spec)).ok();
    eventually("the policy is in force, by a hook of its own", || {
        let answer = story.admin().try_create(&config_map(place, "probe", [("url", "nonsense")]));
        let said = answer.body["message"].as_str().unwrap_or_default().to_owned();
        if answer.code == 403 && said.contains("upgraded.policies-fail") { Ok(()) } else { Err(said) }
    });
}

/// What the Lease says.
fn leader(bed: &Bed) -> String {
    let lease = bed.admin.get("Lease", testbed::NAMESPACE, "copyrator-reconciler").unwrap_or_default();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    // The name of the pod, without what tells its lives apart.
    ["copyrator-reconciler-0", "copyrator-reconciler-1"]
        .into_iter()
        .find(|name| holder.starts_with(name))
        .unwrap_or_default()
        .to_owned()
}

fn number(pod: &str) -> u16 {
    u16::from(pod.ends_with('1'))
}

fn until_another_leads(bed: &Bed, before: &str) -> String {
    eventually("the other reconciler leads", || match leader(bed) {
        now if !now.is_empty() && now != before => Ok(now),
        now => Err(now),
    })
}

/// Writes, and what became of them.
#[derive(Default)]
struct Load {
    accepted: AtomicUsize,
    refused: AtomicUsize,
    failed: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load {
    /// Writes until it is over: what the policy takes, and each fifth time what it does not.
    fn write(&self, person: &Person, place: &str, writer: usize) {
        let name = format!("app-{writer}");
        let mut due = Instant::now();
        for turn in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let is_good = turn % 5 != 4;
            let value =
                if is_good { format!("https://example.com/{turn}") } else { format!("nonsense {turn}") };
            let answer = person.apply(&config_map(place, &name, [("url", &value)]));
            let is_judged = answer.body["message"].as_str().is_some_and(|said| said.contains("upgraded"));
            match (is_good, answer.code) {
                (true, 200 | 201) => drop(self.accepted.fetch_add(1, Ordering::Relaxed)),
                (false, 403) if is_judged => drop(self.refused.fetch_add(1, Ordering::Relaxed)),
                (_, code) => self.failed().push(format!("{value}: {code} {}", brief(&answer.body))),
            }
            due += EVERY;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there have been so many more that whatever happened would show.
    fn some_more(&self, when: &str) {
        let done = || self.accepted.load(Ordering::Relaxed) + self.failed().len();
        let before = done();
        eventually(&format!("there is load {when}"), || match done() - before {
            enough if enough >= 40 => Ok(()),
            few => Err(format!("{few} writes")),
        });
    }

    #[track_caller]
    fn none_failed(&self, during: &str) {
        let failed = self.failed();
        assert!(failed.is_empty(), "{} writes failed during {during}: {failed:#?}", failed.len());
    }
}

fn brief(body: &Value) -> String {
    body["message"].as_str().map_or_else(|| body.to_string(), str::to_owned)
}
