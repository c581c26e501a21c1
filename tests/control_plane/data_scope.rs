//! What is not ours is not sent to us by watches either.

use std::collections::BTreeSet;

use serde_json::json;

use crate::bed::objects::{data, namespace, ours, secret};
use crate::bed::{Bed, Call, Fate, Gate, Story, eventually, private};

/// So often it is looked whether less is needed.
const FLAGS: [&str; 2] = ["--sweep-interval", "3s"];

/// Without a rule, the reconciler watches Secrets by our labels; a rule adds a watch of the namespace with its sources, and no other
/// watch. The reconciler still finds objects in the way, copies without labels, orphaned copies and annotated sources.
#[test]
fn secrets_are_watched_where_something_reads_them() {
    let bed = private("data-scope");
    let story = Story::new(&bed, "scoped");
    let elsewhere = story.bystander("elsewhere");
    bed.admin.create(&secret(&elsewhere, "app", [("k", "1")])).ok();
    let mut webhook = bed.webhook();
    let gate = watching(&bed);
    let mut reconciler = bed.gated_with(&gate, &FLAGS);
    webhook.wait_ready().expect("the webhook becomes ready");
    reconciler.wait_ready().expect("the reconciler becomes ready");
    bed.testbed.wait_hooked().expect("the hooks are applied");
    bed.until_led_by(&reconciler);
    bed.until_answered();
    assert_eq!(watched(&gate.calls()), set(&["labels", testbed::NAMESPACE]), "without a rule");

    let first = story.target("first");
    bed.admin.create(&secret(&story.home, "app", [("k", "1")])).ok();
    bed.admin.create(&story.rule("Secret", &["app"])).ok();
    story.until("Secret", &first, "app", [("k", "1")]);
    let second = story.target("second");
    story.until("Secret", &second, "app", [("k", "1")]);
    let with_rule = set(&["labels", testbed::NAMESPACE, &story.home]);
    assert_eq!(watched(&gate.calls()), with_rule, "with a rule");
    // The reconciler sees another user's object before a write, and sees that the object is deleted.
    let third = story.bystander("third");
    let fourth = story.bystander("fourth");
    for place in [&third, &fourth] {
        bed.admin.create(&secret(place, "app", [("k", "mine")])).ok();
        let labels = json!({ "metadata": { "labels": { "story": "scoped" } } });
        bed.admin.merge("Namespace", "", place, &labels).ok();
    }
    story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Conflict");
    story.until("Secret", &third, "app", [("k", "mine")]);
    bed.admin.delete("Secret", &fourth, "app").ok();
    story.until("Secret", &fourth, "app", [("k", "1")]);
    // A copy that has lost its labels gets them back.
    let bare = json!({ "metadata": { "labels": null } });
    bed.admin.merge("Secret", &first, "app", &bare).ok();
    eventually("the copy has its labels again", || {
        let copy = bed.admin.get("Secret", &first, "app").ok_or("the copy is gone")?;
        match copy["metadata"]["labels"]["copyrator.dev/rule"].as_str() {
            Some(_) => Ok(()),
            None => Err(copy["metadata"].to_string()),
        }
    });

    // An object that declares something, where nothing else is.
    let far = story.bystander("far");
    let mut declaring = secret(&far, "declared", [("k", "1")]);
    declaring["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    declaring["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": elsewhere });
    bed.admin.create(&declaring).ok();
    story.until("Secret", &elsewhere, "declared", [("k", "1")]);
    assert_eq!(watched(&gate.calls()), with_rule, "the labels show it");

    // One rule with sources in more than a few namespaces; and then none.
    let many: Vec<String> = (0..17).map(|at| story.called(&format!("many-{at}"))).collect();
    many.iter().for_each(|name| drop(bed.admin.create(&namespace(name, &data([]))).ok()));
    let spec = json!({
        "source": { "kind": "Secret", "names": ["wide"], "namespaces": many }, "deletionGrace": "0s",
        "targets": [{ "names": [elsewhere] }],
    });
    bed.admin.create(&secret(&many[16], "wide", [("k", "1")])).ok();
    bed.admin.create(&ours("CopyratorRule", &story.home, "wide", spec)).ok();
    story.until("Secret", &elsewhere, "wide", [("k", "1")]);
    assert!(watched(&gate.calls()).contains("all"), "one watch of all");
    let until_all = gate.calls().len();
    bed.admin.delete("CopyratorRule", &story.home, "wide").ok();
    story.until_gone("Secret", &elsewhere, "wide");
    eventually("they are watched one by one again", || {
        let since = watched(&gate.calls()[until_all..]);
        if since.contains(&story.home) { Ok(()) } else { Err(format!("{since:?}")) }
    });
    bed.admin.merge("Secret", &story.home, "app", &json!({ "stringData": { "k": "2" } })).ok();
    story.until("Secret", &first, "app", [("k", "2")]);
    for (place, name) in [(&second, "app"), (&elsewhere, "declared")] {
        bed.admin.delete("Secret", place, name).ok();
    }
    story.until("Secret", &second, "app", [("k", "2")]);
    story.until("Secret", &elsewhere, "declared", [("k", "1")]);

    // A rule that went while we were away; and an object whose label did, whose copies stay.
    reconciler.kill();
    bed.admin.delete("CopyratorRule", &story.home, "rule").ok();
    let off = json!({ "metadata": { "labels": { "copyrator.dev/declares": null } } });
    bed.admin.merge("Secret", &far, "declared", &off).ok();
    bed.release_lease();
    let gate = watching(&bed);
    let reconciler = bed.gated_with(&gate, &FLAGS);
    for place in [&first, &second, &fourth] {
        story.until_gone("Secret", place, "app");
    }
    let copy = bed.admin.get("Secret", &elsewhere, "declared").expect("it stays");
    assert_eq!(copy["metadata"]["annotations"].get("copyrator.dev/remove-after"), None);
    let again = watched(&gate.calls());
    assert_eq!(again, set(&["labels", testbed::NAMESPACE, &far]), "only a copy names that object now");
    reconciler.kill();
}

/// A start asks about an object in the way before it would write.
#[test]
fn a_start_writes_nothing_where_an_object_is_in_the_way() {
    let bed = private("in-the-way");
    let story = Story::new(&bed, "occupied");
    let (there, free) = (story.target("there"), story.target("free"));
    bed.admin.create(&secret(&there, "app", [("k", "mine")])).ok();
    bed.admin.create(&secret(&story.home, "app", [("k", "1")])).ok();
    let mut webhook = bed.webhook();
    let mut reconciler = bed.reconciler(0);
    webhook.wait_ready().expect("the webhook becomes ready");
    reconciler.wait_ready().expect("the reconciler becomes ready");
    bed.testbed.wait_hooked().expect("the hooks are applied");
    bed.until_led_by(&reconciler);
    bed.until_answered();
    bed.admin.create(&story.rule("Secret", &["app"])).ok();
    story.until("Secret", &free, "app", [("k", "1")]);
    story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Conflict");
    reconciler.kill();
    bed.release_lease();

    let is_of_secrets = |call: &Call| call.path.contains("/secrets/app");
    let gate = Gate::over(&bed, is_of_secrets, |_, _| Fate::Pass);
    let mut reconciler = bed.gated_with(&gate, &[]);
    reconciler.wait_ready().expect("the reconciler becomes ready");
    eventually("it asks about the object in the way", || {
        let asks = |call: &Call| call.method == "GET" && call.path.contains(&*there);
        if gate.calls().iter().any(asks) { Ok(()) } else { Err(format!("{:?}", gate.calls().len())) }
    });
    // A source that comes now has gone through everything that a start looks at.
    bed.admin.merge("Secret", &story.home, "app", &json!({ "stringData": { "k": "2" } })).ok();
    story.until("Secret", &free, "app", [("k", "2")]);
    let wrote = |call: &Call| call.method != "GET" && call.path.contains(&*there);
    assert!(!gate.calls().iter().any(wrote), "a write to an object that is not ours");
    reconciler.kill();
}

/// Counts the watches of Secrets.
fn watching(bed: &Bed) -> Gate {
    let is_watch = |call: &Call| call.path.ends_with("/secrets") && call.query.contains("watch=true");
    Gate::over(bed, is_watch, |_, _| Fate::Pass)
}

/// The namespaces that were watched; `labels` where objects of all were by their labels, `all` where all objects were.
fn watched(calls: &[Call]) -> BTreeSet<String> {
    let of = |call: &Call| match call.path.strip_prefix("/api/v1/namespaces/") {
        Some(rest) => rest.trim_end_matches("/secrets").to_owned(),
        None if call.query.contains("labelSelector=") => "labels".to_owned(),
        None => "all".to_owned(),
    };
    calls.iter().map(of).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
