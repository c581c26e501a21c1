//! What restarts hang on: copies of sources elsewhere, and the key of digests.

use serde_json::{Value, json};

use crate::bed::objects::{as_saved, config_map, label};
use crate::bed::{Request, Story, eventually, peaceful, rough, same};

/// The Secret with the key of digests.
const KEY: &str = "copyrator-digest-key";

/// Nobody restarts for a copy that does not have the new content yet (Reloader#508: half-new configuration in between).
#[test]
fn one_change_of_a_source_restarts_each_user_of_a_copy_once_after_its_copy() {
    let story = Story::new(peaceful(), "through-copies");
    let apps = ["copies-used-a", "copies-used-b", "copies-used-c"].map(|name| Story::new(story.bed, name));
    let source = |one: &str, other: &str| {
        story.admin().apply(&config_map(&story.home, "shared", [("one", one), ("other", other)])).ok();
    };
    source("1", "1");
    let mut rule = story.rule("ConfigMap", &["shared"]);
    rule["spec"]["targets"] = json!([{ "names": apps.iter().map(|app| &app.home).collect::<Vec<_>>() }]);
    story.admin().create(&rule).ok();
    let mut running: Vec<String> = Vec::new();
    for app in &apps {
        app.until("ConfigMap", &app.home, "shared", [("one", "1"), ("other", "1")]);
        app.deploy("web", &["shared"]);
        app.admin().create(&app.monitor(&["shared"], json!(null))).ok();
        app.until_adopted("web");
        running.push(app.until_running("web"));
    }
    story.until_later(2);
    // Two keys in one write; then two writes at once, of which copies take the first at once and the last in its turn.
    for (writes, rollouts) in [(vec![("2", "2")], 2..=2), (vec![("3", "2"), ("3", "3")], 3..=4)] {
        let (one, other) = *writes.last().expect("a write");
        writes.iter().for_each(|(one, other)| source(one, other));
        for (app, before) in apps.iter().zip(&mut running) {
            let copy = app.until("ConfigMap", &app.home, "shared", [("one", one), ("other", other)]);
            *before = app.until_restarted("web", before);
            eventually("the pods began after the last content came", || began_after(app, &copy));
        }
        story.until_later(1);
        story.marker(&format!("round-{one}"));
        for (app, before) in apps.iter().zip(&mut running) {
            *before = app.until_running("web");
            assert!(rollouts.contains(&app.rollouts("web")), "{}: {}", app.home, app.rollouts("web"));
        }
    }
    for app in &apps {
        restarts_follow_copies(app);
    }
}

/// Whether the pods began after their copy was last written. In the second of it a restart follows or not, as it was.
fn began_after(app: &Story<'_>, copy: &Value) -> Result<(), String> {
    let ours = copy["metadata"]["managedFields"].as_array().into_iter().flatten();
    let written = ours.filter_map(|entry| entry["time"].as_str()).max().unwrap_or_default();
    let pods = app.pods("web");
    let began = pods.iter().filter_map(|pod| pod["metadata"]["creationTimestamp"].as_str()).min();
    match began {
        Some(began) if began >= written => Ok(()),
        _ => Err(format!("{began:?}, copied at {written}")),
    }
}

/// What we wrote of copies, and our restarts, at one story's home, in order.
fn writes(app: &Story<'_>) -> Vec<Request> {
    let mut writes = app.bed.our_writes();
    let is_it = |it: &Request| it.uri.contains("copyrator-copy") || it.uri.contains("copyrator-restart");
    writes.retain(|it| it.namespace == app.home && it.code < 300 && is_it(it));
    writes.sort_by(|one, other| one.at.cmp(&other.at));
    writes
}

/// Every restart was asked for after another write of the copy: the first of them made it. Not after its answer, which may
/// come later than what a watch tells of it.
fn restarts_follow_copies(app: &Story<'_>) {
    let writes = writes(app);
    let (copies, restarts): (Vec<_>, Vec<_>) = writes.iter().partition(|it| it.resource == "configmaps");
    assert!(!restarts.is_empty(), "{writes:#?}");
    for (number, restart) in restarts.iter().enumerate() {
        let before = copies.iter().filter(|copy| copy.at.0 < restart.at.0).count();
        assert!(before >= number + 2, "a restart before its copy was written: {writes:#?}");
    }
}

/// With the key lost, digests can be compared with nothing: everything is adopted anew, and nobody restarts (VSO#285: all of
/// them, at every start of the operator).
#[test]
fn a_lost_key_restarts_nobody() {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "changed"];
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = Story::new(bed, "lost-key");
    let change = |config: &str, value: &str| {
        story.admin().apply(&config_map(&story.home, config, [("k", value)])).ok();
    };
    change("app", "1");
    change("changed", "1");
    for name in NAMES {
        story.deploy(name, &[if name == "changed" { "changed" } else { "app" }]);
    }
    story.admin().create(&story.monitor(&["*"], json!(null))).ok();
    let key_of = |label: String| label.split('.').next().unwrap_or_default().to_owned();
    let keys = || NAMES.map(|name| key_of(story.until_adopted(name)));
    let first = keys();
    let before = NAMES.map(|name| story.until_running(name));
    assert!(first.iter().all(|key| key == &first[0] && key.len() == 8), "{first:?}");
    let secret = bed.admin.get("Secret", testbed::NAMESPACE, KEY).expect("the key is kept");
    story.until_later(1);

    // While we run it is put back, and nothing hangs on it.
    bed.admin.delete("Secret", testbed::NAMESPACE, KEY).ok();
    eventually("the same key is there again", || {
        let key = |secret: &Value| secret["data"]["key"].clone();
        same(bed.admin.get("Secret", testbed::NAMESPACE, KEY).as_ref().map(key), Some(key(&secret)))
    });
    change("changed", "2");
    let changed = story.until_restarted("changed", &before[4]);
    story.marker("without");
    assert_eq!(keys(), first);

    crew.reconciler.kill();
    bed.admin.delete("Secret", testbed::NAMESPACE, KEY).ok();
    bed.release_lease();
    let begun = jiff::Timestamp::now();
    crew.reconciler = bed.reconciler(0);
    let second = eventually("everything is adopted anew", || {
        let now = keys();
        if now.iter().any(|key| key == &first[0]) { Err(format!("{now:?}")) } else { Ok(now) }
    });
    assert!(second.iter().all(|key| key == &second[0]), "{second:?}");
    story.marker("then");
    assert_eq!(NAMES.map(|name| story.rollouts(name)), [1, 1, 1, 1, 2]);
    assert_eq!(story.until_running("changed"), changed);
    eventually("each is written once", || {
        let mut adoptions = bed.our_writes();
        let is_later = |it: &Request| it.at.0.parse::<jiff::Timestamp>().is_ok_and(|at| at > begun);
        let is_one = |it: &Request| it.namespace == story.home && it.resource == "deployments";
        adoptions.retain(|it| is_one(it) && it.code < 300 && is_later(it));
        if adoptions.len() == NAMES.len() { Ok(()) } else { Err(format!("{adoptions:#?}")) }
    });
    // It is not asleep.
    story.until_later(1);
    change("changed", "3");
    story.until_restarted("changed", &changed);
    assert_eq!(NAMES.map(|name| story.rollouts(name)), [1, 1, 1, 1, 3]);
    let labels = story.admin().get("Deployment", &story.home, "a").expect("it is there");
    assert!(label(&labels, "copyrator.dev/applied").is_some_and(|label| label.starts_with(&second[0])));

    // The other stories' copies bear marks of the old one.
    crew.reconciler.kill();
    bed.admin.delete("Secret", testbed::NAMESPACE, KEY).ok();
    bed.admin.create(&as_saved(secret)).ok();
    crew.webhook.kill();
}
