//! We come and go, and nobody who writes notices. The API server keeps using open connections to pods that end
//! (kubernetes#127335, #75791), and with `failurePolicy: Fail` each such call is a write that is refused.

use std::thread;
use std::time::Duration;

use serde_json::json;
use testbed::{Balancer, Operator, Role};

use crate::bed::objects::{config_map, version};
use crate::bed::{Bed, Permit, Person, Story, Traffic, busy, eventually, private, same};
use crate::certificates::{
    FAST, ca, certificates, end_leaves_of_before, until_another_signs, until_served_by,
};

/// How long a replica still gets connections after it has said that it goes, and how long it stays for them.
const LAG: Duration = Duration::from_secs(2);
const DRAIN: [&str; 2] = ["--drain-delay", "10s"];

/// So many calls at once take connections to both replicas, in so many rounds.
const AT_ONCE: usize = 8;
const ROUNDS: usize = 5;

/// Traffic that each of two replicas judges: who is asked first may know the policy before the other one does, which lets
/// pass what it knows nothing of.
#[track_caller]
pub fn judged_by_both<'a>(_turn: &Permit, story: &Story<'a>, name: &'a str) -> Traffic<'a> {
    let traffic = Traffic::judged(story, name);
    let probe = config_map(&story.called("traffic"), "probe", [("url", "nonsense")]);
    let person = || Person::with(story.bed.testbed.cluster().admin_kubeconfig());
    let people: Vec<Person> = (0..AT_ONCE).map(|_| person()).collect();
    let mut rounds = 0;
    eventually("both replicas know the policy", || {
        let codes: Vec<u16> = thread::scope(|scope| {
            let asking: Vec<_> =
                people.iter().map(|person| scope.spawn(|| person.try_create(&probe).code)).collect();
            asking.into_iter().map(|one| one.join().expect("an answer")).collect()
        });
        rounds = if codes.iter().all(|code| *code == 403) { rounds + 1 } else { 0 };
        if rounds >= ROUNDS { Ok(()) } else { Err(format!("{codes:?}")) }
    });
    traffic
}

#[test]
fn no_write_fails_while_two_webhooks_are_restarted_and_leaders_change() {
    let turn = busy();
    let bed = private("rolling");
    let balancer = Balancer::open(LAG).expect("the balancer opens");
    let mut webhooks = [0, 1].map(|replica| begin(&bed, &balancer, Role::Webhook, replica));
    let mut reconcilers = Vec::from([0, 1].map(|replica| begin(&bed, &balancer, Role::Reconciler, replica)));
    all_ready(&bed, webhooks.iter_mut().chain(&mut reconcilers));
    let story = Story::new(&bed, "upgraded");
    let traffic = judged_by_both(&turn, &story, "upgraded");
    let hooks =
        || version(&bed.admin.get("ValidatingWebhookConfiguration", "", "copyrator").expect("the hooks"));
    let hooked = hooks();
    let (accepted, refused) = traffic.flows_while(|traffic| {
        for round in 0..3 {
            restart_each(&bed, &balancer, &mut webhooks);
            traffic.none_has_failed(&format!("in restarts of webhooks, round {round}"));
        }
        traffic.none_fails("with both webhooks back");

        let first = leader(&bed);
        let at = reconcilers.iter().position(|it| first == it.pod()).expect("one of them leads");
        reconcilers.remove(at).terminate().expect("it ends in order");
        let second = until_another_leads(&bed, &first);
        traffic.none_fails("after a leader that left");

        let mut next = begin(&bed, &balancer, Role::Reconciler, u16::from(first.ends_with('1')));
        next.wait_ready().expect("it becomes ready");
        let at = reconcilers.iter().position(|it| second == it.pod()).expect("the other leads");
        reconcilers.remove(at).kill();
        until_another_leads(&bed, &second);
        traffic.none_fails("after a leader that was killed");
    });
    println!("{accepted} writes were accepted and {refused} refused, and none failed");
    assert!(accepted > 500 && refused > 100, "{accepted}, {refused}: there was hardly any traffic");
    let shares = balancer.connections();
    assert!(shares.iter().all(|share| *share > 3), "one of them got no calls: {shares:?}");
    assert_eq!(hooks(), hooked, "the hooks were written again");
}

/// The chart's `topology: combined`: who answers also leads, and gives up both at once.
#[test]
fn no_write_fails_while_two_that_do_everything_are_restarted() {
    let turn = busy();
    let bed = private("rolling-combined");
    let balancer = Balancer::open(LAG).expect("the balancer opens");
    let mut both = [0, 1].map(|replica| begin(&bed, &balancer, Role::Both, replica));
    all_ready(&bed, both.iter_mut());
    let story = Story::new(&bed, "combined-upgraded");
    let (accepted, refused) = judged_by_both(&turn, &story, "combined-upgraded").flows_while(|traffic| {
        for round in 0..2 {
            let before = leader(&bed);
            restart_each(&bed, &balancer, &mut both);
            traffic.none_has_failed(&format!("in restarts, round {round}"));
            eventually("one of them leads", || match leader(&bed) {
                none if none.is_empty() => Err(format!("{before} did")),
                _ => Ok(()),
            });
        }
        traffic.none_fails("with both back");
    });
    println!("{accepted} writes were accepted and {refused} refused, and none failed");
    let shares = balancer.connections();
    assert!(shares.iter().all(|share| *share > 2), "one of them got no calls: {shares:?}");
}

/// Each replica mints its own leaf; the API server may talk to either with a leaf of either CA.
#[test]
fn no_write_fails_while_two_webhooks_follow_a_new_ca() {
    let turn = busy();
    let bed = private("rolling-ca");
    let balancer = Balancer::open(LAG).expect("the balancer opens");
    let flags = [&DRAIN[..], &FAST].concat();
    let start = |role, replica| bed.testbed.balanced(&balancer, role, replica, &flags).expect("it starts");
    let mut webhooks = [0, 1].map(|replica| start(Role::Webhook, replica));
    let mut reconciler = start(Role::Reconciler, 0);
    all_ready(&bed, webhooks.iter_mut().chain([&mut reconciler]));
    let story = Story::new(&bed, "new-ca");
    let first = certificates(&ca(&bed), "ca.crt");
    let (accepted, refused) = judged_by_both(&turn, &story, "new-ca").flows_while(|traffic| {
        let rotate = json!({ "metadata": { "annotations": { "copyrator.dev/rotate": "now" } } });
        bed.admin.merge("Secret", testbed::NAMESPACE, "copyrator-webhook-ca", &rotate).ok();
        let second = until_another_signs(&bed, &first);
        webhooks.iter().for_each(|webhook| until_served_by(webhook, &second));
        assert!(
            ca(&bed)["data"]["ca-old.crt"].is_string(),
            "leaves of the CA before are trusted to their end"
        );
        end_leaves_of_before(&bed);
        eventually("the first CA is not trusted any more", || {
            let secret = ca(&bed);
            assert_eq!(certificates(&secret, "ca.crt"), second);
            same(secret["data"]["ca-old.crt"].is_null(), true)
        });
        traffic.none_fails("after the rotation");
        // Connections that were made before are not asked for a certificate again.
        for (number, replica) in (0..).zip(&mut webhooks) {
            assert!(replica.end().expect("it ends").success());
            *replica = start(Role::Webhook, number);
            replica.wait_ready().expect("it becomes ready");
            eventually("both get calls", || match balancer.ready() {
                2 => Ok(()),
                other => Err(format!("{other} of 2")),
            });
        }
        traffic.none_fails("with new connections to both");
    });
    println!("{accepted} writes were accepted and {refused} refused, and none failed");
}

fn begin(bed: &Bed, balancer: &Balancer, role: Role, replica: u16) -> Operator {
    bed.testbed.balanced(balancer, role, replica, &DRAIN).expect("it starts")
}

/// Neither role is ready without the other.
fn all_ready<'o>(bed: &Bed, all: impl Iterator<Item = &'o mut Operator>) {
    for process in all {
        process.wait_ready().expect("it becomes ready");
    }
    bed.testbed.wait_hooked().expect("the hooks are applied");
}

/// Ends one after the other, as a kubelet does, and starts the next one when both get calls again.
fn restart_each(bed: &Bed, balancer: &Balancer, replicas: &mut [Operator; 2]) {
    for (number, replica) in (0..).zip(replicas) {
        eventually("both get calls", || match balancer.ready() {
            2 => Ok(()),
            other => Err(format!("{other} of 2")),
        });
        let status = replica.end().expect("it ends");
        assert!(status.success(), "{status}");
        *replica = begin(bed, balancer, replica.role(), number);
        replica.wait_ready().expect("it becomes ready");
    }
}

/// The pod that holds the Lease, without what tells its lives apart; nothing where nobody does.
fn leader(bed: &Bed) -> String {
    let lease = bed.admin.get("Lease", testbed::NAMESPACE, "copyrator-reconciler").unwrap_or_default();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let pods = ["copyrator-reconciler-0", "copyrator-reconciler-1"];
    pods.into_iter().find(|pod| holder.starts_with(pod)).unwrap_or_default().to_owned()
}

fn until_another_leads(bed: &Bed, before: &str) -> String {
    eventually("the other reconciler leads", || match leader(bed) {
        now if !now.is_empty() && now != before => Ok(now),
        now => Err(now),
    })
}
