//! What people are told of the consequences while they write.

use serde_json::json;

use crate::bed::objects::{binding, config_map, data, namespace};
use crate::bed::{Story, eventually, peaceful, same};

#[test]
fn the_author_of_a_namespace_is_told_what_will_appear_in_it() {
    let story = Story::new(peaceful(), "foretold");
    for name in ["one", "two"] {
        story.admin().create(&config_map(&story.home, name, [("k", "v")])).ok();
    }
    story.admin().create(&story.rule("ConfigMap", &["one", "two"])).ok();
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "NoTarget");
    let labels = data([("story", "foretold")]);
    let told = "copyrator: 2 objects will be created in this namespace (1 rule)";
    eventually("the warning is given", || {
        let answer = story.admin().try_create(&namespace(&story.called("new"), &labels));
        same(answer.warnings, vec![told.to_owned()])
    });
    let plain = story.admin().try_create(&namespace(&story.called("plain"), &data([])));
    assert!(plain.warnings.is_empty(), "{:?}", plain.warnings);
    let target = story.called("new");
    story.admin().create(&namespace(&target, &labels)).ok();
    story.until("ConfigMap", &target, "one", [("k", "v")]);
    story.until("ConfigMap", &target, "two", [("k", "v")]);
}

#[test]
fn the_author_of_a_rule_is_told_what_will_not_be_copied() {
    let story = Story::new(peaceful(), "in-vain");
    let absent = story.called("absent");
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["targets"] = json!([{ "names": [absent] }]);
    let told =
        format!("copyrator: namespace {absent} does not exist: Copyrator copies there once it is created");
    assert!(story.admin().create(&rule).warnings.contains(&told));
    // The source is not there, and the status says so; where a webhook does not see it, that is what the next writer is told.
    story.until_condition("CopyratorRule", "rule", "Ready", "False", "NoSource");
    let told = story
        .admin()
        .merge("CopyratorRule", &story.home, "rule", &json!({ "spec": { "deletionPolicy": "Retain" } }))
        .warnings;
    let source = format!("source ConfigMap {}/app not found", story.home);
    assert!(told.iter().any(|warning| warning.contains(&source)), "{told:?}");
    // Nothing is said once both are there.
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&namespace(&absent, &data([]))).ok();
    story.until("ConfigMap", &absent, "app", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    let patch = json!({ "spec": { "deletionPolicy": "Delete" } });
    eventually("nothing is said once the webhook, too, knows of the namespace", || {
        same(story.admin().try_merge("CopyratorRule", &story.home, "rule", &patch).warnings, Vec::new())
    });
}

#[test]
fn a_user_who_labels_a_namespace_or_deletes_a_rule_is_told_what_follows() {
    let story = Story::new(peaceful(), "relabelling");
    story.admin().create(&config_map(&story.home, "one", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["one"]);
    rule["spec"]["deletionGrace"] = json!("5m");
    story.admin().create(&rule).ok();
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "NoTarget");
    let target = story.bystander("there");
    let label = |value: serde_json::Value| {
        let patch = json!({ "metadata": { "labels": { "story": value } } });
        story.admin().merge("Namespace", "", &target, &patch).warnings
    };
    eventually("the warning is given", || {
        label(json!(null));
        same(
            label(json!("relabelling")),
            vec!["copyrator: 1 object will be created in this namespace (1 rule)".to_owned()],
        )
    });
    story.until("ConfigMap", &target, "one", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    eventually("what goes is told, too", || {
        label(json!("relabelling"));
        let gone = "copyrator: 1 object in this namespace will be deleted in 5m, unless you restore the label (1 rule)";
        same(label(json!(null)), vec![gone.to_owned()])
    });
    label(json!("relabelling"));
    // The status that counts the copy may be of before.
    eventually("who deletes the rule is told of its copy", || {
        let told = "copyrator: 1 copy of this rule will be deleted in 5m; deletionPolicy: Retain keeps them";
        let answer = story.admin().try_delete("CopyratorRule", &story.home, "rule");
        same(answer.warnings, vec![told.to_owned()])
    });
    story.admin().delete("CopyratorRule", &story.home, "rule").ok();
}

#[test]
fn a_user_who_changes_a_source_is_told_how_far_the_change_reaches() {
    let story = Story::new(peaceful(), "reaching");
    let source = story.bystander("source");
    story.target("a");
    story.target("b");
    story
        .admin()
        .merge("Namespace", "", &story.home, &json!({ "metadata": { "labels": { "story": "reaching" } } }))
        .ok();
    story.admin().apply(&config_map(&source, "app", [("k", "1")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["metadata"]["namespace"] = json!(source);
    story.admin().create(&rule).ok();
    story.until("ConfigMap", &story.home, "app", [("k", "1")]);
    story.deploy("web", &["app"]);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    story.until_adopted("web");
    eventually("the warning is given", || {
        let patch = json!({ "data": { "k": "2" } });
        let answer = story.admin().merge("ConfigMap", &source, "app", &patch);
        let told = answer.warnings;
        // Back again, so that the next look is at a change too.
        story.admin().merge("ConfigMap", &source, "app", &json!({ "data": { "k": "1" } })).ok();
        same(told, vec!["copyrator: this change reaches 3 copies, 1 workload restarts".to_owned()])
    });
    // And by a policy, where that is further than it likes.
    let mut policy =
        story.policy(&["ConfigMap"], json!({ "match": {}, "warnAbove": { "copies": 2, "restarts": 1 } }));
    policy["spec"]["match"]["namespaceSelector"] =
        json!({ "matchLabels": { "kubernetes.io/metadata.name": source } });
    story.admin().create(&policy).ok();
    let mut next = 2..;
    let far = "copyrator: this write reaches 3 copies (above 2), policy reaching";
    eventually("the policy warns, too", || {
        let patch = json!({ "data": { "k": next.next().map(|number: u32| number.to_string()) } });
        let told = story.admin().merge("ConfigMap", &source, "app", &patch).warnings;
        if told.iter().any(|one| one == far) { Ok(()) } else { Err(format!("{told:?}")) }
    });

    // A forged authorization tells bob nothing of namespaces that bob may not see, also where nothing is stored.
    story.admin().create(&binding(&source, "bob", "edit")).ok();
    story.admin().create(&config_map(&source, "own", [("k", "1")])).ok();
    let annotations = json!({ "copyrator.dev/copy-to": "*", "copyrator.dev/authorized": "forged" });
    let metadata = json!({ "labels": { "copyrator.dev/declares": "true" }, "annotations": annotations });
    let forged = json!({ "metadata": metadata, "data": { "k": "2" } });
    let answer = eventually("bob may write in the namespace", || {
        let answer = story.bed.bob.try_merge("ConfigMap", &source, "own", &forged);
        let said = answer.body["message"].as_str().unwrap_or_default().to_owned();
        // As RBAC says it.
        if said.contains("cannot patch resource") { Err(said) } else { Ok(answer) }
    });
    let told = format!("{:?}", answer.warnings);
    assert!(answer.code >= 400 && !told.contains("reaches"), "{told} {}", answer.body);
}

/// A write that narrows or widens what is declared was accepted without a word.
#[test]
fn who_narrows_or_widens_is_told_how_many_objects_go_and_come() {
    let story = Story::new(peaceful(), "narrowing");
    let (a, b) = (story.target("a"), story.target("b"));
    story.admin().create(&config_map(&story.home, "one", [("k", "v")])).ok();
    let told = |answer: Vec<String>, wanted: &str| match answer.iter().any(|said| said.contains(wanted)) {
        true => Ok(()),
        false => Err(format!("{wanted:?} is not among {answer:?}")),
    };
    let spec = |kind: &str, name: &str, spec: serde_json::Value| {
        story.admin().merge(kind, &story.home, name, &json!({ "spec": spec })).warnings
    };

    let mut rule = story.rule("ConfigMap", &["one"]);
    rule["spec"]["targets"] = json!([{ "names": [a, b] }]);
    rule["spec"]["deletionGrace"] = json!("5m");
    story.admin().create(&rule).ok();
    story.until("ConfigMap", &b, "one", [("k", "v")]);
    let targets =
        |names: &[&String]| spec("CopyratorRule", "rule", json!({ "targets": [{ "names": names }] }));
    eventually("narrowed targets are told", || {
        targets(&[&a, &b]);
        told(targets(&[&a]), "1 copy of this rule will be deleted in 5m; deletionPolicy: Retain keeps them")
    });
    eventually("wider targets are told", || {
        targets(&[&a]);
        told(targets(&[&a, &b]), "1 copy of this rule will be created, for 1 namespace")
    });
    story.admin().delete("CopyratorRule", &story.home, "rule").ok();

    let object = |id: &str| {
        let template = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": id } });
        json!({ "id": id, "template": template })
    };
    let each = json!({ "namespaces": [{ "namespaceSelector": story.selector() }] });
    let kit = json!({ "forEach": each, "objects": [object("x"), object("y")], "deletionGrace": "5m" });
    let template = crate::bed::objects::ours("CopyratorTemplate", &story.home, "kit", kit);
    told(
        story.admin().create(&template).warnings,
        "4 objects of this template will be created, for 2 namespaces",
    )
    .unwrap();
    story.until_condition("CopyratorTemplate", "kit", "Ready", "True", "AllRendered");
    let labels = data([("story", "narrowing")]);
    eventually("a namespace's warning counts templates", || {
        let answer = story.admin().try_create(&namespace(&story.called("new"), &labels));
        told(answer.warnings, "2 objects will be created in this namespace (1 template)")
    });
    let objects = |ids: &[&str]| {
        let objects: Vec<_> = ids.iter().map(|id| object(id)).collect();
        spec("CopyratorTemplate", "kit", json!({ "objects": objects }))
    };
    told(objects(&["x"]), "objects of this template will be deleted in 5m").unwrap();
    told(objects(&["x", "y"]), "objects of this template will be created, for").unwrap();
    story.admin().delete("CopyratorTemplate", &story.home, "kit").ok();

    let source = |to: serde_json::Value| {
        let labels = json!({ "copyrator.dev/declares": "true" });
        let metadata = json!({ "labels": labels, "annotations": { "copyrator.dev/copy-to": to } });
        story.admin().merge("ConfigMap", &story.home, "one", &json!({ "metadata": metadata })).warnings
    };
    eventually("annotations taken off are told", || {
        told(source(json!(format!("{a},{b}"))), "2 copies of this source will be created, for 2 namespaces")?;
        told(source(json!(null)), "2 copies of this source will be deleted in")
    });
}
