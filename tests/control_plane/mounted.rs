//! The CA is swapped in mounted certificates, in each pod at its own time, and webhooks restart meanwhile: the caller
//! trusts each that answers. The chart's rights are those of `certificates.mode: secret`, except for the story without a right to read hooks.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use copyrator_certs::{Authority, Leaf};
use serde_json::{Value, json};
use testbed::{Balancer, NAMESPACE, Operator, RELEASE, Role};

use crate::bed::objects::ours;
use crate::bed::{Bed, Handshakes, Story, Traffic, busy, eventually, private, rough, same};
use crate::certificates::{CA, end, man_each, readyz, warned};
use crate::rolling::judged_by_both;

/// How long a replica still gets connections after it has said that it goes, and how long it stays for them.
const LAG: Duration = Duration::from_secs(2);
const DAY: Duration = Duration::from_secs(86_400);

/// As the kubelet mounts a Secret: each version in a directory of its own, and a symbolic link swapped.
fn mount(dir: &Path, version: &str, leaf: &Leaf, key: &Leaf, authority: &Authority) {
    let new = dir.join(format!("..{version}"));
    fs::create_dir_all(&new).expect("a directory");
    let files = [
        ("tls.crt", leaf.chain_pem.clone()),
        ("tls.key", key.key_pem.expose().to_owned()),
        ("ca.crt", authority.cert_pem()),
    ];
    for (name, text) in files {
        fs::write(new.join(name), text).expect("a file");
        symlink(format!("..data/{name}"), dir.join(name)).ok();
    }
    let before = fs::read_link(dir.join("..data")).ok();
    symlink(format!("..{version}"), dir.join("..data_tmp")).expect("a link");
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).expect("the swap");
    if let Some(before) = before {
        fs::remove_dir_all(dir.join(before)).expect("the version before goes");
    }
}

/// A cluster with two webhooks and a reconciler, each with a volume of its own.
struct Stage {
    bed: Bed,
    balancer: Balancer,
    folder: PathBuf,
}

/// A CA, with a leaf of it for the webhooks.
struct Issued {
    authority: Authority,
    leaf: Leaf,
}

impl Issued {
    fn new() -> Issued {
        let now = SystemTime::now();
        let authority = Authority::issue("somebody's CA", now, DAY).expect("a CA");
        let leaf = authority.issue_leaf(&[], &[[127, 0, 0, 1].into()], now, DAY).expect("a leaf");
        Issued { authority, leaf }
    }
}

impl Stage {
    fn set(name: &str) -> Stage {
        let bed = private(name);
        let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
        let mut arguments = vec!["upgrade", RELEASE, chart, "--namespace", NAMESPACE, "--reuse-values"];
        let sets = ["certificates.mode=secret", "certificates.secretName=hook-tls"];
        arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
        bed.helm(&arguments);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("control_plane/mounts").join(name);
        fs::remove_dir_all(&folder).ok();
        Stage { bed, balancer: Balancer::open(LAG).expect("the balancer opens"), folder }
    }

    /// As the kubelet does it for this pod.
    fn mount(&self, role: Role, replica: u16, version: &str, issued: &Issued) {
        let dir = self.volume(role, replica);
        fs::create_dir_all(&dir).expect("a directory");
        mount(&dir, version, &issued.leaf, &issued.leaf, &issued.authority);
    }

    fn start(&self, role: Role, replica: u16) -> Operator {
        let dir = self.volume(role, replica);
        let propagation = match role {
            // An API server that is starved has as long to hear of a hook.
            Role::Webhook => "10s",
            // It has the CA of before trusted until the story is over: a webhook serves by it until the story ends that webhook.
            Role::Reconciler => "1h",
            // It waits for three times as long for hooks that never carry its CA.
            Role::Both => "5s",
        };
        let flags = ["--ca-propagation", propagation, "--drain-delay", "10s"];
        let flags = [&flags[..], &["--tls-dir", dir.to_str().expect("a path")]].concat();
        self.bed.testbed.balanced(&self.balancer, role, replica, &flags).expect("it starts")
    }

    fn volume(&self, role: Role, replica: u16) -> PathBuf {
        self.folder.join(format!("{}-{replica}", role.name()))
    }

    /// All of them, ready, with the hooks in force: the webhooks and the reconciler.
    fn man(&self, issued: &Issued) -> ([Operator; 2], Operator) {
        for (role, replica) in [(Role::Webhook, 0), (Role::Webhook, 1), (Role::Reconciler, 0)] {
            self.mount(role, replica, "first", issued);
        }
        let mut webhooks = [0, 1].map(|replica| self.start(Role::Webhook, replica));
        let mut reconciler = self.start(Role::Reconciler, 0);
        for process in webhooks.iter_mut().chain([&mut reconciler]) {
            process.wait_ready().expect("it becomes ready");
        }
        self.bed.testbed.wait_hooked().expect("the hooks are applied");
        self.until_serving(2);
        (webhooks, reconciler)
    }

    fn until_serving(&self, replicas: usize) {
        let what = format!("{replicas} replicas get calls");
        eventually(&what, || same(self.balancer.ready(), replicas));
    }

    /// Nobody's request was refused for want of a right, and hooks were read by the right that the chart gives.
    fn reads_hooks_by_right(&self) {
        let account = format!("system:serviceaccount:{NAMESPACE}:copyrator-webhook");
        let requests = self.bed.requests().into_iter().filter(|it| it.user == account);
        let (forbidden, others): (Vec<_>, Vec<_>) = requests.partition(|it| it.is_forbidden());
        assert!(forbidden.is_empty(), "{forbidden:#?}");
        for resource in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
            let has_read =
                others.iter().any(|it| (it.resource.as_str(), it.verb.as_str()) == (resource, "get"));
            assert!(has_read, "the webhook has not read {resource}");
        }
    }
}

const LACKING: &str = "the caBundle of the hooks lacks the CA of the mounted tls.crt";

/// Until a webhook waits that does so until hooks carry its CA. `meanwhile`: what holds all the time.
fn until_it_waits(webhook: &Operator, meanwhile: impl Fn()) {
    eventually("the webhook says what it waits for", || {
        meanwhile();
        let (code, said) = webhook.ask("/readyz").map_err(|error| error.to_string())?;
        let told = said.contains(&format!("certificate: {LACKING}"));
        same((code, told), (503, true)).map_err(|_| format!("{code} {said}"))
    });
}

/// It was ready at once, and the API server refused it: `x509: certificate signed by unknown authority`.
#[test]
fn a_webhook_that_starts_before_hooks_carry_its_ca_waits_and_no_write_fails() {
    let turn = busy();
    let stage = Stage::set("mounted-early");
    let (first, second) = (Issued::new(), Issued::new());
    let (mut webhooks, _reconciler) = stage.man(&first);
    let story = Story::new(&stage.bed, "mounted-early");
    let handshakes = Handshakes::default();
    let traffic = judged_by_both(&turn, &story, "mounted-early");
    let (accepted, refused) = traffic.flows_while(|traffic| {
        handshakes.made_while(&stage.bed.admin, || {
            stage.mount(Role::Webhook, 1, "second", &second);
            assert!(webhooks[1].end().expect("it ends").success());
            webhooks[1] = stage.start(Role::Webhook, 1);
            until_it_waits(&webhooks[1], || {
                traffic.none_has_failed("while one webhook starts");
                // An API server that has just started finds a webhook that gets calls; the one here keeps its connections.
                assert_eq!(handshakes.seen().failures, [""; 0]);
            });
            traffic.none_fails("while one webhook waits");
            assert_eq!(stage.balancer.ready(), 1, "who waits gets calls");

            stage.mount(Role::Reconciler, 0, "second", &second);
            webhooks[1].wait_ready().expect("it becomes ready once hooks carry its CA");
            stage.until_serving(2);
            // The other one goes: what is called now is the new CA's, on new connections.
            stage.mount(Role::Webhook, 0, "second", &second);
            assert!(webhooks[0].end().expect("it ends").success());
            traffic.none_fails("with the new CA's leaf alone");
            webhooks[0] = stage.start(Role::Webhook, 0);
            webhooks[0].wait_ready().expect("it becomes ready");
            stage.until_serving(2);
            traffic.none_fails("with both back");
        });
    });
    let seen = handshakes.seen();
    assert_eq!(seen.failures, [""; 0]);
    let served = |issued: &Issued| seen.leaves.iter().any(|leaf| leaf.pem() == issued.leaf.chain_pem);
    assert!(served(&first) && served(&second), "{} leaves were served", seen.leaves.len());
    stage.reads_hooks_by_right();
    assert!(seen.count > 50, "{} handshakes", seen.count);
    println!("{accepted} writes were accepted, {refused} refused, {} handshakes: 0 failed", seen.count);
}

/// Nobody is ready, and hooks are written all the same: a reconciler that waited for a webhook would wait for ever.
#[test]
fn every_webhook_restarts_with_a_ca_that_no_hook_carries_and_all_comes_right() {
    let stage = Stage::set("mounted-outage");
    let (first, second) = (Issued::new(), Issued::new());
    let (webhooks, _reconciler) = stage.man(&first);
    let story = Story::new(&stage.bed, "mounted-outage");
    webhooks.into_iter().for_each(Operator::kill);
    let mut webhooks = [0, 1].map(|replica| {
        stage.mount(Role::Webhook, replica, "second", &second);
        stage.start(Role::Webhook, replica)
    });
    webhooks.iter().for_each(|webhook| until_it_waits(webhook, || {}));
    stage.until_serving(0);
    assert_eq!(stage.bed.admin.try_create(&monitor(&story)).code, 500, "somebody has answered");

    stage.mount(Role::Reconciler, 0, "second", &second);
    for webhook in &mut webhooks {
        webhook.wait_ready().expect("it becomes ready once hooks carry its CA");
    }
    stage.until_serving(2);
    until_judged(&story);
    stage.reads_hooks_by_right();
}

/// A roll-out to another Secret ends the leader, which has the old one mounted, only when the new pod is ready.
#[test]
fn a_process_that_answers_and_leads_does_not_wait_for_ever_for_a_leader_that_waits_for_it() {
    let stage = Stage::set("mounted-combined");
    let (first, second) = (Issued::new(), Issued::new());
    stage.mount(Role::Both, 0, "first", &first);
    let mut old = stage.start(Role::Both, 0);
    old.wait_ready().expect("it becomes ready");
    stage.bed.testbed.wait_hooked().expect("the hooks are applied");
    let story = Story::new(&stage.bed, "mounted-combined");

    stage.mount(Role::Both, 1, "second", &second);
    let mut new = stage.start(Role::Both, 1);
    // In the log, since readiness says so for three propagation times only, and a busy machine may look later.
    let waited = format!("there is no serving certificate that callers trust: {LACKING}");
    eventually("it has said what it waits for", || same(new.log().contains(&waited), true));
    new.wait_ready().expect("it becomes ready by the clock");
    assert!(old.end().expect("it ends").success());
    until_judged(&story);
}

/// Without a right to read hooks: a leaf counts three propagation times after its own `ca.crt` vouches for it. The chart's default gives no such right.
#[test]
fn mounted_certificates_are_followed_over_swaps_and_a_change_of_ca_and_no_call_fails() {
    let (bed, _turn) = rough();
    let mounts = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("control_plane/mounted");
    fs::remove_dir_all(&mounts).ok();
    let (dir, reconcilers) = (mounts.join("webhook"), mounts.join("reconciler"));
    let now = SystemTime::now();
    let authority = || Authority::issue("somebody's CA", now, DAY).expect("a CA");
    let leaf = |of: &Authority| of.issue_leaf(&[], &[[127, 0, 0, 1].into()], now, DAY).expect("a leaf");
    let (one, other) = (authority(), authority());
    let (first, second, third) = (leaf(&one), leaf(&one), leaf(&other));
    for dir in [&dir, &reconcilers] {
        mount(dir, "first", &first, &first, &one);
    }
    bed.admin.delete("Secret", NAMESPACE, CA);

    let text = |dir: &Path| dir.to_str().expect("a path").to_owned();
    // The CA of before stays trusted for ten times as long as the reconciler is told: longer than the story takes.
    let crew = man_each(
        bed,
        &["--tls-dir", &text(&dir), "--ca-propagation", "5s"],
        &["--tls-dir", &text(&reconcilers), "--ca-propagation", "1h"],
    );
    let story = Story::new(bed, "mounted");
    let handshakes = Handshakes::default();
    let served = |leaf: &Leaf, what: &str| {
        eventually(what, || {
            let seen = handshakes.seen().leaves;
            if seen.iter().any(|it| it.pem() == leaf.chain_pem) {
                Ok(())
            } else {
                Err(format!("{}", seen.len()))
            }
        });
    };
    let words = "private key does not belong to the certificate";
    let both = [&one, &other].map(Authority::certificate);
    let before = warned(&crew.webhook, words);
    let happens = || {
        served(&first, "the mounted certificate is served");
        mount(&dir, "second", &second, &second, &one);
        served(&second, "so is the next");
        mount(&dir, "torn", &first, &second, &one);
        eventually("the webhook says what is torn", || {
            let (code, said) = readyz(&crew.webhook);
            same((code, said.contains(words)), (200, true)).map_err(|_| said)
        });
        // The webhook does not wait for the reconciler.
        mount(&reconcilers, "third", &third, &third, &other);
        eventually("the hooks have both trusted", || {
            let bundles = handshakes.seen().bundles;
            same(bundles.last().is_some_and(|last| both.iter().all(|it| last.contains(it))), true)
        });
        mount(&dir, "third", &third, &third, &other);
        served(&third, "so is one of another CA");
        eventually("the webhook is content again", || same(readyz(&crew.webhook), (200, "ready\n".into())));
    };
    let traffic = Traffic::judged(&story, "mounted");
    traffic.flows_while(|_| handshakes.made_while(&bed.admin, happens));
    let seen = handshakes.seen();
    assert_eq!(seen.failures, [""; 0]);
    assert_eq!(warned(&crew.webhook, words), before + 1, "told once");
    assert_eq!(seen.leaves.len(), 3);
    assert!(bed.admin.get("Secret", NAMESPACE, CA).is_none(), "Copyrator made a CA beside the mounted one");
    end(story, crew);
}

/// Of a kind of ours, which nobody may write while no webhook answers.
fn monitor(story: &Story<'_>) -> Value {
    let spec = json!({ "watch": [{ "kind": "ConfigMap", "names": ["web"] }] });
    ours("ConfigMonitor", &story.home, "web", spec)
}

fn until_judged(story: &Story<'_>) {
    eventually("our kinds are judged again", || match story.bed.admin.try_create(&monitor(story)) {
        answer if answer.code < 300 => Ok(()),
        answer => Err(format!("{} {}", answer.code, answer.body["message"])),
    });
}
