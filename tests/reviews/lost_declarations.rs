//! Warnings to a person who takes off a label or an annotation that declares objects.

use serde_json::{Value, json};

use super::{
    foresight::object,
    harness::{Cluster, recorded},
};

/// Labels of a namespace, and of an object that a template is rendered for.
#[tokio::test]
async fn who_takes_a_label_off_is_told_what_goes_with_it() {
    let objects = json!([
        object("x0", "ConfigMap", json!({})),
        object("x1", "ConfigMap", json!({"deletionPolicy": "Retain"})),
        object("x2", "ConfigMap", json!({"includeWhen": "'pods' in namespaceObject.metadata.labels"})),
    ]);
    let each = json!({"namespaces": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]});
    let of_kind = json!({"objects": {"apiVersion": "a.b/v1", "kind": "WebApp", "namespaces": [{"namespaceSelector": {}}],
        "objectSelector": {"matchLabels": {"stateful": "yes"}}}});
    let review = |group: &str, kind: &str, namespace: &str, name: &str, before: Value, after: Value| {
        let mut review = recorded("namespace-create");
        let request = &mut review["request"];
        request["operation"] = json!("UPDATE");
        request["kind"] = json!({"group": group, "version": "v1", "kind": kind});
        (request["namespace"], request["name"]) = (json!(namespace), json!(name));
        let object = |labels| json!({"metadata": {"name": name, "namespace": namespace, "labels": labels}});
        (request["oldObject"], request["object"]) = (object(before), object(after));
        review
    };
    let (blue, none) = (json!({"team": "blue"}), json!({}));
    let (yes, no) = (json!({"stateful": "yes"}), json!({"stateful": "no"}));
    for (for_each, review, expected) in [
        (
            &each,
            review("", "Namespace", "shop", "shop", blue.clone(), none.clone()),
            Some(
                "up to 2 objects in this namespace will be deleted in 5m, unless you restore the label (1 template)",
            ),
        ),
        (
            &each,
            review("", "Namespace", "shop", "shop", none.clone(), blue.clone()),
            Some("up to 3 objects will be created in this namespace (1 template)"),
        ),
        (
            &each,
            review("", "Namespace", "shop", "shop", blue.clone(), json!({"team": "blue", "a": "b"})),
            None,
        ),
        (
            &of_kind,
            review("a.b", "WebApp", "shop", "web", yes.clone(), no.clone()),
            Some(
                "up to 2 objects for this WebApp will be deleted in 5m, unless you restore the label (1 template)",
            ),
        ),
        (
            &of_kind,
            review("a.b", "WebApp", "shop", "web", no.clone(), yes.clone()),
            Some("up to 3 objects will be created for this WebApp (1 template)"),
        ),
        (
            &of_kind,
            review("a.b", "WebApp", "shop", "web", yes.clone(), json!({"stateful": "yes", "a": "b"})),
            None,
        ),
        (
            &each,
            review("", "Namespace", "shop", "shop", blue.clone(), json!({"team": "blue", "pods": "yes"})),
            Some("1 object will be created in this namespace (1 template)"),
        ),
        (
            &each,
            review("", "Namespace", "shop", "shop", json!({"team": "blue", "pods": "yes"}), blue.clone()),
            Some(
                "1 object in this namespace will be deleted in 5m, unless you restore the label (1 template)",
            ),
        ),
        // The webhook does not know how many objects there are in a namespace.
        (
            &of_kind,
            review("", "Namespace", "shop", "shop", json!({"pods": "yes"}), none.clone()),
            Some(
                "objects in this namespace will be deleted in 5m, unless you restore the label (1 template)",
            ),
        ),
        (&of_kind, review("c.d", "WebApp", "shop", "web", yes.clone(), no.clone()), None),
        (&of_kind, review("a.b", "WebApp", "unknown", "web", yes, no), None),
    ] {
        let spec = json!({"forEach": for_each, "objects": objects, "deletionGrace": "5m"});
        let app = Cluster::new().template("kit", spec).app();
        let told = app.send_value("/validate/warnings", &review).await.warnings();
        let expected: Vec<String> = expected.iter().map(|said| format!("copyrator: {said}")).collect();
        assert_eq!(told, expected, "{review}");
    }
}

/// `copy-to` taken off or narrowed: the copies go after their grace.
#[tokio::test]
async fn who_takes_an_annotation_off_is_told_how_many_copies_go() {
    let source =
        json!({"kind": "ConfigMap", "namespace": "shop", "name": "app", "copyTo": "team-b,team-c,platform"});
    let metadata = |to: Option<&str>, declares: &str| {
        let asked = to.map(|to| json!({ "copyrator.dev/copy-to": to }));
        json!({"name": "app", "namespace": "shop", "labels": {"copyrator.dev/declares": declares}, "annotations": asked})
    };
    let declared = metadata(Some("team-b,team-c,platform"), "true");
    let gone = |number: &str| {
        vec![format!(
            "copyrator: {number} of this source will be deleted in 0s; restore the annotation to keep them"
        )]
    };
    for (after, expected) in [
        (metadata(None, "true"), gone("up to 3 copies")),
        (metadata(Some("team-*"), "true"), gone("up to 1 copy")),
        (metadata(Some("team-b,team-c,platform"), "false"), gone("up to 3 copies")),
        (metadata(Some("*"), "true"), vec![]),
        (declared.clone(), vec![]),
    ] {
        let mut review = recorded("configmap-update");
        let request = &mut review["request"];
        (request["namespace"], request["name"]) = (json!("shop"), json!("app"));
        request["oldObject"] = json!({"metadata": declared});
        request["object"] = json!({"metadata": after});
        let app = Cluster::new().indexed(json!([source])).app();
        assert_eq!(app.send_value("/validate/warnings", &review).await.warnings(), expected, "{after}");
        // A rule whose author may not do it copies nothing.
        assert!(Cluster::new().app().send_value("/validate/warnings", &review).await.warnings().is_empty());
    }
}
