//! Objects that go and come back under their names: replaced by force, or restored from a backup, with new UIDs.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bed::objects::{annotation, as_saved, config_map, secret, uid};
use crate::bed::{Bed, Story, eventually, peaceful};

/// `kubectl replace --force` deletes and creates. What uses the copies must not notice: a watch sees them all the while.
#[test]
fn a_source_replaced_by_force_leaves_no_copy_absent() {
    let story = Story::new(peaceful(), "forced");
    let target = story.target("a");
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"].as_object_mut().expect("a spec").remove("deletionGrace");
    let by_rule = config_map(&story.home, "app", [("k", "1")]);
    let mut by_annotation = secret(&story.home, "token", [("k", "1")]);
    by_annotation["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": target });
    by_annotation["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    let sources = [by_rule, by_annotation];
    sources.iter().for_each(|source| drop(story.admin().create(source).ok()));
    story.admin().create(&rule).ok();
    let copies = sources.clone().map(|source| {
        story.until(kind(&source), &target, name(&source), [("k", "1")]);
        eventually("the copy is settled", || settled(&story, &source, &target))
    });
    let records = copies.clone().map(|copy| story.admin().record(kind(&copy), &copy));
    for source in sources.clone() {
        replace_by_force(story.bed, &source);
    }
    // With other content too: the copies follow.
    let changed = [config_map(&story.home, "app", [("k", "2")]), secret(&story.home, "token", [("k", "2")])];
    for (mut source, old) in changed.into_iter().zip(&sources) {
        source["metadata"] = old["metadata"].clone();
        replace_by_force(story.bed, &source);
    }
    for ((source, copy), record) in sources.iter().zip(&copies).zip(records) {
        story.until(kind(source), &target, name(source), [("k", "2")]);
        let after = eventually("the copy is settled", || settled(&story, source, &target));
        let seen = record.never_gone(&after);
        assert!(seen.iter().all(|version| uid(version) == uid(copy)), "the copy was made anew: {seen:#?}");
    }
}

/// A backup tool deletes nothing in order and restores in its own: copies, sources, rules, all with new UIDs. Everything
/// comes to be as it was, and what uses the copies goes on running.
#[test]
fn restored_rules_sources_and_copies_are_as_before_and_restart_nobody() {
    let story = Story::new(peaceful(), "backed-up");
    let (target, admin) = (story.target("a"), story.admin());
    admin.create(&config_map(&story.called("a"), "unused", [("k", "theirs")])).ok();
    admin.create(&config_map(&story.home, "app", [("k", "1")])).ok();
    // The rule copies next to the workload: into the home of a story of its own.
    let consumer = Story::new(story.bed, "backed-up-used");
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"].as_object_mut().expect("a spec").remove("deletionGrace");
    rule["spec"]["targets"] = json!([{ "names": [target, consumer.home] }]);
    admin.create(&rule).ok();
    consumer.until("ConfigMap", &consumer.home, "app", [("k", "1")]);
    consumer.deploy("web", &["app"]);
    admin.create(&consumer.monitor(&["app"], json!(null))).ok();
    consumer.until_adopted("web");
    let running = consumer.until_running("web");
    story.until("ConfigMap", &target, "app", [("k", "1")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");

    let places = [("ConfigMap", &target), ("ConfigMap", &consumer.home), ("ConfigMap", &story.home)];
    let saved = |kind, place, name| as_saved(admin.get(kind, place, name).expect("it is there"));
    let rule = saved("CopyratorRule", &story.home, "rule");
    let saved: Vec<Value> = places.iter().map(|(kind, place)| saved(kind, place, "app")).collect();
    admin.delete("CopyratorRule", &story.home, "rule").ok();
    for (kind, place) in places.iter().rev() {
        admin.delete(kind, place, "app").ok();
        story.until_gone(kind, place, "app");
    }
    story.marker("lost");
    let restored: Vec<Value> = saved.iter().map(|object| admin.create(object).ok()).collect();
    story.marker("half");
    admin.create(&rule).ok();

    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    for (copy, place) in restored.iter().zip([&target, &consumer.home]) {
        let after =
            eventually("the copy names the new source and stays", || settled(&story, &restored[2], place));
        assert_eq!(uid(&after), uid(copy), "a restored copy was made anew");
        assert_eq!(after["data"], json!({ "k": "1" }));
    }
    story.marker("then");
    assert_eq!(consumer.until_running("web"), running);
    assert_eq!(consumer.revisions("web"), 1, "a workload restarted for nothing");
    // And it is alive: a change arrives, and restarts what uses it.
    admin.apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    story.until("ConfigMap", &target, "app", [("k", "2")]);
    consumer.until_restarted("web", &running);
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().expect("an object has a kind")
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("an object has a name")
}

/// The copy of a source, once it names the source that is there now and nobody is about to remove it.
fn settled(story: &Story<'_>, source: &Value, target: &str) -> Result<Value, String> {
    let (kind, name) = (kind(source), name(source));
    let source = story.admin().get(kind, &story.home, name).ok_or("the source is gone")?;
    let copy = story.admin().get(kind, target, name).ok_or("the copy is gone")?;
    let names_it = annotation(&copy, "copyrator.dev/source-uid") == Some(&uid(&source));
    let leaves = annotation(&copy, "copyrator.dev/remove-after").is_some();
    if names_it && !leaves { Ok(copy) } else { Err(copy["metadata"]["annotations"].to_string()) }
}

fn replace_by_force(bed: &Bed, object: &Value) {
    let mut kubectl = bed.testbed.cluster().kubectl();
    kubectl.args(["replace", "--force", "--filename", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut kubectl = kubectl.spawn().expect("kubectl runs");
    let mut input = kubectl.stdin.take().expect("a pipe");
    input.write_all(object.to_string().as_bytes()).expect("kubectl reads");
    drop(input);
    assert!(kubectl.wait().expect("kubectl ends").success(), "kubectl replace --force failed");
}
