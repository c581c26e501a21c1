//! Certificates change while writes go on that nobody but a webhook with them may let pass.

use std::time::{Duration, SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD};
use copyrator_certs::{Authority, CaSecret, Certificate};
use serde_json::{Value, json};
use testbed::{NAMESPACE, Operator, Role};

use crate::bed::{Bed, Crew, Handshakes, Story, Traffic, eventually, rough, same};

pub const CA: &str = "copyrator-webhook-ca";
const DAY: Duration = Duration::from_secs(86_400);
/// Leaves are renewed as often as a test can wait, and last for a day all the same: no process is starved for as long. An API
/// server that is starved has ten seconds to hear of a hook.
pub const FAST: [&str; 4] = ["--leaf-renewal", "6s", "--ca-propagation", "10s"];
/// For stories without calls, which need no time for an API server.
const FASTER: [&str; 2] = ["--ca-propagation", "3s"];

fn man(bed: &Bed, flags: &[&str]) -> Crew {
    man_each(bed, flags, flags)
}

pub fn man_each(bed: &Bed, webhook: &[&str], reconciler: &[&str]) -> Crew {
    let start = |role, flags| bed.testbed.operator(role, 0, flags).expect("it starts");
    let (webhook, reconciler) = (start(Role::Webhook, webhook), start(Role::Reconciler, reconciler));
    let mut crew = Crew { webhook, reconciler };
    crew.webhook.wait_ready().expect("the webhook becomes ready");
    crew.reconciler.wait_ready().expect("the reconciler becomes ready");
    bed.testbed.wait_hooked().expect("the hooks are applied");
    // Which those of the story before may be, by another CA.
    bed.until_led_by(&crew.reconciler);
    bed.until_answered();
    crew
}

pub fn ca(bed: &Bed) -> Value {
    bed.admin.get("Secret", NAMESPACE, CA).expect("the CA's Secret")
}

/// The certificates in a key of the CA's Secret.
pub fn certificates(secret: &Value, key: &str) -> Vec<Certificate> {
    let text = STANDARD.decode(secret["data"][key].as_str().unwrap_or_default()).expect("base64");
    Certificate::all_from_pem(&String::from_utf8_lossy(&text)).expect("certificates")
}

/// Waits until another CA than these signs and they are still trusted, and gives it back.
pub fn until_another_signs(bed: &Bed, first: &[Certificate]) -> Vec<Certificate> {
    eventually("the next CA signs, and the one before is trusted", || {
        let secret = ca(bed);
        let (now, old) = (certificates(&secret, "ca.crt"), certificates(&secret, "ca-old.crt"));
        if now != first && old == first { Ok(now) } else { Err(format!("{} old", old.len())) }
    })
}

/// Waits until the webhook serves by this CA.
pub fn until_served_by(webhook: &Operator, authority: &[Certificate]) {
    eventually("the webhook serves by the next CA", || {
        let is_used = webhook.log().contains(&authority[0].fingerprint());
        if is_used { Ok(()) } else { Err("it serves by the one before".into()) }
    });
}

/// Once nobody serves a leaf of the CA before: it is trusted until their lifetime has passed since the switch, so the Secret
/// says now that this was long ago.
pub fn end_leaves_of_before(bed: &Bed) {
    let long_ago = jiff::Timestamp::try_from(SystemTime::now() - 10 * DAY).expect("a time");
    let switched = json!({ "copyrator.dev/ca-switched": long_ago.to_string() });
    bed.admin.merge("Secret", NAMESPACE, CA, &json!({ "metadata": { "annotations": switched } })).ok();
}

/// Waits until a rotation that the story before began is over, and gives the Secret's data back.
fn settled(bed: &Bed) -> Value {
    eventually("no rotation is under way", || {
        let data = ca(bed)["data"].clone();
        match (data["ca-next.crt"].is_null(), data["ca-old.crt"].is_null()) {
            (true, true) => return Ok(data),
            (true, false) => end_leaves_of_before(bed),
            (false, _) => {}
        }
        Err("one goes on".into())
    })
}

/// How often a process has logged a warning with these words.
pub fn warned(process: &Operator, words: &str) -> usize {
    process.log().lines().filter(|line| line.contains("WARN") && line.contains(words)).count()
}

/// How often the process has begun to lead: on a starved machine it may lose the Lease and win it again.
fn terms(process: &Operator) -> usize {
    process.log().lines().filter(|line| line.contains("this process is the leader")).count()
}

pub fn readyz(process: &Operator) -> (u16, String) {
    process.ask("/readyz").unwrap_or_else(|error| (0, error.to_string()))
}

/// Secrets rotated without overlap refused every write (gatekeeper#3014, AMD-AGI/Primus-SaFE#628); and a leader that dies
/// half-way leaves the rest to the next.
#[test]
fn no_call_fails_while_leaf_and_ca_rotate_and_the_leader_dies_half_way() {
    let (bed, _turn) = rough();
    let Crew { webhook, reconciler } = man(bed, &FAST);
    let story = Story::new(bed, "rotating");
    settled(bed);
    let first = certificates(&ca(bed), "ca.crt");
    let handshakes = Handshakes::default();
    let mut next = None;
    let happens = || {
        eventually("leaves are renewed twice", || {
            let seen = handshakes.seen();
            if seen.leaves.len() >= 3 { Ok(()) } else { Err(format!("{} leaves", seen.leaves.len())) }
        });
        assert_eq!(certificates(&ca(bed), "ca.crt"), first);

        let rotate = json!({ "metadata": { "annotations": { "copyrator.dev/rotate": "now" } } });
        bed.admin.merge("Secret", NAMESPACE, CA, &rotate).ok();
        eventually("the next CA is announced", || {
            let secret = ca(bed);
            // On a busy machine it may sign before the test has looked.
            let signs = certificates(&secret, "ca.crt") != first;
            if signs || secret["data"]["ca-next.crt"].is_string() { Ok(()) } else { Err("no next CA".into()) }
        });
        reconciler.kill();
        bed.release_lease();
        let reconciler = bed.testbed.operator(Role::Reconciler, 0, &FAST).expect("it starts again");
        let second = until_another_signs(bed, &first);
        until_served_by(&webhook, &second);
        assert!(
            ca(bed)["data"]["ca-old.crt"].is_string(),
            "leaves of the CA before are trusted to their end"
        );
        end_leaves_of_before(bed);
        eventually("the one before is not trusted any more", || {
            let seen = handshakes.seen();
            same(seen.bundles.last().map(Vec::len), Some(1))?;
            same(ca(bed)["data"]["ca-old.crt"].is_string(), false)
        });
        assert_eq!(handshakes.seen().bundles.last(), Some(&second));
        assert!(
            ca(bed)["metadata"]["annotations"]["copyrator.dev/rotate"].is_null(),
            "it would rotate again"
        );
        // And with that one alone the next leaves are taken too.
        let leaves = handshakes.seen().leaves.len();
        eventually("a leaf of the next CA is renewed", || {
            let seen = handshakes.seen().leaves.len();
            if seen > leaves { Ok(()) } else { Err(format!("{seen} leaves")) }
        });
        next = Some(reconciler);
    };
    let traffic = Traffic::judged(&story, "rotating");
    let (accepted, refused) = traffic.flows_while(|_| handshakes.made_while(&bed.admin, happens));
    let reconciler = next.expect("it was started again");
    let (seen, writes) = (handshakes.seen(), accepted + refused);
    assert_eq!(seen.failures, [""; 0]);
    assert!(writes > 200 && seen.count > 100, "{writes} writes, {} handshakes", seen.count);
    let both = || first.iter().chain(seen.bundles.last().into_iter().flatten());
    let has_both = |bundle: &Vec<_>| both().all(|one| bundle.contains(one));
    assert!(seen.bundles.iter().any(has_both), "never both: {:?}", seen.bundles);
    println!("{writes} writes, {} handshakes, {} leaves: 0 failed", seen.count, seen.leaves.len());
    end(story, Crew { webhook, reconciler });
}

/// A hook that we may not write would have its callers refuse the next CA.
#[test]
fn hands_off_the_hooks_holds_the_rotation_and_says_so() {
    let (bed, _turn) = rough();
    let crew = man(bed, &FASTER);
    let annotate = |kind: &str, value: Value| {
        let patch = json!({ "metadata": { "annotations": { "copyrator.dev/hands-off": value } } });
        bed.admin.merge(kind, "", "copyrator", &patch).ok();
    };
    annotate("ValidatingWebhookConfiguration", "incident".into());
    let first = ca(bed)["data"]["ca.crt"].clone();
    let before = warned(&crew.reconciler, "the rotation of the CA waits");
    let rotate = json!({ "metadata": { "annotations": { "copyrator.dev/rotate": "now" } } });
    bed.admin.merge("Secret", NAMESPACE, CA, &rotate).ok();
    eventually("readiness says why it waits", || {
        let (code, said) = readyz(&crew.reconciler);
        same(
            (code, said.contains("ca: the rotation of the CA waits") && said.contains("own-kinds")),
            (200, true),
        )
        .map_err(|_| said)
    });
    // To announce, to publish, to wait and to switch: it would need as many.
    let looks = || warned(&crew.reconciler, "does not update the webhook configurations");
    let so_far = looks();
    eventually("it has looked five times more", || match looks() - so_far {
        5.. => Ok(()),
        few => Err(format!("{few} looks")),
    });
    assert_eq!(ca(bed)["data"]["ca.crt"], first, "it has switched all the same");
    let (waits, terms) =
        (warned(&crew.reconciler, "the rotation of the CA waits") - before, terms(&crew.reconciler));
    assert!((1..=terms).contains(&waits), "told {waits} times in {terms} terms: once in each at most");
    annotate("ValidatingWebhookConfiguration", Value::Null);
    eventually("it goes on", || {
        if ca(bed)["data"]["ca.crt"] == first { Err("it has not switched".into()) } else { Ok(()) }
    });
    eventually("readiness is silent again", || same(readyz(&crew.reconciler), (200, "ready\n".into())));
    crew.reconciler.kill();
    crew.webhook.kill();
}

#[test]
fn a_torn_ca_secret_fails_no_call_is_told_once_and_mended() {
    let (bed, _turn) = rough();
    // The webhook looks every two seconds, and the Secret is torn for 50: ten times the propagation.
    let crew = man(bed, &["--leaf-renewal", "4s", "--ca-propagation", "5s"]);
    let story = Story::new(bed, "torn-ca");
    let good = settled(bed);
    let (torn, kept) = ("has no usable CA (", "the process keeps the last valid serving certificate");
    let before = (warned(&crew.reconciler, torn), warned(&crew.webhook, kept));
    let handshakes = Handshakes::default();
    let happens = || {
        let patch = json!({ "data": { "ca.key": STANDARD.encode("hunter2") } });
        bed.admin.merge("Secret", NAMESPACE, CA, &patch).ok();
        // In the log, since readiness says so for as long as it is torn only, and a busy machine may look later.
        for (process, before, says) in [(&crew.reconciler, before.0, torn), (&crew.webhook, before.1, kept)] {
            eventually("both say what is torn, and the way out, and go on", || {
                let (code, said) = readyz(process);
                assert!(code != 503 && !said.contains("hunter2"), "{said}");
                if warned(process, says) > before { Ok(()) } else { Err(said) }
            });
        }
        eventually("the last good CA is put back", || same(ca(bed)["data"].clone(), good.clone()));
        for process in [&crew.reconciler, &crew.webhook] {
            eventually("both are content again", || same(readyz(process), (200, "ready\n".into())));
        }
    };
    let traffic = Traffic::judged(&story, "torn-ca");
    traffic.flows_while(|_| handshakes.made_while(&bed.admin, happens));
    assert_eq!(handshakes.seen().failures, [""; 0]);
    assert!(
        warned(&crew.reconciler, torn) <= before.0 + terms(&crew.reconciler),
        "once in each term at most"
    );
    assert_eq!(warned(&crew.webhook, kept), before.1 + 1, "told once");
    for (process, says) in [(&crew.reconciler, torn), (&crew.webhook, kept)] {
        let log = process.log();
        let line = log.lines().rfind(|line| line.contains(says)).unwrap_or_default();
        assert!(line.contains("restore the Secret, or delete it") && !log.contains("hunter2"), "{line}");
    }
    end(story, crew);
}

/// With nobody left who remembers a good one, no replica could ever start again.
#[test]
fn a_torn_ca_secret_that_nobody_remembers_is_replaced_by_a_new_one() {
    let (bed, _turn) = rough();
    let crew = man(bed, &FASTER);
    crew.reconciler.kill();
    crew.webhook.kill();
    let first = ca(bed)["data"]["ca.crt"].clone();
    let patch = json!({ "data": { "ca.key": Value::Null } });
    bed.admin.merge("Secret", NAMESPACE, CA, &patch).ok();
    bed.release_lease();

    // It is torn until somebody comes who waits for less long.
    let start = |role, wait| bed.testbed.operator(role, 0, &["--ca-propagation", wait]).expect("it starts");
    let mut crew = Crew { webhook: start(Role::Webhook, "1h"), reconciler: start(Role::Reconciler, "1h") };
    for (process, says) in [(&crew.webhook, "certificate: "), (&crew.reconciler, "ca: ")] {
        eventually("it says what is torn, and the way out", || {
            let (code, said) = readyz(process);
            let told = said.contains(says)
                && said.contains("has no `ca.key`")
                && said.contains("restore the Secret");
            same((code, told), (503, true)).map_err(|_| said)
        });
    }
    crew.reconciler.kill();
    bed.release_lease();
    crew.reconciler = start(Role::Reconciler, "1s");
    crew.webhook.wait_ready().expect("the webhook becomes ready");
    crew.reconciler.wait_ready().expect("the reconciler becomes ready");
    bed.testbed.wait_hooked().expect("the hooks are applied");
    assert_ne!(ca(bed)["data"]["ca.crt"], first);
    assert_eq!(warned(&crew.reconciler, "has no usable CA; Copyrator replaces the CA by a new one"), 1);
    crew.reconciler.kill();
    crew.webhook.kill();
}

/// Its key has leaked. To look for another CA every half minute left the API server to refuse us for as long.
#[test]
fn a_deleted_ca_is_replaced_without_overlap_and_calls_come_through_again() {
    let (bed, _turn) = rough();
    let crew = man(bed, &[]);
    let story = Story::new(bed, "deleted-ca");
    let refused = || {
        let (_, metrics) = crew.webhook.ask("/metrics").unwrap_or_default();
        let total = "copyrator_webhook_certificates_refused_total ";
        metrics.lines().find_map(|line| line.strip_prefix(total)?.parse::<u64>().ok()).unwrap_or_default()
    };
    eventually("the API server refuses the webhook, which has the webhook look", || {
        let before = refused();
        replace_the_ca(bed, &crew.webhook);
        // A webhook that happens to look by itself is refused by nobody.
        if refused() > before { Ok(()) } else { Err("the webhook looked by itself".into()) }
    });
    Traffic::judged(&story, "deleted-ca").flows_while(|_| {});
    end(story, crew);
}

/// Deletes the CA, and waits until the webhook serves by the next one and calls come through.
fn replace_the_ca(bed: &Bed, webhook: &Operator) {
    let first = certificates(&ca(bed), "ca.crt");
    bed.admin.delete("Secret", NAMESPACE, CA).ok();
    let begun = std::time::Instant::now();
    let next = eventually("the hooks carry the next CA, and no other beside", || {
        let next = bed.admin.get("Secret", NAMESPACE, CA).ok_or("no CA")?;
        let next = certificates(&next, "ca.crt");
        let hooks = bed.admin.get("ValidatingWebhookConfiguration", "", "copyrator").ok_or("no hooks")?;
        let carried = hooks["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        let carried = STANDARD.decode(carried).map_err(|error| error.to_string())?;
        let carried = Certificate::all_from_pem(&String::from_utf8_lossy(&carried)).expect("a bundle");
        same((next != first, &carried), (true, &next))?;
        Ok(next)
    });
    println!("the hooks carry the next CA after {:?}", begun.elapsed());
    // Until then calls may come by connections of before.
    until_served_by(webhook, &next);
    bed.until_answered();
    println!("calls come through after {:?}", begun.elapsed());
}

/// As after a year in which the cluster was off (tidb-operator#5520, consul-k8s#857).
#[test]
fn an_expired_ca_is_replaced_and_hooks_and_leaves_follow() {
    let (bed, _turn) = rough();
    let long_ago = SystemTime::now() - 400 * DAY;
    let expired = CaSecret::new(Authority::issue("copyrator webhook CA", long_ago, 365 * DAY).expect("a CA"));
    let data: serde_json::Map<_, _> =
        expired.to_data().into_iter().map(|(key, value)| (key, STANDARD.encode(value).into())).collect();
    bed.admin.delete("Secret", NAMESPACE, CA);
    let metadata = json!({ "namespace": NAMESPACE, "name": CA });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data });
    bed.admin.create(&secret).ok();

    let webhook = bed.webhook();
    eventually("the webhook says why it is not ready", || {
        let (code, said) = readyz(&webhook);
        same((code, said.contains("its authority expired at")), (503, true)).map_err(|_| said)
    });
    let mut crew = Crew { webhook, reconciler: bed.reconciler(0) };
    crew.webhook.wait_ready().expect("the webhook becomes ready");
    crew.reconciler.wait_ready().expect("the reconciler becomes ready");
    bed.testbed.wait_hooked().expect("the hooks are applied");
    // Those of the story before may be, by its CA.
    bed.until_answered();
    let story = Story::new(bed, "expired-ca");
    Traffic::judged(&story, "expired-ca").flows_while(|_| {});
    let now = certificates(&ca(bed), "ca.crt");
    assert!(now[0].validity().contains(SystemTime::now()) && now[0] != *expired.current.certificate());
    assert_eq!(warned(&crew.webhook, "its authority expired at"), 1, "told once");
    end(story, crew);
}

/// Nothing is held up once nobody answers.
pub fn end(story: Story<'_>, crew: Crew) {
    let name = story.called("");
    story.admin().delete("ConfigPolicy", "", name.trim_end_matches('-')).ok();
    crew.reconciler.kill();
    crew.webhook.kill();
}

/// A process that serves no hooks gets no key, and no account a right to a CA that is not there.
#[test]
fn the_chart_mounts_what_others_keep() {
    let (bed, _turn) = rough();
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
    let render = |sets: &[&str]| {
        let mut arguments =
            vec!["template", "copyrator", chart, "--namespace", NAMESPACE, "--kube-version", "1.36"];
        arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
        bed.helm(&arguments)
    };
    let own = render(&[]);
    assert!(
        own.contains("  resourceNames:\n  - copyrator-webhook-ca\n")
            && !own.contains("--tls-dir")
            && !own.contains("kind: Certificate")
    );

    let who_gets_hooks = |text: &str| text.matches("  - validatingwebhookconfigurations\n").count();
    assert_eq!(who_gets_hooks(&own), 1, "the reconciler alone");

    let mounted = render(&["certificates.mode=secret", "certificates.secretName=hook-tls"]);
    assert_eq!(mounted.matches("--tls-dir=/certificates").count(), 2);
    assert_eq!(mounted.matches("secretName: hook-tls").count(), 2);
    assert_eq!(who_gets_hooks(&mounted), 2, "the webhook too");
    assert_eq!(mounted.matches("items: [{key: ca.crt, path: ca.crt}]").count(), 1, "the reconciler's");
    assert!(!mounted.contains("copyrator-webhook-ca") && !mounted.contains("kind: Certificate"));

    let issued = ["certificates.mode=cert-manager", "certificates.issuerRef.name=platform"];
    let kept = render(&issued);
    assert_eq!(kept.matches("secretName: copyrator-webhook-tls").count(), 3);
    let name = format!("copyrator-webhook.{NAMESPACE}");
    assert!(kept.contains(&format!("dnsNames: [{name}.svc, {name}, {name}.svc.cluster.local]")), "{kept}");
    for (url, line) in [
        ("https://192.0.2.7:8443", "ipAddresses: [\"192.0.2.7\"]"),
        ("https://hook.test/x", "dnsNames: [\"hook.test\"]"),
    ] {
        let kept = render(&[issued[0], issued[1], &format!("webhook.url={url}"), "topology=combined"]);
        assert!(kept.contains(line), "{url}: {kept}");
        assert!(!kept.contains("items: [{key"), "a process that answers needs the key");
    }
    for (wrong, says) in [
        (&["certificates.mode=secret"][..], "certificates.secretName"),
        (&["certificates.mode=cert-manager"][..], "certificates.issuerRef.name"),
        (&["certificates.mode=vault"][..], "certificates/mode"),
    ] {
        let mut helm = bed.testbed.cluster().helm().expect("helm is there");
        helm.args(["template", chart, "--kube-version", "1.36"])
            .args(wrong.iter().flat_map(|set| ["--set", set]));
        let output = helm.output().expect("helm runs");
        let said = String::from_utf8_lossy(&output.stderr).replace('.', "/");
        assert!(!output.status.success() && said.contains(&says.replace('.', "/")), "{wrong:?}: {said}");
    }
}
