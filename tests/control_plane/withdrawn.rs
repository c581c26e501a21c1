//! Who administers a namespace gives the right to read it, and takes it back.

use serde_json::json;

use crate::bed::objects::{binding, config_map, data, namespace};
use crate::bed::{Story, eventually, peaceful};

#[test]
fn what_a_namespace_gave_ends_when_it_is_taken_back_and_with_the_namespace() {
    let story = Story::new(peaceful(), "withdrawn");
    let (vault, mine) = (story.bystander("vault"), story.called("mine"));
    story.admin().create(&namespace(&mine, &data([]))).ok();
    let readable = binding(&vault, "alice", "edit");
    for bound in [&binding(&story.home, "alice", "edit"), &binding(&mine, "alice", "edit"), &readable] {
        story.admin().create(bound).ok();
    }
    let write = |name: &str, value: &str| {
        story.admin().apply(&config_map(&vault, name, [("k", value)])).ok();
    };
    write("app", "1");
    let mut rule = story.rule("ConfigMap", &["*"]);
    rule["spec"]["source"]["namespaces"] = json!([vault]);
    rule["spec"]["source"]["names"] = json!(["app", "new*"]);
    rule["spec"]["targets"] = json!([{ "names": [mine] }]);
    eventually("alice may", || match story.bed.alice.create(&rule) {
        answer if answer.code < 300 => Ok(()),
        answer => Err(answer.refused()),
    });
    story.until("ConfigMap", &mine, "app", [("k", "1")]);
    let allowed = story.until_condition("CopyratorRule", "rule", "Authorized", "True", "Allowed");
    let when = allowed["status"]["authorizedTime"].as_str().expect("it says when it was asked").to_owned();

    // The right is taken back: what is there stays, and nothing new is read.
    story.admin().delete("RoleBinding", &vault, "alice-edit").ok();
    let stopped = story.until_condition("CopyratorRule", "rule", "Authorized", "False", "Forbidden");
    assert!(
        stopped["status"].to_string().contains("may not get or list configmaps"),
        "{}",
        stopped["status"]
    );
    write("app", "2");
    write("new-1", "2");
    story.marker("taken");
    story.until("ConfigMap", &mine, "app", [("k", "1")]);
    assert!(story.admin().get("ConfigMap", &mine, "new-1").is_none(), "read without the right to");

    story.admin().create(&readable).ok();
    story.until("ConfigMap", &mine, "app", [("k", "2")]);
    story.until("ConfigMap", &mine, "new-1", [("k", "2")]);
    let again = story.until_condition("CopyratorRule", "rule", "Authorized", "True", "Allowed");
    assert_eq!(again["status"]["authorizedTime"], when, "what was asked once was asked then");

    // The namespace is made anew, for others.
    story.admin().delete("Namespace", "", &vault).ok();
    eventually("the namespace is gone", || match story.admin().get("Namespace", "", &vault) {
        Some(_) => Err("it is there".to_owned()),
        None => Ok(()),
    });
    story.admin().create(&namespace(&vault, &data([]))).ok();
    write("new-2", "theirs");
    story.until_condition("CopyratorRule", "rule", "Authorized", "False", "Forbidden");
    story.marker("anew");
    assert!(story.admin().get("ConfigMap", &mine, "new-2").is_none(), "a grant outlived its namespace");
}
