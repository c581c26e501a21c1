//! Copies and author stamps are protected by the API server itself: everything here happens with every process
//! of ours dead.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, binding, config_map, ours, secret, version};
use crate::bed::{Bed, Story, eventually, rough};

/// A copy in a namespace whose admin bob is, and nobody of ours alive.
fn abandoned<'a>(bed: &'a Bed, name: &'static str) -> (Story<'a>, String, Value) {
    let crew = bed.man();
    let story = Story::new(bed, name);
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    story.admin().create(&binding(&target, "bob", "admin")).ok();
    eventually("bob may write in the target", || {
        let answer = bed.bob.apply(&config_map(&target, "own", [("k", "v")]));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    crew.reconciler.kill();
    crew.webhook.kill();
    let copy = story.until("ConfigMap", &target, "app", [("k", "v")]);
    (story, target, copy)
}

#[test]
fn a_tenant_cannot_edit_delete_or_unmark_a_copy() {
    let (bed, _turn) = rough();
    let (story, target, copy) = abandoned(bed, "protected");
    let source = format!("{}/app", story.home);
    for edit in [
        json!({ "data": { "k": "changed" } }),
        json!({ "data": { "more": "added" } }),
        json!({ "data": null }),
        json!({ "binaryData": { "b": "AAE=" } }),
        json!({ "immutable": true }),
        json!({ "metadata": { "labels": { "copyrator.dev/rule": null } } }),
        json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "me" } } }),
        json!({ "metadata": { "labels": null } }),
        json!({ "metadata": { "annotations": { "copyrator.dev/digest": "0" } } }),
        json!({ "metadata": { "annotations": { "copyrator.dev/remove-after": "2020-01-01T00:00:00Z" } } }),
    ] {
        let refusal = bed.bob.merge("ConfigMap", &target, "app", &edit).refused();
        assert!(refusal.contains(&source) && refusal.contains("override"), "{edit}: {refusal}");
    }
    let refusal = bed.bob.delete("ConfigMap", &target, "app").refused();
    assert!(refusal.contains(&source), "{refusal}");
    let refusal = bed.bob.delete_all("ConfigMap", &target).refused();
    assert!(refusal.contains(&source), "{refusal}");
    let mut replaced = config_map(&target, "app", [("k", "v")]);
    let refusal = bed.bob.apply(&replaced);
    assert!(refusal.code < 300, "an apply that changes nothing of ours passes: {}", refusal.body);
    replaced["data"]["k"] = "other".into();
    bed.bob.apply(&replaced).refused();

    let still = story.until("ConfigMap", &target, "app", [("k", "v")]);
    assert_eq!(still["metadata"]["uid"], copy["metadata"]["uid"]);
    // Labels of bob's own do no harm.
    bed.bob.merge("ConfigMap", &target, "app", &json!({ "metadata": { "labels": { "mine": "yes" } } })).ok();
}

/// A Secret has more ways to be written.
#[test]
fn a_tenant_cannot_edit_a_copied_secret() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "protected-secret");
    let target = story.target("a");
    bed.admin.create(&secret(&story.home, "app", [("k", "v")])).ok();
    bed.admin.create(&story.rule("Secret", &["app"])).ok();
    let copy = story.until("Secret", &target, "app", [("k", "v")]);
    bed.admin.create(&binding(&target, "bob", "admin")).ok();
    crew.reconciler.kill();
    crew.webhook.kill();
    eventually("bob may write in the target", || {
        let answer = bed.bob.apply(&secret(&target, "own", [("k", "v")]));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    let copy = &copy["metadata"]["uid"];
    for edit in [
        json!({ "stringData": { "k": "changed" } }),
        json!({ "data": { "k": "eA==" } }),
        json!({ "immutable": true }),
        json!({ "metadata": { "annotations": { "copyrator.dev/mark": null } } }),
    ] {
        let refusal = bed.bob.merge("Secret", &target, "app", &edit).refused();
        assert!(
            refusal.contains("protected-secret-home/app") && refusal.contains("override"),
            "{edit}: {refusal}"
        );
    }
    let same = json!({ "stringData": { "k": "v" }, "metadata": { "annotations": { "mine": "yes" } } });
    bed.bob.merge("Secret", &target, "app", &same).ok();
    let still = story.until("Secret", &target, "app", [("k", "v")]);
    assert_eq!(&still["metadata"]["uid"], copy);
}

#[test]
fn a_tenant_cannot_forge_a_copy() {
    let (bed, _turn) = rough();
    let (_story, target, copy) = abandoned(bed, "forged");
    let mut forged = config_map(&target, "forged", [("k", "v")]);
    for part in ["labels", "annotations"] {
        forged["metadata"][part] = copy["metadata"][part].clone();
    }
    // Pasted as it is, it says that it is another object: nobody keeps it, and nothing guards it.
    bed.bob.create(&forged).ok();
    bed.bob.merge("ConfigMap", &target, "forged", &json!({ "data": { "k": "mine" } })).ok();
    bed.bob.delete("ConfigMap", &target, "forged").ok();
    forged["metadata"]["annotations"]["copyrator.dev/object"] = format!("configmaps/{target}/forged").into();
    let mut silent = forged.clone();
    silent["metadata"]["annotations"].as_object_mut().expect("a map").remove("copyrator.dev/object");
    for forged in [forged, silent] {
        let refusal = bed.bob.create(&forged).refused();
        assert!(refusal.contains("copyrator.dev/rule"), "{refusal}");
    }
    let marks = json!({ "metadata": { "labels": copy["metadata"]["labels"] } });
    bed.bob.merge("ConfigMap", &target, "own", &marks).refused();
    // A user who is granted the verb may.
    let grant = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "namespace": target, "name": "override" },
        "rules": [{ "apiGroups": ["copyrator.dev"], "resources": ["copies"], "verbs": ["override"] }],
    });
    bed.admin.create(&grant).ok();
    let mut granted = binding(&target, "bob", "override");
    granted["roleRef"]["kind"] = "Role".into();
    bed.admin.create(&granted).ok();
    eventually("the granted tenant may", || {
        let answer = bed.bob.merge("ConfigMap", &target, "app", &json!({ "data": { "k": "changed" } }));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
}

#[test]
fn a_namespace_with_copies_can_be_deleted() {
    let (bed, _turn) = rough();
    let (story, target, copy) = abandoned(bed, "emptied");
    assert!(copy["metadata"]["finalizers"].is_null());
    bed.admin.delete("Namespace", "", &target).ok();
    story.until_gone("Namespace", "", &target);
    bed.admin.delete("Namespace", "", &story.home).ok();
    story.until_gone("Namespace", "", &story.home);
}

#[test]
fn an_author_stamp_cannot_be_faked_and_moves_only_with_the_spec() {
    let (bed, _turn) = rough();
    let story = Story::new(bed, "stamped");
    bed.unhook();
    story.admin().create(&binding(&story.home, "alice", "edit")).ok();
    story.admin().create(&binding(&story.home, "bob", "edit")).ok();
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "declared" } });
    let spec = json!({ "forEach": { "namespaces": [{ "names": [story.home] }] }, "objects": [{ "id": "a", "template": object }] });
    for (written, change) in [
        (story.rule("ConfigMap", &["app"]), json!({ "excludeTargets": ["x"] })),
        (ours("CopyratorTemplate", &story.home, "template", spec), json!({ "deletionPolicy": "Retain" })),
        (story.monitor(&["app"], json!(null)), json!({ "serviceAccountName": "restarter" })),
    ] {
        is_stamped_honestly(&story, written, &change);
    }
}

/// What alice writes is hers whatever it claims, until bob changes what it says.
fn is_stamped_honestly(story: &Story<'_>, mut written: Value, other: &Value) {
    let bed = story.bed;
    written["metadata"]["annotations"] =
        json!({ "copyrator.dev/author": "admin", "copyrator.dev/author-groups": r#"["system:masters"]"# });
    let text = |pointer| written.pointer(pointer).and_then(Value::as_str).expect("it has a kind and a name");
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    let made = eventually(&format!("alice writes a {kind}"), || match bed.alice.create(&written) {
        answer if answer.code < 300 => Ok(answer.body),
        answer => Err(answer.refused()),
    });
    assert_eq!(annotation(&made, "copyrator.dev/author"), Some("alice"), "{kind}");
    let groups = annotation(&made, "copyrator.dev/author-groups").expect("the groups are stamped");
    assert!(groups.contains("people") && !groups.contains("masters"), "{kind}: {groups}");
    eventually("bob may write it, too", || {
        let nothing = json!({ "metadata": { "labels": { "a": null } } });
        let answer = bed.bob.try_merge(kind, &story.home, name, &nothing);
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });

    let author = |answer: &Value| annotation(answer, "copyrator.dev/author").map(str::to_owned);
    let alices = Some("alice".to_owned());
    let change = |patch: Value| bed.bob.merge(kind, &story.home, name, &patch);
    for patch in
        [json!({ "annotations": { "copyrator.dev/author": "admin" } }), json!({ "annotations": null })]
    {
        let answer = change(json!({ "metadata": patch }));
        assert!(answer.code >= 400 || author(&answer.body) == alices, "{kind}: {}", answer.body);
    }
    let relabelled = change(json!({ "metadata": { "labels": { "a": "b" } } })).ok();
    assert_eq!(author(&relabelled), alices, "{kind}: a label changed the author");
    let suspended = change(json!({ "spec": { "suspend": true } })).ok();
    assert_eq!(author(&suspended), alices, "{kind}: an emergency stop changed the author");
    let changed = change(json!({ "spec": other })).ok();
    assert_eq!(author(&changed), Some("bob".into()), "{kind}");
    assert_ne!(version(&changed), version(&made));
}
