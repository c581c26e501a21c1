//! Objects whose template no longer declares them, or whose instance is gone.

use serde_json::{Value, json};

use crate::bed::objects::{data, label};
use crate::bed::{Bed, Story, eventually, same};
use crate::instances::{cache, everywhere, template, until_counted};

/// The label by which the template of these stories selects.
const LABEL: &str = "stateful";

/// A template that gives each labelled cache a ConfigMap and a claim.
fn stateful(story: &Story<'_>, grace: &str) -> Value {
    let mut stateful = template(story, "stateful", &everywhere(story), "${object.metadata.name}-settings");
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "${object.metadata.name}-files" }, "spec": spec });
    let objects = stateful["spec"]["objects"].as_array_mut().expect("it has objects");
    objects.push(json!({ "id": "claim", "template": claim }));
    stateful["spec"]["forEach"]["objects"]["objectSelector"] = json!({ "matchLabels": { LABEL: "yes" } });
    stateful["spec"]["deletionGrace"] = json!(grace);
    stateful
}

fn labelled(place: &str, name: &str) -> Value {
    let mut cache = cache(place, name, 1);
    cache["metadata"]["labels"] = json!(data([(LABEL, "yes")]));
    cache
}

#[track_caller]
fn until_there(story: &Story<'_>, place: &str, name: &str) {
    story.until("ConfigMap", place, &format!("{name}-settings"), [("size", "1"), ("of", name)]);
    eventually("the claim is there", || {
        let claim = story.admin().get("PersistentVolumeClaim", place, &format!("{name}-files"));
        claim.map(drop).ok_or("it is not there".to_owned())
    });
}

/// The claim is there, without our marks and without an owner.
#[track_caller]
fn until_released(story: &Story<'_>, kind: &str, place: &str, name: &str) {
    eventually(&format!("{name} is an ordinary object"), || {
        let object = story.admin().get(kind, place, name).ok_or("it was deleted")?;
        same(label(&object, "copyrator.dev/rule"), None)?;
        same(object["metadata"]["ownerReferences"].clone(), Value::Null)
    });
}

/// No warning came, and five minutes later the claim and its data were gone.
pub fn a_label_taken_off_is_warned_of_and_what_holds_data_stays(bed: &Bed) {
    let story = Story::new(bed, "stateful");
    let place = story.target("a");
    story.admin().create(&stateful(&story, "1h")).ok();
    for name in ["relabelled", "declared", "deleted"] {
        story.admin().create(&labelled(&place, name)).ok();
        until_there(&story, &place, name);
    }
    let relabel = |value: Value| {
        let patch = json!({ "metadata": { "labels": { LABEL: value } } });
        story.admin().merge("Memcached", &place, "relabelled", &patch).warnings
    };
    // The hook follows the template, and the webhook the reconciler's index.
    eventually("who takes the label off is told", || {
        relabel(json!("yes"));
        let told = "copyrator: 1 object for this Memcached will be deleted in 1h, unless you restore the label (1 template)";
        same(relabel(Value::Null), vec![told.to_owned()])
    });
    let other = json!({ "metadata": { "labels": { "other": "label" } } });
    let untold = story.admin().merge("Memcached", &place, "relabelled", &other).warnings;
    assert_eq!(untold, Vec::<String>::new());
    // The label comes back, and everything is as it was.
    relabel(json!("yes"));
    until_there(&story, &place, "relabelled");
    story.until_condition("CopyratorTemplate", "stateful", "Ready", "True", "AllRendered");

    let edit = |spec: Value| {
        story.admin().merge("CopyratorTemplate", &story.home, "stateful", &json!({ "spec": spec })).warnings
    };
    edit(json!({ "deletionGrace": "0s" }));
    story.until_condition("CopyratorTemplate", "stateful", "Ready", "True", "AllRendered");
    relabel(Value::Null);
    story.until_gone("ConfigMap", &place, "relabelled-settings");
    until_released(&story, "PersistentVolumeClaim", &place, "relabelled-files");
    // Kubernetes deletes what is declared with its instance, as ever.
    story.admin().delete("Memcached", &place, "deleted").ok();
    story.until_gone("ConfigMap", &place, "deleted-settings");
    // The controller that takes this finalizer off does not run here.
    let freed = json!({ "metadata": { "finalizers": null } });
    eventually("the claim goes, too", || {
        let Some(claim) = story.admin().get("PersistentVolumeClaim", &place, "deleted-files") else {
            return Ok(());
        };
        same(claim["metadata"]["deletionTimestamp"].is_null(), false)?;
        let answer = story.admin().merge("PersistentVolumeClaim", &place, "deleted-files", &freed);
        Err(answer.body.to_string())
    });
    // The claim is taken out of the template.
    until_counted(&story, "stateful", 1, 2);
    let objects = stateful(&story, "0s")["spec"]["objects"].clone();
    let told = edit(json!({ "objects": [objects[0]] }));
    let stays =
        "1 object of this template stays as an ordinary object (with data, or with deletionPolicy: Retain)";
    assert!(told.iter().any(|one| one.ends_with(stays)), "{told:?}");
    until_released(&story, "PersistentVolumeClaim", &place, "declared-files");
    story.admin().delete("CopyratorTemplate", &story.home, "stateful").ok();
    story.until_gone("ConfigMap", &place, "declared-settings");
}

/// It was undone after the grace.
pub fn what_was_orphaned_on_request_stays(bed: &Bed) {
    let story = Story::new(bed, "orphaned");
    let place = story.target("a");
    story.admin().create(&stateful(&story, "0s")).ok();
    for name in ["left", "anew"] {
        story.admin().create(&labelled(&place, name)).ok();
        until_there(&story, &place, name);
    }
    bed.kubectl(&["delete", "memcached", "left", "-n", &place, "--cascade=orphan"], &Value::Null);
    until_released(&story, "ConfigMap", &place, "left-settings");
    until_released(&story, "PersistentVolumeClaim", &place, "left-files");
    // While the grace lasts, an instance of the same name has its objects back.
    let patch = json!({ "spec": { "deletionGrace": "1h" } });
    story.admin().merge("CopyratorTemplate", &story.home, "stateful", &patch).ok();
    story.until_condition("CopyratorTemplate", "stateful", "Ready", "True", "AllRendered");
    let before = story.admin().get("ConfigMap", &place, "anew-settings").expect("it is there");
    bed.kubectl(&["delete", "memcached", "anew", "-n", &place, "--cascade=orphan"], &Value::Null);
    let owner = crate::bed::objects::uid(&story.admin().create(&labelled(&place, "anew")).ok());
    eventually("the new instance owns what the old one had", || {
        let object = story.admin().get("ConfigMap", &place, "anew-settings").ok_or("it was deleted")?;
        same(object["metadata"]["uid"].clone(), before["metadata"]["uid"].clone())?;
        same(object["metadata"]["ownerReferences"][0]["uid"].clone(), json!(owner))
    });
    story.admin().delete("CopyratorTemplate", &story.home, "stateful").ok();
}
