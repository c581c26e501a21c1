//! Killed at any moment, the operator finishes later what it had begun, and does nothing twice.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::bed::objects::{Data, config_map, data, data_of, namespace, version};
use crate::bed::{Bed, Story, eventually, rough, same};

const TARGETS: usize = 40;

/// Many targets, so that there is something to interrupt.
fn crowd<'a>(bed: &'a Bed, name: &'static str) -> Story<'a> {
    let story = Story::new(bed, name);
    for number in 0..TARGETS {
        let labels = data([("story", name)]);
        bed.admin.create(&namespace(&story.called(&format!("{number:02}")), &labels)).ok();
    }
    story
}

/// The copies by namespace.
fn copies(story: &Story<'_>) -> BTreeMap<String, Value> {
    let all = story.admin().list("ConfigMap", "", "app.kubernetes.io/managed-by=copyrator");
    let prefix = story.called("");
    let place = |copy: &Value| copy["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let ours =
        |place: &str| place.strip_prefix(&prefix).is_some_and(|number| number.parse::<usize>().is_ok());
    all.into_iter().map(|copy| (place(&copy), copy)).filter(|(place, _)| ours(place)).collect()
}

fn holding(story: &Story<'_>, wanted: &Data) -> usize {
    copies(story).values().filter(|copy| data_of(copy) == *wanted).count()
}

fn until_all_hold(story: &Story<'_>, wanted: &Data) {
    eventually("every copy is there with the last content", || same(holding(story, wanted), TARGETS));
}

#[test]
fn a_reconciler_killed_after_any_number_of_writes_converges_when_started_again() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = crowd(bed, "killed");
    bed.admin.apply(&config_map(&story.home, "app", [("round", "first")])).ok();
    crew.reconciler.kill();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    // The kills come after so many copies have the round's content: at once, and in the middle of it.
    for (round, writes) in [0, 1, 2, 5, 11, 23, 37].into_iter().enumerate() {
        let value = format!("round {round}");
        bed.admin.apply(&config_map(&story.home, "app", [("round", &value)])).ok();
        let wanted = data([("round", &value)]);
        bed.release_lease();
        let victim = bed.reconciler(0);
        eventually("so many copies are written", || {
            let written = holding(&story, &wanted);
            if written >= writes { Ok(()) } else { Err(format!("{written} of {writes}")) }
        });
        victim.kill();
    }
    bed.release_lease();
    crew.reconciler = bed.reconciler(0);
    until_all_hold(&story, &data([("round", "round 6")]));
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    crew.reconciler.kill();
    crew.webhook.kill();
}

#[test]
fn when_the_leader_of_two_is_killed_the_other_goes_on() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let mut second = bed.reconciler(1);
    second.wait_ready().expect("a standby is ready");
    let story = crowd(bed, "succeeded");
    bed.admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    until_all_hold(&story, &data([("k", "1")]));
    bed.admin.apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    crew.reconciler.kill();
    // Nobody gives up the lease for the dead: it runs out.
    until_all_hold(&story, &data([("k", "2")]));
    second.kill();
    crew.webhook.kill();
}

#[test]
fn a_leader_that_was_paused_and_replaced_overwrites_nothing() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = crowd(bed, "slept");
    bed.admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    until_all_hold(&story, &data([("k", "1")]));
    let mut second = bed.reconciler(1);
    second.wait_ready().expect("a standby is ready");
    crew.reconciler.pause().expect("it can be paused");
    bed.admin.apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    until_all_hold(&story, &data([("k", "2")]));
    let before: Vec<String> = copies(&story).values().map(version).collect();
    crew.reconciler.resume().expect("it can go on");
    story.marker("then");
    assert_eq!(copies(&story).values().map(version).collect::<Vec<_>>(), before);
    second.kill();
    crew.reconciler.kill();
    crew.webhook.kill();
}

#[test]
fn a_restart_with_everything_in_place_writes_nothing() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = crowd(bed, "settled");
    bed.admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    until_all_hold(&story, &data([("k", "1")]));
    story.deploy("web", &["app"]);
    bed.admin.create(&story.monitor(&["app"], serde_json::json!(null))).ok();
    story.until_adopted("web");
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    let monitor = eventually("the monitor is up to date", || {
        let monitor = bed.admin.get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        if monitor["status"]["upToDate"] == 1 { Ok(monitor) } else { Err(monitor["status"].to_string()) }
    });
    crew.reconciler.terminate().expect("it ends in order");
    crew.webhook.terminate().expect("it ends in order");
    let settled = state(&story);
    let writes = bed.our_writes().len();

    let crew = bed.man();
    story.marker("then");
    crew.reconciler.terminate().expect("it ends in order");
    let since: Vec<_> = bed.our_writes().split_off(writes);
    // Earlier stories of this cluster were not waited for: a status of theirs may still be due.
    let is_ours = |namespace: &str| {
        namespace.is_empty() || namespace == testbed::NAMESPACE || namespace.starts_with(&story.called(""))
    };
    let is_marker = |namespace: &str, name: &str| namespace.starts_with("settled-then") || name == "marker";
    let surprising: Vec<_> =
        since.iter().filter(|it| is_ours(&it.namespace) && !is_marker(&it.namespace, &it.name)).collect();
    assert!(surprising.is_empty(), "a restart wrote: {surprising:#?}");
    assert_eq!(state(&story), settled);
    let after = bed.admin.get("ConfigMonitor", &story.home, "monitor").expect("it is there");
    assert_eq!(version(&after), version(&monitor));
    crew.webhook.kill();
}

/// The versions of everything that could have been written.
fn state(story: &Story<'_>) -> Vec<String> {
    let mut versions: Vec<String> = copies(story).values().map(version).collect();
    for (kind, name) in
        [("CopyratorRule", "rule"), ("ConfigMonitor", "monitor"), ("ConfigMap", "app"), ("Deployment", "web")]
    {
        versions.push(
            story.admin().get(kind, &story.home, name).map(|object| version(&object)).unwrap_or_default(),
        );
    }
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        versions.extend(story.admin().list(kind, "", "").iter().map(version));
    }
    versions
}
