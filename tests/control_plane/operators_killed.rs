//! The operators of [`super::operators`] and the stub of [`super::test_stub`] are killed at each of their writes in turn, and not
//! there when things go.

use std::cmp::Ordering;

use serde_json::{Value, json};

use crate::bed::{Bed, Call, Crew, Fate, Gate, Story, eventually};
use crate::operators::{FLAGS, MEMCACHED, NGINX, instance, template_of, until_nodes, until_served};

const STUB: &str = include_str!("../../examples/test-stub.yaml");
const STUB_LABEL: &str = "example.com/test-stub";
const STUB_NAME: &str = "k8s-test-stub";
/// As many as there are in each place for certain. For NginxServers a Deployment and a Service made, two Deployments changed, and a
/// status for each of the three; for Memcacheds a Deployment made, one changed, and two statuses; for the stub two objects made, and two
/// marked and deleted.
const WRITES: usize = 17;

/// Two namespaces: one where objects come, change and go, one that loses the stub.
struct Place {
    name: String,
    left: String,
}

/// For every n: in its n-th place the process dies when it is about to make its n-th write, or when that is done and its answer lost.
/// At the end it dies while objects go, too. Whatever is left behind, the last one finishes.
pub fn killed_at_any_of_its_writes(bed: &Bed, crew: Crew) -> Crew {
    let story = Story::new(bed, "killed");
    for example in [NGINX, MEMCACHED, STUB] {
        let mut template = template_of(&story, example);
        // An object that has no owner any more is marked, and then deleted.
        template["spec"]["deletionGrace"] = "2s".into();
        story.admin().create(&template).ok();
    }
    let places: Vec<Place> = (0..WRITES).map(|number| begin(&story, &number.to_string())).collect();
    places.iter().for_each(|place| until_begun(&story, place));
    let Crew { reconciler, webhook } = crew;
    reconciler.kill();
    for (number, place) in places.iter().enumerate() {
        change(&story, place);
        bed.release_lease();
        let here = [&place.name, &place.left].map(|namespace| format!("/namespaces/{namespace}/"));
        let is_write = move |call: &Call| {
            let is_here = here.iter().any(|part| call.path.contains(part));
            let is_about_it = is_here && !call.path.contains("/events");
            is_about_it && call.method != "GET" && !call.query.contains("dryRun")
        };
        let last = if number % 2 == 0 { Fate::Held } else { Fate::Unanswered };
        kill_at(bed, is_write, number, last);
    }
    // No operator of ours takes away what went meanwhile.
    for Place { name, .. } in &places {
        for (kind, name_of) in [("Deployment", "gone"), ("Service", "gone"), ("Deployment", "gone-cache")] {
            story.until_gone(kind, name, name_of);
        }
    }
    let reconciler = started(bed);
    places.iter().for_each(|place| until_changed(&story, place));
    for template in ["nginx-server", "memcached", "test-stub"] {
        story.until_condition("CopyratorTemplate", template, "Ready", "True", "AllRendered");
    }

    reconciler.kill();
    for template in ["nginx-server", "memcached", "test-stub"] {
        story.admin().delete("CopyratorTemplate", &story.home, template).ok();
    }
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
    for Place { name, .. } in &places {
        for server in ["made", "scaled", "changed"] {
            story.until_gone("Deployment", name, server);
            story.until_gone("Service", name, server);
            assert!(
                story.admin().get("NginxServer", name, server).is_some(),
                "{server} went with its objects"
            );
        }
        for cache in ["made-cache", "scaled-cache"] {
            story.until_gone("Deployment", name, cache);
            assert!(story.admin().get("Memcached", name, cache).is_some(), "{cache} went with its objects");
        }
        story.until_gone("Deployment", name, STUB_NAME);
        story.until_gone("Service", name, STUB_NAME);
    }
    Crew { reconciler, webhook }
}

/// What is there before the first process is killed.
fn begin(story: &Story<'_>, number: &str) -> Place {
    let place = Place { name: story.target(number), left: story.target(&format!("{number}-left")) };
    label(story, &place.left, json!("nginx"));
    for name in ["scaled", "changed", "gone"] {
        serve(story, &place.name, name);
    }
    for name in ["scaled-cache", "gone-cache"] {
        cache(story, &place.name, name);
    }
    place
}

fn until_begun(story: &Story<'_>, Place { name, left }: &Place) {
    for server in ["scaled", "changed", "gone"] {
        until_served(story, name, server, 1, "nginx:1");
    }
    for cache in ["scaled-cache", "gone-cache"] {
        until_nodes(story, name, cache, 1);
    }
    until_stubbed(story, left);
}

/// What happens while no process runs.
fn change(story: &Story<'_>, Place { name, left }: &Place) {
    let merge = |kind: &str, object: &str, spec: Value| {
        story.admin().merge(kind, name, object, &json!({ "spec": spec })).ok();
    };
    serve(story, name, "made");
    merge("NginxServer", "scaled", json!({ "replicas": 2 }));
    merge("NginxServer", "changed", json!({ "image": "nginx:2" }));
    story.admin().delete("NginxServer", name, "gone").ok();
    cache(story, name, "made-cache");
    merge("Memcached", "scaled-cache", json!({ "size": 2 }));
    story.admin().delete("Memcached", name, "gone-cache").ok();
    label(story, name, json!("nginx"));
    label(story, left, Value::Null);
}

fn until_changed(story: &Story<'_>, Place { name, left }: &Place) {
    until_served(story, name, "made", 1, "nginx:1");
    until_served(story, name, "scaled", 2, "nginx:1");
    until_served(story, name, "changed", 1, "nginx:2");
    until_nodes(story, name, "made-cache", 1);
    until_nodes(story, name, "scaled-cache", 2);
    until_stubbed(story, name);
    story.until_gone("Deployment", left, STUB_NAME);
    story.until_gone("Service", left, STUB_NAME);
}

fn until_stubbed(story: &Story<'_>, namespace: &str) {
    for kind in ["Deployment", "Service"] {
        eventually(&format!("the stub's {kind} is in {namespace}"), || {
            story.admin().get(kind, namespace, STUB_NAME).ok_or("it is not there".to_owned())
        });
    }
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

fn serve(story: &Story<'_>, namespace: &str, name: &str) {
    let spec = json!({ "replicas": 1, "image": "nginx:1" });
    story.admin().create(&instance("NginxServer", namespace, name, spec)).ok();
}

fn cache(story: &Story<'_>, namespace: &str, name: &str) {
    story.admin().create(&instance("Memcached", namespace, name, json!({ "size": 1 }))).ok();
}

fn label(story: &Story<'_>, namespace: &str, value: Value) {
    let labels = json!({ "metadata": { "labels": { STUB_LABEL: value } } });
    story.admin().merge("Namespace", "", namespace, &labels).ok();
}
