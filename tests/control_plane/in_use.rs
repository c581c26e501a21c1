//! A policy that keeps what workloads use, through the real API server.

use serde_json::{Value, json};

use crate::bed::objects::{config_map, data, deployment, namespace};
use crate::bed::{Answer, Story, eventually, peaceful};

/// A policy that keeps what is in use in the story's namespaces, in force: a deletion of this ConfigMap is refused.
fn keep(story: &Story<'_>, place: &str, name: &str, failure: &str) {
    let spec = json!({ "match": {}, "whileInUse": "Refuse", "failurePolicy": failure });
    story.admin().create(&story.policy(&["ConfigMap", "Secret"], spec)).ok();
    eventually("what is in use is kept", || {
        let answer = story.admin().try_delete("ConfigMap", place, name);
        if answer.code >= 400 { Ok(()) } else { Err("it could be deleted".into()) }
    });
}

/// Uses one key of `app` and all of `whole`.
fn user(place: &str) -> Value {
    let one = json!({ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "app", "key": "a" } } });
    deployment(place, "web", json!({ "env": [one], "envFrom": [{ "configMapRef": { "name": "whole" } }] }))
}

#[test]
fn what_a_workload_uses_is_kept_until_it_is_used_no_more() {
    for (name, failure) in [("kept-in-use", "Ignore"), ("kept-strictly", "Fail")] {
        let story = Story::new(peaceful(), name);
        let place = story.target("a");
        let admin = story.admin();
        for object in ["app", "whole", "free"] {
            admin.create(&config_map(&place, object, [("a", "1"), ("b", "2")])).ok();
        }
        admin.create(&user(&place)).ok();
        keep(&story, &place, "app", failure);

        // Where we do not answer in time, as on a busy machine, one of the policies lets it pass.
        let refused = |write: &dyn Fn() -> Answer| {
            eventually("it is refused", || {
                let answer = write();
                if answer.code >= 400 { Ok(answer.refused()) } else { Err("it passed".into()) }
            })
        };
        let refusal = refused(&|| admin.try_delete("ConfigMap", &place, "app"));
        for part in
            [&format!("policy {name}"), "rule whileInUse", &format!("{place}/app"), "used by Deployment web"]
        {
            assert!(refusal.contains(part), "{part:?} is missing in: {refusal}");
        }
        // A deletion of many has no name in its request, and is stopped by what is in use.
        assert!(admin.delete_all("ConfigMap", &place).refused().contains("used by Deployment web"));
        let remove = |object: &str, key: &str| {
            admin.try_merge("ConfigMap", &place, object, &json!({ "data": { key: null } }))
        };
        assert!(refused(&|| remove("app", "a")).contains("key a"));
        admin.merge("ConfigMap", &place, "app", &json!({ "data": { "b": null } })).ok();
        assert!(refused(&|| remove("whole", "b")).contains("key b"));
        admin.merge("ConfigMap", &place, "whole", &json!({ "data": { "b": "3" } })).ok();
        admin.delete("ConfigMap", &place, "free");
        story.until_gone("ConfigMap", &place, "free");

        admin.delete("Deployment", &place, "web").ok();
        eventually("what nobody uses any more can be deleted", || {
            let answer = admin.delete("ConfigMap", &place, "app");
            if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
        });
    }
}

/// Else a policy would keep a namespace for ever, and with it every client that waits for it to go.
#[test]
fn a_namespace_goes_with_what_is_in_use_in_it() {
    let story = Story::new(peaceful(), "kept-in-vain");
    let place = story.called("a");
    story.admin().create(&namespace(&place, &data([("story", "kept-in-vain")]))).ok();
    for object in ["app", "whole"] {
        story.admin().create(&config_map(&place, object, [("a", "1")])).ok();
    }
    story.admin().create(&user(&place)).ok();
    keep(&story, &place, "app", "Fail");
    story.admin().delete("Namespace", "", &place).ok();
    story.until_gone("Namespace", "", &place);
}

/// A copy goes when nobody wants it, used or not: the source is where that is decided.
#[test]
fn a_copy_in_use_goes_with_its_source() {
    let story = Story::new(peaceful(), "kept-copy");
    let place = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("a", "1")])).ok();
    story.admin().create(&config_map(&place, "whole", [("a", "1")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &place, "app", [("a", "1")]);
    story.admin().create(&user(&place)).ok();
    keep(&story, &place, "whole", "Ignore");
    story.admin().delete("ConfigMap", &story.home, "app").ok();
    story.until_gone("ConfigMap", &place, "app");
}
