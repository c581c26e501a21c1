//! Copies of custom resources, in the cluster of [`super::instances`].

use serde_json::{Value, json};

use crate::bed::objects::{annotation, ours, version};
use crate::bed::{Bed, Story, eventually, same};
use crate::plan::run;

/// What the chart grants.
pub fn granted() -> Value {
    json!({ "apiVersion": "look.example.com/v1", "kind": "Theme", "resource": "themes", "use": ["render", "copy"] })
}

fn definition() -> Value {
    let colour = json!({ "type": "string", "default": "grey" });
    let spec = json!({ "type": "object", "properties": {
        "colour": colour, "fonts": { "type": "array", "items": { "type": "string" } }, "dark": { "type": "boolean" },
    } });
    let status = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "themes.look.example.com" },
        "spec": {
            "group": "look.example.com", "scope": "Namespaced",
            "names": { "plural": "themes", "singular": "theme", "kind": "Theme" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec, "status": status } } } }],
        },
    })
}

fn theme(namespace: &str, spec: Value) -> Value {
    json!({ "apiVersion": "look.example.com/v1", "kind": "Theme",
        "metadata": { "namespace": namespace, "name": "house" }, "spec": spec })
}

fn rule(story: &Story<'_>, api_version: &str, kind: &str) -> Value {
    let spec = json!({
        "source": { "apiVersion": api_version, "kind": kind, "names": ["house"] },
        "targets": [{ "namespaceSelector": story.selector() }],
        "deletionGrace": "0s",
    });
    ours("CopyratorRule", &story.home, "rule", spec)
}

/// `until_swept` returns once the reconciler has looked at everything again, and has finished what it was doing.
pub fn custom_resources_are_copied(bed: &Bed, until_swept: &dyn Fn()) {
    let story = Story::new(bed, "customcopy");
    let (first, taken) = (story.target("first"), story.bystander("taken"));
    let refusal = story.admin().try_create(&rule(&story, "cert-manager.io/v1", "Certificate")).refused();
    assert!(refusal.contains("use: [render, copy]") && refusal.contains("templates.kinds"), "{refusal}");
    story.admin().create(&rule(&story, "look.example.com/v1", "Theme")).ok();
    story.until_condition("CopyratorRule", "rule", "Ready", "False", "KindNotServed");

    story.admin().create(&definition()).ok();
    eventually("the kind is served", || {
        let listed = story.admin().try_list("Theme");
        if listed.code == 200 { Ok(()) } else { Err(listed.body.to_string()) }
    });
    // What is there already is nobody's to overwrite.
    let others = theme(&taken, json!({ "colour": "red" }));
    story.admin().create(&others).ok();
    story.admin().create(&theme(&story.home, json!({ "fonts": ["serif"], "dark": true }))).ok();
    until_same(&story, &first);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    let joins = json!({ "metadata": { "labels": { "story": "customcopy" } } });
    story.admin().merge("Namespace", "", &taken, &joins).ok();
    story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Conflict");
    let there = story.admin().get("Theme", &taken, "house").expect("it is there");
    assert_eq!(there["spec"]["colour"], "red");
    story.admin().delete("Theme", &taken, "house").ok();
    until_same(&story, &taken);

    a_tenant_changes_no_copy(&story, &first);
    what_a_template_declares_is_kept_whole(&story, &first);
    // A field that the source lacks goes, whoever wrote it; a status is its controller's.
    story.admin().merge_status("Theme", &first, "house", &json!({ "painted": true })).ok();
    story.admin().merge("Theme", &story.home, "house", &json!({ "spec": { "dark": null } })).ok();
    until_same(&story, &first);
    story
        .admin()
        .merge("Theme", &first, "house", &json!({ "spec": { "dark": true, "colour": "blue" } }))
        .ok();
    let copy = until_same(&story, &first);
    assert_eq!(copy["status"]["painted"], true, "{copy}");
    assert_eq!(annotation(&copy, "copyrator.dev/source"), Some("customcopy-home/house"));
    let said = run(&story, None, &["why", "theme/house", "-n", &first], "");
    assert!(said.text.contains("customcopy-home/house"), "{}{}", said.text, said.notes);
    // The reconciler takes a field off in two writes, and the first has everything right.
    until_swept();
    let at_rest = version(&until_same(&story, &first));
    until_swept();
    assert_eq!(version(&until_same(&story, &first)), at_rest, "it was written again");

    story.admin().delete("CopyratorRule", &story.home, "rule").ok();
    for place in [&first, &taken] {
        story.until_gone("Theme", place, "house");
    }
    assert!(story.admin().get("Theme", &story.home, "house").is_some());
}

fn a_tenant_changes_no_copy(story: &Story<'_>, place: &str) {
    let rules = json!([{ "apiGroups": ["look.example.com"], "resources": ["themes", "themes/status"], "verbs": ["*"] }]);
    let of = |kind: &str| {
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": { "namespace": place, "name": "painter" } })
    };
    let (mut role, mut bound) = (of("Role"), of("RoleBinding"));
    role["rules"] = rules;
    bound["roleRef"] = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "painter" });
    bound["subjects"] = json!([{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob" }]);
    [role, bound].iter().for_each(|object| drop(story.admin().create(object).ok()));
    let bob = &story.bed.bob;
    eventually("bob writes the status of a copy, and a finalizer, as its controller does", || {
        let answer = bob.merge_status("Theme", place, "house", &json!({ "painted": false }));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    for finalizers in [json!(["look.example.com/paint"]), json!(null)] {
        bob.merge("Theme", place, "house", &json!({ "metadata": { "finalizers": finalizers } })).ok();
    }
    let refusal = bob.merge("Theme", place, "house", &json!({ "spec": { "dark": false } })).refused();
    assert!(refusal.contains("customcopy-home/house") && refusal.contains("override"), "{refusal}");
    bob.delete("Theme", place, "house").refused();
}

/// The guard refuses bob's edit, as of a copy; the reconciler removes the field that an administrator adds.
fn what_a_template_declares_is_kept_whole(story: &Story<'_>, place: &str) {
    let mut declared = theme(place, json!({ "colour": "green" }));
    declared["metadata"] = json!({ "name": "declared" });
    let spec = json!({
        "forEach": { "namespaces": [{ "names": [place] }] },
        "objects": [{ "id": "theme", "template": declared }],
        "deletionGrace": "0s",
    });
    story.admin().create(&ours("CopyratorTemplate", &story.home, "themes", spec)).ok();
    let until_whole = || {
        eventually("the Theme is as the template declares it", || {
            let theme = story.admin().get("Theme", place, "declared").ok_or("it does not exist")?;
            same(theme["spec"].clone(), json!({ "colour": "green" }))
        });
    };
    until_whole();
    story.until_condition("CopyratorTemplate", "themes", "Ready", "True", "AllRendered");
    let bob = &story.bed.bob;
    let finalizers = |all: Value| json!({ "metadata": { "finalizers": all } });
    for all in [json!(["look.example.com/paint"]), json!(null)] {
        bob.merge("Theme", place, "declared", &finalizers(all)).ok();
    }
    let added = json!({ "spec": { "dark": true } });
    let refusal = bob.merge("Theme", place, "declared", &added).refused();
    assert!(refusal.contains("is kept as a CopyratorTemplate declares it"), "{refusal}");
    story.admin().merge("Theme", place, "declared", &added).ok();
    until_whole();
    let said = run(story, None, &["doctor"], "");
    assert!(
        !said.text.contains("policy-changed") && !said.notes.contains("policy-changed"),
        "{}{}",
        said.text,
        said.notes
    );
    story.admin().delete("CopyratorTemplate", &story.home, "themes").ok();
    story.until_gone("Theme", place, "declared");
}

#[track_caller]
fn until_same(story: &Story<'_>, place: &str) -> Value {
    eventually(&format!("Theme {place}/house is like its source"), || {
        let source = story.admin().get("Theme", &story.home, "house").ok_or("there is no source")?;
        let copy = story.admin().get("Theme", place, "house").ok_or("it does not exist")?;
        same(copy["spec"].clone(), source["spec"].clone())?;
        Ok(copy)
    })
}
