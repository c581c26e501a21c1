//! What is not ours is not sent to us by watches either.

use std::collections::BTreeSet;

use serde_json::json;

use crate::bed::objects::{data, namespace, ours, secret};
use crate::bed::{Bed, Call, Fate, Gate, Story, eventually, private};

/// So often it is looked whether less is needed.
const FLAGS: [&str; 2] = ["--sweep-interval", "3s"];

/// Without a rule, Secrets are watched by labels of ours; with one, where it reads and writes, as namespaces come; with one for
/// everything, everywhere. What such a watch does not show is found all the same: copies that nobody wants any more, and
/// objects that declare something.
#[test]
fn secrets_are_watched_where_something_needs_them() {
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
    let with_rule = set(&["labels", testbed::NAMESPACE, &story.home, &first, &second]);
    assert_eq!(watched(&gate.calls()), with_rule, "with a rule");
    // What somebody else has is seen there before it is written over.
    let third = story.bystander("third");
    bed.admin.create(&secret(&third, "app", [("k", "mine")])).ok();
    bed.admin
        .merge("Namespace", "", &third, &json!({ "metadata": { "labels": { "story": "scoped" } } }))
        .ok();
    story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Conflict");
    story.until("Secret", &third, "app", [("k", "mine")]);

    // An object that declares something, where nothing else is.
    let far = story.bystander("far");
    let mut declaring = secret(&far, "declared", [("k", "1")]);
    declaring["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    declaring["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": elsewhere });
    bed.admin.create(&declaring).ok();
    story.until("Secret", &elsewhere, "declared", [("k", "1")]);
    let of_it = watched(&gate.calls());
    assert!(of_it.contains(&far) && of_it.contains(&elsewhere) && !of_it.contains("all"), "{of_it:?}");

    // One rule for more than a few; and then none.
    let many: Vec<String> = (0..17).map(|at| story.called(&format!("many-{at}"))).collect();
    let of_many = data([("many", "scoped")]);
    many.iter().for_each(|name| drop(bed.admin.create(&namespace(name, &of_many)).ok()));
    let spec = json!({
        "source": { "kind": "Secret", "names": ["wide"] }, "deletionGrace": "0s",
        "targets": [{ "namespaceSelector": { "matchLabels": { "many": "scoped" } } }],
    });
    bed.admin.create(&secret(&story.home, "wide", [("k", "1")])).ok();
    bed.admin.create(&ours("CopyratorRule", &story.home, "wide", spec)).ok();
    many.iter().for_each(|name| drop(story.until("Secret", name, "wide", [("k", "1")])));
    assert!(watched(&gate.calls()).contains("all"), "one watch of all");
    let until_all = gate.calls().len();
    bed.admin.delete("CopyratorRule", &story.home, "wide").ok();
    many.iter().for_each(|name| story.until_gone("Secret", name, "wide"));
    eventually("they are watched one by one again", || {
        let since = watched(&gate.calls()[until_all..]);
        let wanted = set(&["labels", &story.home, &first, &far]);
        if wanted.is_subset(&since) { Ok(()) } else { Err(format!("{since:?}")) }
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
    for place in [&first, &second] {
        story.until_gone("Secret", place, "app");
    }
    let copy = bed.admin.get("Secret", &elsewhere, "declared").expect("it stays");
    assert_eq!(copy["metadata"]["annotations"].get("copyrator.dev/remove-after"), None);
    let again = watched(&gate.calls());
    assert!(again.contains(&first) && again.contains(&far) && !again.contains("all"), "{again:?}");
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
