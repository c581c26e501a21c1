//! What people are told of the consequences while they write.

use serde_json::json;

use crate::bed::objects::{config_map, data, namespace};
use crate::bed::{Story, eventually, peaceful, same};

#[test]
fn who_makes_a_namespace_is_told_what_will_appear_in_it() {
    let story = Story::new(peaceful(), "foretold");
    for name in ["one", "two"] {
        story.admin().create(&config_map(&story.home, name, [("k", "v")])).ok();
    }
    story.admin().create(&story.rule("ConfigMap", &["one", "two"])).ok();
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "NoTarget");
    let labels = data([("story", "foretold")]);
    let told = "copyrator: 2 objects will appear in this namespace (1 rule)";
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
fn who_changes_a_source_is_told_how_far_it_reaches() {
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
}
