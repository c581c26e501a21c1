//! What the author of an object sees of the templates that are rendered for it: children that restart for each other, and Events
//! that say what fails.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, label, ours, uid};
use crate::bed::{Bed, Story, eventually};
use crate::instances::{cache, everywhere, template};

/// A template that gives each cache a ConfigMap, and a Deployment that reads it and asks for its own restarts.
fn siblings(story: &Story<'_>) -> Value {
    let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" },
        "data": { "size": "${string(object.spec.size)}" } });
    let container = json!({ "name": "main", "image": "example.com/app",
        "envFrom": [{ "configMapRef": { "name": "settings" } }] });
    let labels = json!({ "app": "child" });
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "child", "annotations": { "copyrator.dev/restart": "true" } },
        "spec": { "replicas": 1, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } } } });
    let spec = json!({
        "forEach": { "objects": { "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "namespaces": everywhere(story) } },
        "objects": [{ "id": "settings", "template": config }, { "id": "child", "template": deployment }],
        "deletionGrace": "0s",
    });
    ours("CopyratorTemplate", &story.home, "siblings", spec)
}

/// A rendered workload restarts when its sibling ConfigMap changes, and nobody has to write a monitor for it.
pub fn a_child_restarts_for_its_sibling(bed: &Bed) {
    let story = Story::new(bed, "siblings");
    let place = story.target("place");
    story.admin().create(&siblings(&story)).ok();
    story.admin().create(&cache(&place, "one", 1)).ok();
    let child = || story.admin().get("Deployment", &place, "child").ok_or("it is not there".to_owned());
    eventually("the child has been looked at, and its pod is there", || {
        let recorded = label(&child()?, "copyrator.dev/applied").is_some();
        let pods = story.admin().list("Pod", &place, "app=child").len();
        if recorded && pods == 1 { Ok(()) } else { Err(format!("recorded {recorded}, {pods} pods")) }
    });
    story.until_later(1);
    let resized = json!({ "spec": { "size": 2 } });
    story.admin().merge("Memcached", &place, "one", &resized).ok();
    eventually("the child restarts", || {
        let object = child()?;
        match annotation(&object["spec"]["template"], "copyrator.dev/restarted-for") {
            Some(_) => Ok(()),
            None => Err(object["metadata"].to_string()),
        }
    });
    story.until_condition("CopyratorTemplate", "siblings", "Ready", "True", "AllRendered");
}

/// Who makes an object may be unable to read the template, and is told on the object what fails.
pub fn the_author_of_an_object_is_told(bed: &Bed) {
    let story = Story::new(bed, "told-authors");
    let place = story.target("place");
    story.admin().create(&template(&story, "caches", &everywhere(&story), "${object.metadata.name}")).ok();
    let told = |name: &str, reason: &str, part: &str| {
        let object = story.admin().get("Memcached", &place, name).expect("it is there");
        eventually(&format!("an Event on {name} has {part}"), || {
            let events = story.admin().list("Event", &place, "");
            let about: Vec<_> =
                events.iter().filter(|event| event["regarding"]["uid"] == uid(&object)).collect();
            let is_it = |event: &&Value| {
                event["reason"] == reason && event["note"].as_str().is_some_and(|note| note.contains(part))
            };
            if about.iter().any(is_it) { Ok(()) } else { Err(format!("{about:?}")) }
        });
    };
    let mut plain = cache(&place, "plain", 1);
    plain.as_object_mut().expect("an object").remove("spec");
    story.admin().create(&plain).ok();
    told("plain", "RenderFailed", "no such key: read a key that may be missing with .?");
    let taken = crate::bed::objects::config_map(&place, "taken", [("of", "somebody")]);
    story.admin().create(&taken).ok();
    story.admin().create(&cache(&place, "taken", 1)).ok();
    told("taken", "Conflict", "taken");
}
