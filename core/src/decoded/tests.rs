use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace},
};
use kube::core::{DynamicObject, ObjectList, PartialObjectMeta, WatchEvent};
use serde_json::json;

use super::*;
use crate::{
    api::{ConfigMonitor, CopyratorRule},
    intake::{AsWritten, object::Slim, watched::Watched, workload::Workload},
    model::World,
    names::Declarer,
};

/// Fields that are nested this deep.
fn deep(levels: usize) -> String {
    format!("{}{{}}{}", r#"{"f:a":"#.repeat(levels), "}".repeat(levels))
}

/// An object with an entry of managedFields that somebody has written as they liked.
fn managed(entry: &str) -> String {
    let ours = r#"{"manager":"copyrator-copy","operation":"Apply","time":"2026-01-01T00:00:05Z","fieldsV1":{"f:data":{"f:k":{}}}}"#;
    format!(
        r#"{{"metadata":{{"name":"it","namespace":"shop","uid":"u","resourceVersion":"7","generation":2,
            "creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{ours},{entry}]}},"spec":{{"watch":[]}}}}"#
    )
}

/// What anybody may write into managedFields, and the API server takes.
fn entries() -> [String; 4] {
    [
        r#"{"manager":"evil","time":"9999-12-31T23:59:59Z","fieldsV1":{"f:data":{"f:zz":{}}}}"#.into(),
        format!(r#"{{"manager":"evil","time":"10000-01-01T00:00:00Z","fieldsV1":{}}}"#, deep(200)),
        r#"{"manager":"evil","fieldsV1":{"f:data":{"f:a":{}},"f:data":5,"f:metadata":[]}}"#.into(),
        r#"{"manager":"evil","fieldsV1":"none"}"#.into(),
    ]
}

fn is_read<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> bool {
    match decode::<T>(text).read() {
        Ok(_) => true,
        Err(left) => panic!("{}: {text}", left.why),
    }
}

/// Who wrote which field matters less than the object.
#[test]
fn what_managed_fields_say_spoils_no_object() {
    for entry in entries() {
        let text = managed(&entry);
        assert!(is_read::<Slim<ConfigMap>>(&text));
        assert!(is_read::<Workload<Deployment>>(&text));
        assert!(is_read::<Namespace>(&text));
        assert!(is_read::<DynamicObject>(&text));
        assert!(is_read::<PartialObjectMeta<DynamicObject>>(&text));
        let monitor = decode::<AsWritten<ConfigMonitor>>(&text).read().unwrap();
        assert!(monitor.understood().is_some(), "{text}");
    }
}

/// The other entries count as they did: a copy is known by ours.
#[test]
fn an_entry_that_is_not_understood_takes_no_other_with_it() {
    for entry in &entries()[..2] {
        let slim = decode::<Slim<ConfigMap>>(&managed(entry)).read().unwrap();
        assert_eq!(slim.facts.changed_at.to_string(), "2026-01-01T00:00:05Z", "{entry}");
    }
}

#[test]
fn one_object_that_cannot_be_read_leaves_the_others_of_its_list() {
    let good = |name: &str| {
        format!(r#"{{"metadata":{{"name":"{name}","namespace":"shop","uid":"u"}},"spec":{{"size":3}}}}"#)
    };
    let poison = format!(
        r#"{{"metadata":{{"name":"deep","namespace":"shop","resourceVersion":"9"}},"spec":{}}}"#,
        deep(300)
    );
    let list = format!(
        r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{},{poison},7,{}]}}"#,
        good("a"),
        good("b")
    );
    let list: ObjectList<Decoded<DynamicObject>> = serde_json::from_str(&list).unwrap();
    let named = list.items.iter().map(|item| item.meta().name.as_deref());
    assert_eq!(named.collect::<Vec<_>>(), [Some("a"), Some("deep"), None, Some("b")]);
    let why: Vec<String> =
        list.items.into_iter().filter_map(|item| item.read().err()).map(|left| left.why).collect();
    assert_eq!(why.len(), 2);
    assert_eq!(why[0], "the object is nested more than 128 levels deep");

    let event = format!(r#"{{"type":"MODIFIED","object":{poison}}}"#);
    let Ok(WatchEvent::Modified(object)) = serde_json::from_str::<WatchEvent<Decoded<DynamicObject>>>(&event)
    else {
        panic!("it is an event all the same");
    };
    assert_eq!(object.meta().resource_version.as_deref(), Some("9"), "the watch goes on from it");
}

/// An object of ours is known by its name: it is invalid, and no other is.
#[test]
fn a_rule_that_cannot_be_read_is_an_invalid_rule() {
    let text = format!(
        r#"{{"metadata":{{"name":"it","namespace":"shop","uid":"u","generation":3,"managedFields":[{{"time":"9999-12-31T23:59:59Z"}}]}},
            "spec":{{"source":{}}}}}"#,
        deep(200)
    );
    let left = decode::<AsWritten<CopyratorRule>>(&text).read().unwrap_err();
    assert_eq!(left.metadata.generation, Some(3));
    let rule = AsWritten::<CopyratorRule>::undecodable(&left).unwrap();
    let mut world = World::default();
    rule.put(&mut world, Timestamp::UNIX_EPOCH);
    let facts = world.rules().get(&Declarer::rule("shop", "it")).unwrap();
    let problems = facts.compiled.as_ref().unwrap_err();
    assert_eq!(problems[0].message, "cannot be decoded: the object is nested more than 128 levels deep");
    assert_eq!(facts.generation, 3);
}

/// A custom object may contain what only some may read.
#[test]
fn a_reason_quotes_nothing() {
    for object in [
        json!({"metadata": {"name": "a", "namespace": "shop", "labels": {"a": ["hunter2"]}}}),
        json!({"metadata": {"name": "a", "namespace": "shop", "labels": "hunter2"}}),
        json!({"metadata": "hunter2"}),
        json!("hunter2"),
    ] {
        let left = decode::<Slim<ConfigMap>>(&object.to_string()).read().unwrap_err();
        assert!(!left.why.contains("hunter2"), "{}", left.why);
        let is_named = object["metadata"]["name"] == "a";
        assert_eq!(left.metadata.name.as_deref(), is_named.then_some("a"), "{object}");
    }
}
