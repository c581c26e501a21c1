//! From one version to the next and back, definitions included: nothing is lost, nothing is written anew, nobody restarts.

mod estate;
mod fleet;
mod newer;
mod next;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE};

use crate::bed::objects::ours;
use crate::bed::{Bed, PROGRAM, Request, Story, busy, eventually, of_version, previous};
use crate::rolling::judged_by_both;
use estate::Estate;
use fleet::Fleet;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");

#[test]
fn an_upgrade_and_its_rollback_keep_everything_and_fail_no_write() {
    let Some(previous) = previous("upgrade") else { return };
    let turn = busy();
    let bed = of_version("upgrade", &previous.chart, &previous.program);
    let upgrade =
        || bed.helm(&["upgrade", RELEASE, CHART, "--namespace", NAMESPACE, "--reset-then-reuse-values"]);
    let mut fleet = Fleet::start(&bed);
    let estate = Estate::found(&bed, "owned");
    let story = Story::new(&bed, "written-meanwhile");
    let (accepted, refused) = judged_by_both(&turn, &story, "written-meanwhile").flows_while(|traffic| {
        let (before, grant) = (Before::of(&estate), estate.grant());
        upgrade();
        traffic.none_fails("with the new definitions and the old processes");
        bed.testbed.change_to(PROGRAM.as_ref());
        fleet.replace_reconciler(&bed);
        traffic.none_fails("with the new reconciler and the old webhooks");
        fleet.replace_webhooks(&bed);
        traffic.none_fails("after the upgrade");
        before.is_unchanged(&estate, "upgraded");
        eventually(
            "the new version asks for itself whether annotations that name a namespace are allowed",
            || {
                let now = estate.grant();
                if now.is_empty() || now == grant { Err(now) } else { Ok(()) }
            },
        );
        estate.lives("5");

        let before = Before::of(&estate);
        for name in ["later", "later-touched"] {
            bed.admin.create(&ours("ConfigPolicy", "", name, with_later_field())).ok();
        }
        bed.helm(&["rollback", RELEASE, "1", "--namespace", NAMESPACE]);
        traffic.none_fails("with the old definitions and the new processes");
        until_later_field(&bed, "later-touched", false);
        bed.testbed.change_to(&previous.program);
        fleet.replace_webhooks(&bed);
        traffic.none_fails("with the old webhooks and the new reconciler");
        fleet.replace_reconciler(&bed);
        traffic.none_fails("after the rollback");
        before.is_unchanged(&estate, "rolled-back");
        estate.lives("6");

        // A write under the old definitions is what loses a later field.
        let touch = json!({ "metadata": { "labels": { "touched": "yes" } } });
        bed.admin.merge("ConfigPolicy", "", "later-touched", &touch).ok();
        let before = Before::of(&estate);
        upgrade();
        bed.testbed.change_to(PROGRAM.as_ref());
        fleet.replace_reconciler(&bed);
        fleet.replace_webhooks(&bed);
        traffic.none_fails("after the second upgrade");
        before.is_unchanged(&estate, "upgraded-again");
        until_later_field(&bed, "later-touched", false);
    });
    println!("{accepted} writes were accepted and {refused} refused, and none failed");

    estate.lives("7");
    // What waited all the while comes once it may.
    let pause = json!({ "spec": { "pace": { "minInterval": "0s" } } });
    let (pod, rollouts) = (estate.story.until_running("slow"), estate.story.rollouts("slow"));
    bed.admin.merge("ConfigMonitor", &estate.story.home, "slow", &pause).ok();
    estate.story.until_restarted("slow", &pod);
    assert_eq!(estate.story.rollouts("slow"), rollouts + 1);
    let go = json!({ "spec": { "suspend": false } });
    bed.admin.merge("CopyratorRule", &estate.story.home, "idle", &go).ok();
    estate.story.until("ConfigMap", &estate.blue, "idle", [("k", "1")]);
}

/// What there was, and when.
struct Before {
    inventory: BTreeMap<String, Value>,
    leaves_at: String,
    at: Timestamp,
}

impl Before {
    fn of(estate: &Estate<'_>) -> Before {
        let at = Timestamp::now();
        Before { inventory: estate.inventory(), leaves_at: estate.leaves_at(), at }
    }

    /// Everything is as it was, also when the version that runs now has seen all of it and has done what it would do.
    fn is_unchanged(&self, estate: &Estate<'_>, when: &str) {
        estate.story.marker(when);
        estate.until_in_order();
        let now = estate.inventory();
        for (object, was) in &self.inventory {
            assert_eq!(now.get(object), Some(was), "{when}: {object}");
        }
        assert_eq!(now.len(), self.inventory.len(), "{when}: {now:?}");
        assert_eq!(estate.leaves_at(), self.leaves_at, "{when}");
        // Not by their number: some may have shown up after the answer that was waited for.
        let mut writes = estate.story.bed.our_writes();
        writes.retain(|write| write.at.0.parse::<Timestamp>().is_ok_and(|at| at > self.at));
        assert!(writes.iter().any(|write| write.name == "marker"), "{when}: our writes are not seen");
        // What somebody reads as news would be none.
        let is_theirs = |write: &&Request| [&estate.story.home, &estate.blue].contains(&&write.namespace);
        // A grant that ends with the namespaces that it names is asked for anew by each version, which an Event tells.
        let is_grant = |write: &&Request| {
            let (of, _) = write.name.split_once('.').unwrap_or((&write.name, ""));
            write.namespace == estate.story.home && of == estate::TOLD
        };
        let needless = writes.iter().filter(|write| is_theirs(write) && !is_grant(write));
        let needless: Vec<_> = needless.filter(|write| write.subresource != "status").collect();
        assert!(needless.is_empty(), "{when}: {needless:#?}");
    }
}

/// A policy that the earlier version would not take.
fn with_later_field() -> Value {
    json!({ "match": { "kinds": ["ConfigMap"], "names": ["nothing"] }, "limits": { "maxBytes": 9 },
        "warnAbove": { "copies": 7 } })
}

/// Waits until the API server gives that field out, or does not any more: some seconds after a definition changes, it
/// still goes by the old one.
fn until_later_field(bed: &Bed, name: &str, is_there: bool) {
    eventually(&format!("warnAbove of {name} is there: {is_there}"), || {
        let now = bed.admin.get("ConfigPolicy", "", name).ok_or("the policy is gone")?;
        if now["spec"]["warnAbove"].is_null() == is_there { Err(now["spec"].to_string()) } else { Ok(()) }
    });
}
