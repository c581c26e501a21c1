//! What is needed of ConfigMaps and Secrets, however the objects come.

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Secret},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{ConfigMonitor, ConfigPolicy, CopyratorRule, CopyratorTemplate},
    digest::DigestKey,
    intake::{AsWritten, object::Slim, selection::OfDeclaring, watched::Watched, workload::Workload},
    model::{DataScope, Span},
};

type Put = fn(&mut World, Value) -> Changed;

fn put<W: Watched>(world: &mut World, object: Value) -> Changed {
    let object: W = serde_json::from_value(object).unwrap();
    let changed = object.changed();
    object.put(world, Timestamp::UNIX_EPOCH);
    changed
}

fn by_kind(kind: &str) -> Put {
    match kind {
        "Namespace" => put::<Namespace>,
        "ConfigMap" => put::<Slim<ConfigMap>>,
        "Secret" => put::<Slim<Secret>>,
        "LabelledSecret" => put::<Slim<Secret, OfDeclaring>>,
        "Deployment" => put::<Workload<Deployment>>,
        "ConfigMonitor" => put::<AsWritten<ConfigMonitor>>,
        "ConfigPolicy" => put::<AsWritten<ConfigPolicy>>,
        "CopyratorRule" => put::<AsWritten<CopyratorRule>>,
        "CopyratorTemplate" => put::<AsWritten<CopyratorTemplate>>,
        other => panic!("{other}"),
    }
}

fn object(kind: &str, place: &str, rest: Value) -> (String, Value) {
    let version = match kind {
        "Namespace" | "ConfigMap" | "Secret" | "LabelledSecret" => "v1",
        "Deployment" => "apps/v1",
        _ => "copyrator.dev/v1alpha1",
    };
    let mut object = json!({"apiVersion": version, "kind": kind,
        "metadata": {"name": "app", "uid": "u", "resourceVersion": "1", "generation": 1}});
    if !place.is_empty() {
        object["metadata"]["namespace"] = place.into();
    }
    json_patch::merge(&mut object, &rest);
    (kind.to_owned(), object)
}

fn namespace(name: &str, team: &str) -> (String, Value) {
    object("Namespace", "", json!({"metadata": {"name": name, "labels": {"team": team}}}))
}

fn world() -> World {
    let mut world = World::default();
    world.settings_mut().own_namespace = "ours".into();
    world.settings_mut().system_namespaces = ["kube-system".to_owned()].into();
    world.settings_mut().annotations = true;
    world.set_data_scope(Some(DataScope::new(DataNeed::in_namespace("ours"))));
    let watches = world.data_scope().unwrap().watches().clone();
    watches.iter().for_each(|watch| assert!(world.note_data_listed(watch)));
    world
}

fn said(need: &DataNeed) -> String {
    let of = |span: &Span| match span {
        Span::All => "all".to_owned(),
        Span::Some(names) => names.iter().map(|name| &**name).collect::<Vec<_>>().join(","),
    };
    format!("{} | {}", of(need.of(DataKind::ConfigMap)), of(need.of(DataKind::Secret)))
}

/// What is needed with these objects, which is the same as each of them brings it, in whatever order they come.
fn with(objects: &[(String, Value)]) -> String {
    let in_order = |objects: &mut dyn Iterator<Item = &(String, Value)>| {
        let mut world = world();
        for (kind, object) in objects {
            let changed = by_kind(kind)(&mut world, object.clone());
            let more = needed_by(&world, &changed);
            world.widen_data(&more);
        }
        let all = needed(&world);
        assert_eq!(said(world.data_scope().unwrap().wanted()), said(&all), "as it comes, and as it is");
        said(&all)
    };
    let forward = in_order(&mut objects.iter());
    assert_eq!(forward, in_order(&mut objects.iter().rev()));
    forward
}

fn blue(rest: Value) -> Value {
    let mut spec = json!({"source": {"kind": "Secret", "names": ["app"]},
        "targets": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]});
    json_patch::merge(&mut spec, &rest);
    json!({ "spec": spec })
}

#[test]
fn objects_are_needed_where_something_reads_them_and_nowhere_else() {
    let places = [
        namespace("a", "blue"),
        namespace("b", "blue"),
        namespace("c", "red"),
        namespace("kube-system", "blue"),
    ];
    let template = |body: Value| {
        json!({"spec": {"forEach": {"namespaces": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]},
            "objects": [{"id": "one", "template": body}]}})
    };
    let manifest =
        |kind: &str, version: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}});
    let policy = |scope: Value| json!({"spec": {"match": scope, "data": [{"name": "n", "keys": ["k"], "format": "url"}]}});
    let annotated = |value: &str| {
        json!({"metadata": {"labels": {"copyrator.dev/declares": "true"},
            "annotations": {"copyrator.dev/copy-to": value, "copyrator.dev/author": "alice"}}})
    };
    for (one, wanted) in [
        (None, "ours | ours"),
        (Some(object("CopyratorRule", "home", blue(json!({})))), "ours | home,ours"),
        (
            Some(object(
                "CopyratorRule",
                "home",
                blue(json!({"copy": {"kind": "ConfigMap", "keys": {"include": ["k"]}}})),
            )),
            "ours | home,ours",
        ),
        (
            Some(object(
                "CopyratorRule",
                "home",
                blue(json!({"source": {"namespaces": ["p", "q"]}, "suspend": true})),
            )),
            "ours | ours,p,q",
        ),
        (
            Some(object("CopyratorRule", "home", blue(json!({"source": {"kind": "NetworkPolicy"}})))),
            "ours | ours",
        ),
        // It may mean anything where its sources are; a name that no namespace has means nothing.
        (
            Some(object(
                "CopyratorRule",
                "home",
                blue(json!({"source": {"namespaces": ["p", "../q", ""], "names": ["a["]}})),
            )),
            "ours,p | ours,p",
        ),
        (
            Some(object(
                "ConfigMonitor",
                "c",
                json!({"spec": {"watch": [{"kind": "ConfigMap", "names": ["x"]}]}}),
            )),
            "c,ours | c,ours",
        ),
        (
            Some(object(
                "Deployment",
                "c",
                json!({"metadata": {"annotations": {"copyrator.dev/restart": "true"}}}),
            )),
            "c,ours | c,ours",
        ),
        (Some(object("Deployment", "c", json!({}))), "ours | ours"),
        (Some(object("CopyratorTemplate", "home", template(manifest("ConfigMap", "v1")))), "ours | ours"),
        (Some(object("CopyratorTemplate", "home", template(manifest("LimitRange", "v1")))), "ours | ours"),
        (Some(object("ConfigPolicy", "", policy(json!({"kinds": ["Secret"]})))), "ours | a,b,c,ours"),
        (
            Some(object(
                "ConfigPolicy",
                "",
                policy(json!({"kinds": ["ConfigMap"], "excludeNamespaces": ["b"],
                "namespaceSelector": {"matchLabels": {"team": "blue"}}})),
            )),
            "a,ours | ours",
        ),
        // The object that declared the rule of a copy, which may have lost its label.
        (Some(object("ConfigMap", "c", marked())), "ours | far,ours"),
        (Some(object("LabelledSecret", "c", json!({}))), "ours | ours"),
        (Some(object("LabelledSecret", "c", annotated("a"))), "ours | ours"),
        (Some(object("LabelledSecret", "c", annotated("a["))), "ours | ours"),
    ] {
        let objects: Vec<_> = places.iter().cloned().chain(one.clone()).collect();
        assert_eq!(with(&objects), wanted, "{one:?}");
    }
}

fn marked() -> Value {
    json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "copyrator", "copyrator.dev/rule": "x"},
        "annotations": {"copyrator.dev/rule": "far/secret:app", "copyrator.dev/source": "far/app",
            "copyrator.dev/source-uid": "u", "copyrator.dev/digest": "d", "copyrator.dev/mark": "m"}}})
}

#[test]
fn forged_marks_need_nothing_and_neither_does_what_this_process_never_uses() {
    let policy = json!({"spec": {"match": {"kinds": ["Secret"]}, "data": [{"name": "n", "keys": ["k"], "format": "url"}]}});
    let objects = [
        namespace("a", "blue"),
        object("ConfigMap", "c", marked()),
        object("LabelledSecret", "d", json!({})),
        object("ConfigPolicy", "", policy),
        object("ConfigMonitor", "e", json!({"spec": {"watch": [{"kind": "ConfigMap", "names": ["x"]}]}})),
        object("Deployment", "f", json!({"metadata": {"annotations": {"copyrator.dev/restart": "true"}}})),
    ];
    let with = |change: fn(&mut World)| {
        let mut world = world();
        change(&mut world);
        for (kind, object) in &objects {
            let changed = by_kind(kind)(&mut world, object.clone());
            let more = needed_by(&world, &changed);
            world.widen_data(&more);
        }
        assert_eq!(world.data_scope().unwrap().wanted(), &needed(&world));
        said(&needed(&world))
    };
    assert_eq!(with(|_| {}), "e,f,ours | a,e,f,far,ours");
    assert_eq!(
        with(|world| world.set_key(DigestKey::new(&[7; DigestKey::LENGTH]))),
        "e,f,ours | a,e,f,ours",
        "the marks are forged"
    );
    assert_eq!(with(|world| world.settings_mut().annotations = false), "e,f,ours | a,e,f,ours");
    assert_eq!(
        with(|world| world.settings_mut().only_rule = Some(Declarer::rule("ours", "one"))),
        "ours | ours"
    );
}

#[test]
fn more_than_a_few_namespaces_are_all() {
    let policy = json!({"spec": {"match": {"kinds": ["Secret"]}, "data": [{"name": "n", "keys": ["k"], "format": "url"}]}});
    let policy = object("ConfigPolicy", "", policy);
    let few: Vec<_> = (0..15).map(|at| namespace(&format!("n{at}"), "blue")).chain([policy]).collect();
    assert!(!with(&few).contains("all"));
    let more: Vec<_> = few.into_iter().chain([namespace("n15", "blue")]).collect();
    assert_eq!(with(&more), "ours | all");
}
