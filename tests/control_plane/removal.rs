//! What nobody wants any more goes, visibly and in two steps, and never for want of knowledge.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, binding, config_map, ours, uid, version};
use crate::bed::{Story, eventually, peaceful};

const REMOVE_AFTER: &str = "copyrator.dev/remove-after";

#[test]
fn a_deleted_rule_takes_its_copies_along_in_two_steps_and_leaves_its_sources() {
    let story = Story::new(peaceful(), "short-grace");
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["deletionGrace"] = "2s".into();
    story.admin().create(&rule).ok();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    story.admin().delete("CopyratorRule", &story.home, "rule").ok();
    story.until_gone("ConfigMap", &target, "app");
    story.until_gone("CopyratorRule", &story.home, "rule");
    story.until("ConfigMap", &story.home, "app", [("k", "v")]);
    // It was marked first: the audit log has the mark's write before the removal.
    eventually("the removal shows as two writes", || {
        let writes = story.bed.our_writes();
        let verbs: Vec<_> = writes
            .iter()
            .filter(|it| it.namespace == target && it.resource == "configmaps" && it.code < 300)
            .map(|it| it.verb.as_str())
            .collect();
        if verbs == ["patch", "patch", "delete"] { Ok(()) } else { Err(format!("{verbs:?}")) }
    });
}

/// Replacing a ConfigMap by delete and create is everyday work; it must not flap what uses the copies.
#[test]
fn a_source_that_returns_under_its_name_keeps_its_copies() {
    let story = Story::new(peaceful(), "returning");
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["deletionGrace"] = "1h".into();
    story.admin().create(&rule).ok();
    let before = story.until("ConfigMap", &target, "app", [("k", "v")]);
    story.admin().delete("ConfigMap", &story.home, "app").ok();
    until_marked(&story, &target, true);
    let source = story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let after = until_marked(&story, &target, false);
    assert_eq!(uid(&after), uid(&before));
    eventually("the copy names the new source", || {
        let copy = story.admin().get("ConfigMap", &target, "app").ok_or("it is gone")?;
        let named = annotation(&copy, "copyrator.dev/source-uid").unwrap_or_default().to_owned();
        if named == uid(&source) { Ok(()) } else { Err(named) }
    });
}

/// bob may edit one namespace and nothing else; the platform's rule and template live there. Whatever bob makes of them, what they
/// made elsewhere stays, protected, until somebody who may delete it says so.
#[test]
fn an_editor_of_a_rule_or_template_removes_nothing_without_the_right_to_delete() {
    let story = Story::new(peaceful(), "bob-narrows");
    let (bob, admin) = (&story.bed.bob, story.admin());
    let (plain, retained) = (story.target("plain"), story.target("retained"));
    admin.create(&binding(&story.home, "bob", "edit")).ok();
    admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let into = |place: &str, object: &str| {
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": object }, "data": { "k": "v" } });
        json!({ "forEach": { "namespaces": [{ "names": [place] }] }, "objects": [{ "id": "a", "template": object }] })
    };
    let copied = |place: &str| json!({ "source": { "kind": "ConfigMap", "names": ["app"] }, "targets": [{ "names": [place] }] });
    let at_once = |mut spec: Value| {
        spec["deletionPolicy"] = "Delete".into();
        spec["deletionGrace"] = "0s".into();
        spec
    };
    for (name, target, policy) in [("plain", &plain, "Delete"), ("retained", &retained, "Retain")] {
        for (kind, spec) in
            [("CopyratorRule", copied(target)), ("CopyratorTemplate", into(target, "declared"))]
        {
            let mut spec = at_once(spec);
            spec["deletionPolicy"] = policy.into();
            admin.create(&ours(kind, &story.home, name, spec)).ok();
        }
    }
    let made =
        |place: &str| ["app", "declared"].map(|name| story.until("ConfigMap", place, name, [("k", "v")]));
    let before = [made(&plain), made(&retained)];

    let rewritten = |kind: &str, name: &str, spec: Value| {
        eventually(&format!("bob may edit a {kind} of the namespace"), || {
            let answer = bob.merge(kind, &story.home, name, &json!({ "spec": spec }));
            if answer.code < 300 { Ok(()) } else { Err(answer.body.to_string()) }
        });
        let told = story.until_condition(kind, name, "Degraded", "True", "Forbidden");
        let problems = told["status"]["problems"].as_array().into_iter().flatten();
        let said: String = problems.filter_map(|problem| problem["message"].as_str()).collect();
        let target = story.called(name);
        for part in [
            format!("user \"bob\" may not delete configmaps in namespace {target:?}"),
            format!("-n {target} && kubectl create rolebinding"),
        ] {
            assert!(said.contains(&part), "{part:?} is missing in: {said}");
        }
    };
    let home = story.home.as_str();
    for name in ["plain", "retained"] {
        rewritten("CopyratorRule", name, at_once(json!({ "targets": [{ "names": [home] }] })));
        // What the template's text says at home is another object.
        rewritten("CopyratorTemplate", name, at_once(into(home, &format!("bobs-{name}"))));
    }
    // A text of which nobody asks what it may do, for all namespaces, has no say over what was made.
    let mut unasked = into(home, "declared");
    unasked["forEach"]["namespaces"] = json!([{ "namespaceSelector": story.selector() }]);
    unasked["objects"][0]["template"] =
        json!({ "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": { "name": "declared" } });
    bob.merge("CopyratorTemplate", home, "plain", &json!({ "spec": at_once(unasked) })).ok();
    story.until_condition("CopyratorTemplate", "plain", "Ready", "False", "KindNotGranted");
    // Nor by another one of the same name.
    for (kind, spec) in [("CopyratorRule", copied(home)), ("CopyratorTemplate", into(home, "anew"))] {
        bob.delete(kind, home, "retained").ok();
        bob.create(&ours(kind, home, "retained", at_once(spec))).ok();
    }
    story.until("ConfigMap", home, "anew", [("k", "v")]);
    story.marker("looked");
    for (was, name) in before[0].iter().zip(["app", "declared"]) {
        let still = admin.get("ConfigMap", &plain, name).expect("bob's edit deleted what was made elsewhere");
        assert_eq!(version(&still), version(was), "{name} was written");
        let kept = admin.get("ConfigMap", &retained, name);
        assert!(kept.is_some(), "{name}, which was meant to stay, is gone");
    }

    // Granted, it goes, by the word that is gentler: that of the copy and of the rule agree here.
    admin.create(&binding(&plain, "bob", "edit")).ok();
    let edited = json!({ "spec": { "excludeTargets": ["nowhere"] } });
    bob.merge("CopyratorRule", home, "plain", &edited).ok();
    bob.merge("CopyratorTemplate", home, "plain", &json!({ "spec": at_once(into(home, "bobs-plain")) })).ok();
    for name in ["app", "declared"] {
        story.until_gone("ConfigMap", &plain, name);
    }
}

fn until_marked(story: &Story<'_>, target: &str, wanted: bool) -> serde_json::Value {
    eventually(&format!("the copy in {target} has a removal mark: {wanted}"), || {
        let copy = story.admin().get("ConfigMap", target, "app").ok_or("it is gone")?;
        if annotation(&copy, REMOVE_AFTER).is_some() == wanted {
            Ok(copy)
        } else {
            Err(copy["metadata"].to_string())
        }
    })
}
