//! Much at once, by templates.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::bed::objects::{data_of, ours};
use crate::bed::{Story, eventually, rough, same};

/// The most that a template has.
const OBJECTS: usize = 32;
const NAMESPACES: usize = 12;
/// How often it is edited, ten times a second.
const EDITS: usize = 40;

/// All objects come to the last text in a few writes each. A namespace that may hold no more holds up nobody else.
#[test]
fn a_large_template_that_is_edited_all_the_time_comes_to_its_last_text() {
    let (bed, _turn) = rough();
    let crew = bed.man_with(&["--min-spread-interval", "5s"]);
    let story = Story::new(bed, "edited");
    let places: Vec<String> = (0..NAMESPACES).map(|number| story.target(&format!("{number:02}"))).collect();
    let full = &places[NAMESPACES / 2];
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "namespace": full, "name": "full" },
        "spec": { "hard": { "configmaps": "5" } } });
    story.admin().create(&quota).ok();
    eventually("the quota is in force", || {
        let quota = story.admin().get("ResourceQuota", full, "full").ok_or("it is gone")?;
        same(quota["status"]["hard"]["configmaps"].clone(), json!("5"))
    });
    let holding = |text: &str| {
        let all = story.admin().list("ConfigMap", "", "app.kubernetes.io/managed-by=copyrator");
        let is_here = |object: &Value| places.iter().any(|place| object["metadata"]["namespace"] == **place);
        let holds = |object: &Value| data_of(object).get("text").is_some_and(|it| it == text);
        all.iter().filter(|object| is_here(object) && holds(object)).count()
    };
    story.admin().create(&template(&story, "first")).ok();
    let degraded = story.until_condition("CopyratorTemplate", "edited", "Degraded", "True", "Refused");
    eventually("all others have everything", || {
        let there = holding("first");
        let others = (NAMESPACES - 1) * OBJECTS;
        if there >= others { Ok(()) } else { Err(format!("{there} of {others}")) }
    });
    let problems = degraded["status"]["problems"].as_array().cloned().unwrap_or_default();
    let is_told = |problem: &Value| {
        problem["namespace"] == **full && problem["message"].to_string().contains("exceeded quota")
    };
    assert!(!problems.is_empty() && problems.iter().all(is_told), "{problems:#?}");

    story.admin().delete("ResourceQuota", full, "full").ok();
    for edit in 0..EDITS {
        let spec = template(&story, &format!("edit {edit}"))["spec"].clone();
        story.admin().merge("CopyratorTemplate", &story.home, "edited", &json!({ "spec": spec })).ok();
        thread::sleep(Duration::from_millis(100));
    }
    let last = format!("edit {}", EDITS - 1);
    eventually("every object holds the last text", || same(holding(&last), NAMESPACES * OBJECTS));
    story.until_condition("CopyratorTemplate", "edited", "Ready", "True", "AllRendered");
    let writes = bed.our_writes_in(&places[0]);
    let most = OBJECTS * EDITS / 6;
    assert!(writes.len() <= most, "{} writes of {EDITS} edits: {writes:#?}", writes.len());
    story.admin().delete("CopyratorTemplate", &story.home, "edited").ok();
    eventually("all of them are gone", || same(holding(&last), 0));
    crew.reconciler.kill();
    crew.webhook.kill();
}

fn template(story: &Story<'_>, text: &str) -> Value {
    let object = |number: usize| {
        let name = format!("object-{number:02}");
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "text": text, "in": "${namespaceObject.metadata.name}" } });
        json!({ "id": format!("o{number}"), "template": object })
    };
    let spec = json!({
        "forEach": { "namespaces": [{ "namespaceSelector": story.selector() }] },
        "objects": (0..OBJECTS).map(object).collect::<Vec<_>>(),
        "deletionGrace": "0s",
    });
    ours("CopyratorTemplate", &story.home, "edited", spec)
}
