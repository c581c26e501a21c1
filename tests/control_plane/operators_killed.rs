//! The operator of [`super::operators`] is killed at each of its writes in turn, and not there when things go.

use std::cmp::Ordering;

use serde_json::{Value, json};

use crate::bed::{Bed, Call, Crew, Fate, Gate, Story, eventually};
use crate::operators::{FLAGS, NGINX, instance, until_served};

/// As many as there are in each namespace for certain: a Deployment and a Service made, two Deployments changed, and a status for each
/// of the three.
const WRITES: usize = 7;

/// For every n: in its n-th namespace the process dies when it is about to make its n-th write, or when that is done and its answer lost.
/// At the end it dies while objects go, too. Whatever is left behind, the last one finishes.
pub fn killed_at_any_of_its_writes(bed: &Bed, crew: Crew) -> Crew {
    let story = Story::new(bed, "killed");
    let mut template: Value = serde_saphyr::from_str(NGINX.split("\n---\n").nth(1).unwrap_or_default())
        .expect("the example is YAML");
    template["metadata"]["namespace"] = story.home.as_str().into();
    // An object that has no owner any more is marked, and then deleted.
    template["spec"]["deletionGrace"] = "2s".into();
    story.admin().create(&template).ok();
    let places: Vec<String> = (0..WRITES).map(|number| story.target(&number.to_string())).collect();
    for place in &places {
        for name in ["scaled", "changed", "gone"] {
            make(&story, place, name);
        }
    }
    for place in &places {
        for name in ["scaled", "changed", "gone"] {
            until_served(&story, place, name, 1, "nginx:1");
        }
    }
    let Crew { reconciler, webhook } = crew;
    reconciler.kill();
    for (number, place) in places.iter().enumerate() {
        make(&story, place, "made");
        let change = |name: &str, spec: Value| {
            story.admin().merge("NginxServer", place, name, &json!({ "spec": spec })).ok();
        };
        change("scaled", json!({ "replicas": 2 }));
        change("changed", json!({ "image": "nginx:2" }));
        story.admin().delete("NginxServer", place, "gone").ok();
        bed.release_lease();
        let here = format!("/namespaces/{place}/");
        let is_write = move |call: &Call| {
            let is_about_it = call.path.contains(&here) && !call.path.contains("/events");
            is_about_it && call.method != "GET" && !call.query.contains("dryRun")
        };
        let last = if number % 2 == 0 { Fate::Held } else { Fate::Unanswered };
        kill_at(bed, is_write, number, last);
    }
    // No operator of ours takes away what went meanwhile.
    for place in &places {
        for kind in ["Deployment", "Service"] {
            story.until_gone(kind, place, "gone");
        }
    }
    let reconciler = started(bed);
    for place in &places {
        until_served(&story, place, "made", 1, "nginx:1");
        until_served(&story, place, "scaled", 2, "nginx:1");
        until_served(&story, place, "changed", 1, "nginx:2");
    }
    story.until_condition("CopyratorTemplate", "nginx-server", "Ready", "True", "AllRendered");

    reconciler.kill();
    story.admin().delete("CopyratorTemplate", &story.home, "nginx-server").ok();
    let of_story = format!("/namespaces/{}", story.called(""));
    // Once as the first object has been marked, once as the first is deleted.
    for method in ["PATCH", "DELETE"] {
        let here = of_story.clone();
        bed.release_lease();
        let is_write = move |call: &Call| {
            call.method == method && call.path.contains(&here) && !call.query.contains("dryRun")
        };
        kill_at(bed, is_write, 0, Fate::Unanswered);
    }
    let reconciler = started(bed);
    for place in &places {
        for name in ["made", "scaled", "changed"] {
            story.until_gone("Deployment", place, name);
            story.until_gone("Service", place, name);
            assert!(story.admin().get("NginxServer", place, name).is_some(), "{name} went with its objects");
        }
    }
    Crew { reconciler, webhook }
}

/// Starts a process and kills it as it makes the write after so many: that one has this fate, and no other is done any more.
fn kill_at(bed: &Bed, is_write: impl Fn(&Call) -> bool + Send + Sync + 'static, number: usize, last: Fate) {
    let fate = move |_: &Call, before: &[Call]| match before.len().cmp(&number) {
        Ordering::Less => Fate::Pass,
        Ordering::Equal => last,
        Ordering::Greater => Fate::Held,
    };
    let gate = Gate::over(bed, is_write, fate);
    let victim = bed.gated_with(&gate, &FLAGS);
    eventually("the write is held, or done without an answer", || match gate.calls().get(number) {
        Some(call) if call.fate == Fate::Held || call.answer.is_some() => Ok(()),
        _ => Err(format!("{:#?}", gate.calls())),
    });
    victim.kill();
}

fn started(bed: &Bed) -> testbed::Operator {
    bed.release_lease();
    bed.testbed.operator(testbed::Role::Reconciler, 0, &FLAGS).expect("the reconciler starts")
}

fn make(story: &Story<'_>, place: &str, name: &str) {
    let spec = json!({ "replicas": 1, "image": "nginx:1" });
    story.admin().create(&instance("NginxServer", place, name, spec)).ok();
}
