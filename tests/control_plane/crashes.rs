//! Killed at any moment, the operator finishes later what it had begun, and does nothing twice.

use jiff::Timestamp;

use crate::bed::objects::{condition, config_map, data, version};
use crate::bed::{Bed, Crew, Crowd, Request, Story, eventually, rough};

const TARGETS: usize = 40;

/// Many targets, so that there is something to interrupt.
fn crowd<'a>(bed: &'a Bed, name: &'static str) -> Crowd<'a> {
    Crowd::new(bed, name, TARGETS)
}

/// Of several processes none writes any more once another has begun to: told by their tokens.
fn in_turn(writes: &[Request]) {
    let mut turns: Vec<(&str, &str, &str)> = Vec::new();
    for Request { credential, at: (from, to), .. } in writes {
        match turns.iter_mut().find(|(who, ..)| who == credential) {
            Some((_, first, last)) => {
                *first = (*first).min(from);
                *last = (*last).max(to);
            }
            None => turns.push((credential, from, to)),
        }
    }
    turns.sort_by_key(|(_, from, _)| *from);
    assert!(turns.len() > 1, "one process has written all: {turns:?}");
    assert!(turns.windows(2).all(|pair| pair[0].2 < pair[1].1), "two wrote at one time: {turns:#?}");
}

#[test]
fn a_reconciler_killed_after_any_number_of_writes_converges_when_started_again() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let crowd = crowd(bed, "killed");
    let story = &crowd.story;
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
        crowd.until_some_hold(&wanted, writes);
        victim.kill();
    }
    bed.release_lease();
    crew.reconciler = bed.reconciler(0);
    crowd.until_all_hold(&data([("round", "round 6")]));
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    crew.reconciler.kill();
    crew.webhook.kill();
}

#[test]
fn when_the_leader_of_two_is_killed_the_other_goes_on() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let before = bed.our_writes().len();
    let mut second = bed.reconciler(1);
    second.wait_ready().expect("a standby is ready");
    let crowd = crowd(bed, "succeeded");
    let story = &crowd.story;
    bed.admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    crowd.until_all_hold(&data([("k", "1")]));
    bed.admin.apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    crew.reconciler.kill();
    // Whatever it has come to: something is left to the other.
    bed.admin.apply(&config_map(&story.home, "app", [("k", "3")])).ok();
    // Nobody gives up the lease for the dead: it runs out.
    crowd.until_all_hold(&data([("k", "3")]));
    in_turn(&bed.our_writes().split_off(before));
    second.kill();
    crew.webhook.kill();
}

#[test]
fn a_leader_that_was_paused_and_replaced_overwrites_nothing() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let written = bed.our_writes().len();
    let crowd = crowd(bed, "slept");
    let story = &crowd.story;
    bed.admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    crowd.until_all_hold(&data([("k", "1")]));
    let mut second = bed.reconciler(1);
    second.wait_ready().expect("a standby is ready");
    crew.reconciler.pause().expect("it can be paused");
    bed.admin.apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    crowd.until_all_hold(&data([("k", "2")]));
    let before: Vec<String> = crowd.copies().values().map(version).collect();
    crew.reconciler.resume().expect("it can go on");
    story.marker("then");
    assert_eq!(crowd.copies().values().map(version).collect::<Vec<_>>(), before);
    in_turn(&bed.our_writes().split_off(written));
    second.kill();
    crew.reconciler.kill();
    crew.webhook.kill();
}

/// Nor does it run into what is there already (replicator#285, #143, #356: "already exists" at every start), nor restart
/// anybody (Reloader#166, #216: everything restarts with the operator).
#[test]
fn a_restart_with_everything_in_place_writes_nothing() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let crowd = crowd(bed, "settled");
    let story = &crowd.story;
    bed.admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    crowd.until_all_hold(&data([("k", "1")]));
    story.deploy("web", &["app"]);
    bed.admin.create(&story.monitor(&["app"], serde_json::json!(null))).ok();
    story.until_adopted("web");
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    eventually("the monitor is up to date", || {
        let monitor = bed.admin.get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let is_ready = condition(&monitor, "Ready").is_some_and(|(status, _)| status == "True");
        if monitor["status"]["upToDate"] == 1 && is_ready {
            Ok(())
        } else {
            Err(monitor["status"].to_string())
        }
    });
    // Hooks reach namespaces of earlier stories until they are looked at: the first restart brings them in order.
    let crew = again(bed, crew);
    story.marker("then");
    let from = story.called("then-from");
    eventually("the hooks reach the marker's source", || {
        let hooks = bed.admin.get("ValidatingWebhookConfiguration", "", "copyrator").ok_or("no hooks")?;
        if hooks["webhooks"].to_string().contains(&from) {
            Ok(())
        } else {
            Err(hooks["webhooks"].to_string())
        }
    });
    let settled = state(&crowd);

    // The log may tell a moment later of what was written before: its times count.
    let restarted = Timestamp::now();
    let crew = again(bed, crew);
    bed.admin.apply(&config_map(&from, "marker", [("seen", "again")])).ok();
    story.until("ConfigMap", &story.called("then-to"), "marker", [("seen", "again")]);
    let since = |it: &Request| it.at.0.parse::<Timestamp>().expect("a time") >= restarted;
    eventually("the hooks are looked at", || {
        let of_hooks = |it: &Request| it.verb == "get" && it.resource == "validatingwebhookconfigurations";
        let by_us = |it: &Request| it.user.ends_with(":copyrator-reconciler");
        let looked = bed.requests().iter().any(|it| of_hooks(it) && by_us(it) && since(it));
        if looked { Ok(()) } else { Err("not yet".into()) }
    });
    crew.reconciler.terminate().expect("it ends in order");
    let mut written = bed.our_writes();
    // Earlier stories of this cluster were not waited for: a status of theirs may still be due.
    let is_ours = |namespace: &str| {
        namespace.is_empty() || namespace == testbed::NAMESPACE || namespace.starts_with(&story.called(""))
    };
    let is_marker = |it: &Request| it.namespace == from || it.name == "marker";
    written.retain(|it| since(it) && is_ours(&it.namespace) && !is_marker(it));
    assert!(written.is_empty(), "a restart wrote: {written:#?}");
    assert_eq!(state(&crowd), settled);
    crew.webhook.kill();
}

/// Both processes end in order, and are started again.
fn again(bed: &Bed, crew: Crew) -> Crew {
    crew.reconciler.terminate().expect("it ends in order");
    crew.webhook.terminate().expect("it ends in order");
    bed.man()
}

/// The versions of everything that could have been written.
fn state(crowd: &Crowd<'_>) -> Vec<String> {
    let story: &Story<'_> = &crowd.story;
    let mut versions: Vec<String> = crowd.copies().values().map(version).collect();
    for (kind, name) in
        [("CopyratorRule", "rule"), ("ConfigMonitor", "monitor"), ("ConfigMap", "app"), ("Deployment", "web")]
    {
        versions.push(
            story.admin().get(kind, &story.home, name).map(|object| version(&object)).unwrap_or_default(),
        );
    }
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        versions.extend(story.admin().list(kind, "", "").iter().map(version));
    }
    versions
}
