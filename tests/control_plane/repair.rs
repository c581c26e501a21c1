//! Copies that somebody changed by hand are put right again. Only who may `override` copies gets that far: here
//! it is the cluster's admin.

use serde_json::json;

use crate::bed::objects::{annotation, config_map, label, secret};
use crate::bed::{Story, eventually, peaceful};

#[test]
fn an_edited_copy_is_repaired_whatever_the_edit() {
    let story = Story::new(peaceful(), "edited");
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("a", "1"), ("b", "2")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("a", "1"), ("b", "2")]);
    let theirs = json!({ "metadata": { "labels": { "backup": "daily" }, "annotations": { "example.com/seen": "yes" } } });
    story.admin().merge("ConfigMap", &target, "app", &theirs).ok();
    for edit in [
        json!({ "data": { "a": "changed" } }),
        json!({ "data": { "extra": "added" } }),
        json!({ "data": { "b": null } }),
        json!({ "data": null }),
        json!({ "data": { "a": null }, "binaryData": { "a": "AAE=" } }),
    ] {
        story.admin().merge("ConfigMap", &target, "app", &edit).ok();
        let repaired = story.until("ConfigMap", &target, "app", [("a", "1"), ("b", "2")]);
        assert!(repaired["binaryData"].as_object().is_none_or(|map| map.is_empty()), "{edit}: {repaired}");
        let kept = (label(&repaired, "backup"), annotation(&repaired, "example.com/seen"));
        assert_eq!(kept, (Some("daily"), Some("yes")), "{edit}");
    }
    story.admin().delete("ConfigMap", &target, "app").ok();
    story.until("ConfigMap", &target, "app", [("a", "1"), ("b", "2")]);
}

/// `stringData` by server-side apply changes the content without a trace in the fields that we own.
#[test]
fn a_secret_changed_through_string_data_is_repaired() {
    let story = Story::new(peaceful(), "stringdata");
    let target = story.target("a");
    story.admin().create(&secret(&story.home, "token", [("token", "right")])).ok();
    story.admin().create(&story.rule("Secret", &["token"])).ok();
    story.until("Secret", &target, "token", [("token", "right")]);
    let edit = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": target, "name": "token" },
        "stringData": { "token": "wrong", "more": "added" },
    });
    story.admin().apply(&edit).ok();
    story.until("Secret", &target, "token", [("token", "right")]);
}

/// Anybody may write under our own field manager, and the metadata look then as if we had written.
#[test]
fn a_change_under_our_own_manager_is_put_right() {
    let story = Story::new(peaceful(), "impostor");
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "right")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["copy"] = json!({ "annotations": { "set": { "example.com/tier": "gold" } } });
    story.admin().create(&rule).ok();
    let copy = story.until("ConfigMap", &target, "app", [("k", "right")]);
    let forge = |pointer: &str| {
        let mut forged = copy.clone();
        forged["metadata"]["managedFields"] = json!(null);
        *forged.pointer_mut(pointer).expect("it is there") = "wrong".into();
        for field in ["resourceVersion", "uid", "creationTimestamp"] {
            forged["metadata"].as_object_mut().expect("metadata").remove(field);
        }
        story.admin().apply_as("copyrator-copy", &forged).ok()
    };
    assert_eq!(forge("/data/k")["data"]["k"], "wrong");
    story.until("ConfigMap", &target, "app", [("k", "right")]);
    let tier = |object: &serde_json::Value| annotation(object, "example.com/tier").map(str::to_owned);
    assert_eq!(tier(&forge("/metadata/annotations/example.com~1tier")).as_deref(), Some("wrong"));
    eventually("the annotation is put right", || {
        let copy = story.admin().get("ConfigMap", &target, "app").ok_or("it is gone")?;
        if tier(&copy).as_deref() == Some("gold") { Ok(()) } else { Err(copy["metadata"].to_string()) }
    });
}
