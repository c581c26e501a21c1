//! What the author of a rule is told that it will not do as things stand.

use copyrator::{
    intake::object::Slim,
    model::{NamespaceScope, ObjectFacts, Store},
    names::{Kind, ObjectKey},
};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::harness::{Cluster, recorded};

/// A rule of `platform` that copies the Secret `registry` to these targets.
fn to(targets: Value) -> Value {
    let mut review = recorded("rule-create");
    review["request"]["object"]["spec"]["targets"] = targets;
    review
}

async fn warned(cluster: Cluster, review: &Value) -> (Vec<String>, usize) {
    let app = cluster.app();
    let warnings = app.send_value("/validate/own-kinds", review).await.warnings();
    let asked = app.table.asked.lock().unwrap();
    (warnings, asked.iter().filter(|asked| asked.contains("list namespaces")).count())
}

#[tokio::test]
async fn a_user_who_may_list_namespaces_is_told_which_do_not_exist() {
    const NOWHERE: &str =
        "copyrator: spec.targets matches no namespace now: Copyrator copies to namespaces that match later";
    const HOME: &str = "copyrator: platform is the sources' own namespace and never gets copies of them: remove platform from the targets";
    const ONE: &str = "copyrator: up to 1 copy of this rule will be created, for 1 namespace";
    for (targets, expected) in [
        (json!([{"names": ["shop"]}]), &[ONE][..]),
        (
            json!([{"names": ["shop", "team-*"]}, {"namespaceSelector": {"matchLabels": {"team": "red"}}}]),
            &["copyrator: up to 3 copies of this rule will be created, for 3 namespaces"],
        ),
        (
            json!([{"names": ["shpo"]}]),
            &["copyrator: namespace shpo does not exist: Copyrator copies there once it is created"],
        ),
        (
            json!([{"names": ["shop", "web", "app"]}]),
            &[
                "copyrator: namespaces web, app do not exist: Copyrator copies there once they are created",
                ONE,
            ],
        ),
        (json!([{"names": ["red-*"]}]), &[NOWHERE]),
        (json!([{"namespaceSelector": {"matchLabels": {"team": "red"}}}]), &[NOWHERE]),
        // Where the source is nothing is copied to.
        (json!([{"names": ["platform"]}]), &[HOME, NOWHERE]),
    ] {
        let review = to(targets.clone());
        let (warnings, asked) = warned(Cluster::new(), &review).await;
        assert_eq!((warnings, asked), (strings(expected), usize::from(!expected.is_empty())), "{targets}");
        // A user who may not list namespaces is told nothing of which there are.
        let told = warned(Cluster::new().refuse("list namespaces"), &review).await.0;
        assert!(told.iter().all(|one| one == HOME), "{told:?}");
    }
}

#[tokio::test]
async fn where_some_namespaces_are_looked_at_or_none_is_known_nothing_is_told() {
    let review = to(json!([{"names": ["shpo"]}]));
    let mut some = Cluster::new();
    some.world.set_namespace_scope(Some(NamespaceScope::new(["shop"])));
    let mut starting = Cluster::new();
    starting.world.settings_mut().stores = [Store::Namespaces].into();
    starting.world.forget_listed(Store::Namespaces);
    for cluster in [some, starting] {
        assert_eq!(warned(cluster, &review).await, (Vec::new(), 0));
    }
}

#[tokio::test]
async fn a_rule_that_may_not_act_tells_nothing_beside() {
    let mut review = recorded("rule-create-service-account");
    review["request"]["object"]["spec"]["targets"] = json!([{"names": ["shpo"]}]);
    let (warnings, asked) = warned(Cluster::new().refuse("create secrets"), &review).await;
    assert!(warnings.len() == 1 && warnings[0].starts_with("copyrator: no effect until "), "{warnings:?}");
    assert_eq!(asked, 0);
}

/// Only a process that watches Secrets: a webhook beside the reconciler may not.
#[tokio::test]
async fn a_process_that_sees_sources_tells_of_a_missing_one() {
    let seeing = || {
        let mut cluster = Cluster::new();
        cluster.world.settings_mut().stores.insert(Store::Secrets);
        cluster.world.set_listed(Store::Secrets);
        cluster
    };
    let review = to(json!([{"names": ["shop"]}]));
    let absent =
        ["copyrator: source Secret platform/registry not found (Helm releases and tokens are never copied)"];
    assert_eq!(warned(seeing(), &review).await.0, absent);
    let counted =
        |most: &str| vec![format!("copyrator: {most}1 copy of this rule will be created, for 1 namespace")];
    assert_eq!(warned(Cluster::new(), &review).await.0, counted("up to "));
    let mut with = seeing();
    with.world.set_object(ObjectKey::new(Kind::Secret, "platform", "registry"), Some(facts()));
    assert_eq!(warned(with, &review).await.0, counted(""));
    // What a status of before says is not asked where the source is seen.
    let update = updated(
        "NoSource",
        "source Secret platform/registry not found (Helm releases and tokens are never copied)",
        json!({"deletionPolicy": "Retain"}),
    );
    assert_eq!(warned(seeing(), &update).await.0, absent);
}

#[tokio::test]
async fn a_rule_of_a_kind_that_is_not_copied_here_is_told_which_value_grants_it() {
    let mut review = to(json!([{"names": ["shop"]}]));
    review["request"]["object"]["spec"]["source"]["kind"] = "NetworkPolicy".into();
    let (warnings, _) = warned(Cluster::new(), &review).await;
    assert!(warnings.len() == 1 && warnings[0].contains("the chart's value copies.kinds"), "{warnings:?}");
    let mut granting = Cluster::new();
    granting.world.settings_mut().copy_kinds = [Kind::NetworkPolicy].into();
    let (warnings, _) = warned(granting, &review).await;
    assert!(warnings.len() == 1 && warnings[0].contains("will be created"), "{warnings:?}");
}

#[tokio::test]
async fn what_the_status_says_of_the_version_before_is_told_as_far_as_it_holds() {
    let no_source = "source Secret platform/registry not found";
    let wider = json!({"deletionPolicy": "Retain"});
    let told = async |reason: &str, change: &Value, edit: fn(&mut Value)| {
        let mut review = updated(reason, no_source, change.clone());
        edit(&mut review["request"]["oldObject"]["status"]);
        let told = warned(Cluster::new(), &review).await.0;
        told.into_iter().filter(|said| said.contains("the rule's status says")).collect::<Vec<_>>()
    };
    let says = |reason: &str| vec![format!("copyrator: the rule's status says {reason}: {no_source}")];
    assert_eq!(told("NoSource", &wider, |_| ()).await, says("NoSource"));
    assert_eq!(told("Forbidden", &wider, |_| ()).await, says("Forbidden"));
    let elsewhere = json!({"targets": [{"names": ["shop"]}]});
    assert_eq!(told("NoSource", &elsewhere, |_| ()).await, says("NoSource"));
    for (reason, change, edit) in [
        ("AllCopied", &wider, (|_| ()) as fn(&mut Value)),
        ("Forbidden", &elsewhere, |_| ()),
        ("NoSource", &json!({"source": {"kind": "Secret", "names": ["other"]}}), |_| ()),
        ("NoSource", &wider, |status| status["conditions"][0]["observedGeneration"] = json!(6)),
        ("NoSource", &wider, |status| status["conditions"][0]["status"] = json!("True")),
        // It was the author who lacked a right, and the author is asked about anew.
        ("Forbidden", &wider, |status| status["conditions"][1]["status"] = json!("False")),
        ("NoSource", &wider, |status| *status = json!(null)),
    ] {
        assert!(told(reason, change, edit).await.is_empty(), "{reason} {change}");
    }
}

/// An update of a rule whose status is of its 7th generation.
fn updated(reason: &str, message: &str, change: Value) -> Value {
    let mut review = to(json!([{"names": ["team-b"]}]));
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 7,
            "lastTransitionTime": "2026-05-04T09:12:33Z"})
    };
    let request = &mut review["request"];
    request["operation"] = json!("UPDATE");
    request["oldObject"] = request["object"].clone();
    request["oldObject"]["metadata"]["generation"] = json!(7);
    let conditions =
        [condition("Ready", "False", reason, message), condition("Authorized", "True", "Allowed", "yes")];
    request["oldObject"]["status"] = json!({"observedGeneration": 7, "conditions": conditions});
    json_patch::merge(&mut request["object"]["spec"], &change);
    review
}

/// An update from one spec to another, of an object whose status speaks of the former.
fn respec(name: &str, before: &Value, after: &Value, status: Value) -> Value {
    let mut review = recorded(name);
    let request = &mut review["request"];
    json_patch::merge(&mut request["object"]["spec"], before);
    request["operation"] = json!("UPDATE");
    request["oldObject"] = request["object"].clone();
    request["oldObject"]["metadata"]["generation"] = json!(7);
    request["oldObject"]["status"] = status;
    request["oldObject"]["status"]["observedGeneration"] = json!(7);
    json_patch::merge(&mut request["object"]["spec"], after);
    review
}

/// Narrowing was accepted without a word, and five minutes later the copies were gone.
#[tokio::test]
async fn who_narrows_a_rule_is_told_how_many_copies_go() {
    let names = |names: &[&str]| json!([{ "names": names }]);
    let three = json!({"targets": names(&["shop", "team-b", "team-c"]), "deletionGrace": "5m"});
    let counted = |current: usize| json!({"sources": 1, "desired": 3, "current": current});
    let keep = "deletionPolicy: Retain keeps them";
    for (after, current, expected, to_others) in [
        (
            json!({"targets": names(&["shop"])}),
            3,
            vec![format!("2 copies of this rule will be deleted in 5m; {keep}")],
            "up to 3 copies",
        ),
        (
            json!({"targets": names(&["shop"])}),
            2,
            vec![format!("up to 2 copies of this rule will be deleted in 5m; {keep}")],
            "up to 3 copies",
        ),
        (
            json!({"targets": names(&["shop"]), "deletionPolicy": "Retain"}),
            3,
            vec!["2 copies of this rule stay as ordinary objects (deletionPolicy: Retain)".to_owned()],
            "up to 3 copies",
        ),
        (
            json!({"excludeTargets": ["team-*"]}),
            3,
            vec![format!("2 copies of this rule will be deleted in 5m; {keep}")],
            "up to 3 copies",
        ),
        (
            json!({"source": {"names": ["other"]}}),
            3,
            vec![
                format!("3 copies of this rule will be deleted in 5m; {keep}"),
                "up to 3 copies of this rule will be created, for 3 namespaces".to_owned(),
            ],
            "up to 3 copies",
        ),
        (
            json!({"copy": {"name": "{name}-copy"}}),
            3,
            vec![
                format!("3 copies of this rule will be deleted in 5m; {keep}"),
                "up to 3 copies of this rule will be created, for 3 namespaces".to_owned(),
            ],
            "up to 3 copies",
        ),
        // Nothing goes and nothing comes.
        (json!({"suspend": true}), 3, vec![], ""),
        (json!({"deletionGrace": "1h"}), 3, vec![], ""),
        (json!({"targets": names(&["shop", "team-*"])}), 3, vec![], ""),
    ] {
        let review = respec("rule-create", &three, &after, counted(current));
        let expected: Vec<String> = expected.iter().map(|said| format!("copyrator: {said}")).collect();
        let told = |cluster| warned(cluster, &review);
        assert_eq!(told(Cluster::new()).await.0, expected, "{after}");
        // A user who may not list namespaces learns from the rule's own status how many may go, and no more.
        let others = told(Cluster::new().refuse("list namespaces")).await.0;
        assert_eq!(others.len(), usize::from(!to_others.is_empty()), "{after}: {others:?}");
        assert!(others.iter().all(|said| said.contains(to_others)), "{after}: {others:?}");
    }
}

/// Where a spec does not name its sources, the status counts them.
#[tokio::test]
async fn sources_that_a_spec_does_not_name_are_counted_by_the_status() {
    let blue = json!([{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]);
    let before = json!({"source": {"names": ["app-*"]}, "targets": blue, "deletionGrace": "5m"});
    let counted = json!({"sources": 4, "desired": 12, "current": 12});
    let keep = "will be deleted in 5m; deletionPolicy: Retain keeps them";
    for (after, expected) in [
        (json!({"targets": [{"names": ["shop"]}]}), vec![format!("8 copies of this rule {keep}")]),
        (
            json!({"source": {"names": ["api-*"]}}),
            vec![
                format!("up to 12 copies of this rule {keep}"),
                "this rule will copy each source to up to 4 namespaces".to_owned(),
            ],
        ),
        (
            json!({"source": {"names": ["app-*", "api-*"]}}),
            vec!["this rule will copy each source to up to 4 namespaces".to_owned()],
        ),
    ] {
        let review = respec("rule-create", &before, &after, counted.clone());
        let expected: Vec<String> = expected.iter().map(|said| format!("copyrator: {said}")).collect();
        assert_eq!(warned(Cluster::new(), &review).await.0, expected, "{after}");
    }
}

pub(super) fn object(id: &str, kind: &str, more: Value) -> Value {
    let version = if kind == "StatefulSet" { "apps/v1" } else { "v1" };
    let mut object =
        json!({"id": id, "template": {"apiVersion": version, "kind": kind, "metadata": {"name": id}}});
    json_patch::merge(&mut object, &more);
    object
}

#[tokio::test]
async fn who_changes_a_template_is_told_what_goes_stays_and_comes() {
    let (a, b) = (object("a", "ConfigMap", json!({})), object("b", "ConfigMap", json!({})));
    let claim = |more: Value| object("c", "PersistentVolumeClaim", more);
    let of = |objects: &[&Value]| json!({"objects": objects, "deletionGrace": "5m"});
    let (keep, stay) = (
        "will be deleted in 5m; deletionPolicy: Retain keeps them",
        "stay as ordinary objects (with data, or with deletionPolicy: Retain)",
    );
    let conditional =
        object("a", "ConfigMap", json!({"includeWhen": "'x' in namespaceObject.metadata.labels"}));
    let (claimed, going) = (claim(json!({})), claim(json!({"deletionPolicy": "Delete"})));
    let kept = object("b", "ConfigMap", json!({"deletionPolicy": "Retain"}));
    for (before, after, expected) in [
        // Four namespaces are blue.
        (of(&[&a, &b]), of(&[&a]), vec![format!("4 objects of this template {keep}")]),
        (of(&[&a, &claimed]), of(&[&a]), vec![format!("4 objects of this template {stay}")]),
        (of(&[&a, &kept]), of(&[&a]), vec![format!("4 objects of this template {stay}")]),
        (of(&[&a, &going]), of(&[&a]), vec![format!("4 objects of this template {keep}")]),
        (
            of(&[&a]),
            of(&[&a, &b]),
            vec!["4 objects of this template will be created, for 4 namespaces".to_owned()],
        ),
        (of(&[&a, &b]), of(&[&conditional, &b]), vec![format!("up to 4 objects of this template {keep}")]),
        (
            of(&[&a, &b]),
            json!({"forEach": {"namespaces": [{"namespaceSelector": null, "names": ["shop"]}]}}),
            vec![format!("6 objects of this template {keep}")],
        ),
        (of(&[&a, &b]), json!({"suspend": true, "objects": [a]}), vec![]),
    ] {
        let desired = 4 * before["objects"].as_array().unwrap().len();
        let status = json!({"instances": 4, "desired": desired, "current": desired});
        let review = respec("template-create", &before, &after, status);
        let expected: Vec<String> = expected.iter().map(|said| format!("copyrator: {said}")).collect();
        assert_eq!(warned(Cluster::new(), &review).await.0, expected, "{before} {after}");
    }
    let told = warned(Cluster::new(), &recorded("template-create")).await.0;
    assert_eq!(told, ["copyrator: 8 objects of this template will be created, for 4 namespaces"]);
    assert!(
        warned(Cluster::new().refuse("list namespaces"), &recorded("template-create")).await.0.is_empty()
    );
}

/// The webhook does not watch the objects that templates are rendered for: the status counts them.
#[tokio::test]
async fn of_instances_the_status_gives_the_number() {
    let spec = |kind: Value, objects: &[&Value]| {
        let mut of =
            json!({"apiVersion": "a.b/v1", "kind": "WebApp", "namespaces": [{"namespaceSelector": {}}]});
        json_patch::merge(&mut of, &kind);
        json!({"forEach": {"namespaces": null, "objects": of}, "objects": objects, "deletionGrace": "5m"})
    };
    let (a, b) = (
        object("a-${object.metadata.name}", "ConfigMap", json!({"id": "a"})),
        object("b", "PersistentVolumeClaim", json!({})),
    );
    let both = spec(json!({}), &[&a, &b]);
    let keep = "will be deleted in 5m; deletionPolicy: Retain keeps them";
    let stay = "stay as ordinary objects (with data, or with deletionPolicy: Retain)";
    for (after, expected) in [
        (spec(json!({"apiVersion": "a.b/v2"}), &[&a]), vec![format!("5 objects of this template {stay}")]),
        (spec(json!({}), &[&b]), vec![format!("5 objects of this template {keep}")]),
        (
            spec(json!({"names": ["web-*"]}), &[&a, &b]),
            vec![
                format!("up to 5 objects of this template {keep}"),
                format!("up to 5 objects of this template {stay}"),
            ],
        ),
        (
            spec(
                json!({"namespaces": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]}),
                &[&a, &b],
            ),
            vec![],
        ),
    ] {
        let review =
            respec("template-create", &both, &after, json!({"instances": 5, "desired": 10, "current": 10}));
        let expected: Vec<String> = expected.iter().map(|said| format!("copyrator: {said}")).collect();
        assert_eq!(warned(Cluster::new(), &review).await.0, expected, "{after}");
    }
    let mut review = recorded("template-create");
    json_patch::merge(&mut review["request"]["object"]["spec"], &both);
    let told = warned(Cluster::new(), &review).await.0;
    assert_eq!(told, ["copyrator: this template will create 2 objects for each WebApp that it selects"]);
}

fn facts() -> ObjectFacts {
    let object = json!({"metadata": {"name": "registry", "namespace": "platform", "uid": "u", "resourceVersion": "1"}});
    serde_json::from_value::<Slim<Secret>>(object).unwrap().facts
}

fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}
