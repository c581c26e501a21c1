//! Copies of RoleBindings, in the cluster of [`super::copy_kinds`]: who gives rights by a copy must be allowed to give them.

use serde_json::{Value, json};

use crate::bed::objects::{binding, ours};
use crate::bed::{Bed, Story, eventually, same};

const RBAC: &str = "rbac.authorization.k8s.io";

fn source(story: &Story<'_>, role: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": { "namespace": story.home, "name": "team" },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "User", "apiGroup": RBAC, "name": "carol" }],
    })
}

/// What lets bob give a role in a namespace.
fn may_bind(namespace: &str, role: &str) -> [Value; 2] {
    let rules = json!([{ "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": [role], "verbs": ["bind"] }]);
    let name = json!({ "namespace": namespace, "name": "binder" });
    [
        json!({ "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": name, "rules": rules }),
        json!({ "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": name,
            "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": "binder" },
            "subjects": [{ "kind": "User", "apiGroup": RBAC, "name": "bob" }] }),
    ]
}

pub fn roles_are_bound_by_copies_where_the_author_may(bed: &Bed) {
    let story = Story::new(bed, "boundcopy");
    let place = story.target("place");
    for namespace in [&story.home, &place] {
        story.admin().create(&binding(namespace, "bob", "admin")).ok();
    }
    story.admin().create(&source(&story, "view")).ok();
    let targets = json!([{ "names": [place] }]);
    // Longer than a source is away while it is made anew.
    let source_of = json!({ "kind": "RoleBinding", "names": ["team"] });
    let rule = json!({ "source": source_of, "targets": targets, "deletionGrace": "5m" });
    eventually("bob may write a rule", || {
        let answer = bed.bob.apply(&ours("CopyratorRule", &story.home, "rule", rule.clone()));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    // Who holds the rights of a role passes RBAC's own check; for a copy, the right to give them has to be said.
    let told = story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Forbidden");
    let told = told["status"].to_string();
    assert!(told.contains("bind clusterroles") && told.contains("--resource-name=view"), "{told}");
    assert!(story.admin().get("RoleBinding", &place, "team").is_none(), "{told}");

    may_bind(&place, "view").iter().for_each(|object| drop(story.admin().create(object).ok()));
    let anew = |grace: &str| {
        let spec = json!({ "spec": { "deletionGrace": grace } });
        bed.bob.merge("CopyratorRule", &story.home, "rule", &spec).ok();
    };
    anew("6m");
    let bound = |role: &str| {
        eventually("the copy binds the role", || {
            let copy = story.admin().get("RoleBinding", &place, "team").ok_or("it does not exist")?;
            same(copy["roleRef"]["name"].clone(), json!(role))?;
            same(copy["subjects"][0]["name"].clone(), json!("carol"))
        });
    };
    bound("view");
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");

    // Another author of sources may give more; the rule's gives no more for that.
    story.admin().delete("RoleBinding", &story.home, "team").ok();
    story.admin().create(&source(&story, "edit")).ok();
    let told = story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Forbidden");
    assert!(told["status"].to_string().contains("--resource-name=edit"), "{told}");
    bound("view");

    let both =
        json!({ "rules": [{ "apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"] }] });
    story.admin().merge("Role", &place, "binder", &both).ok();
    anew("7m");
    bound("edit");
    // The chart's list is the operator's own limit.
    story.admin().delete("RoleBinding", &story.home, "team").ok();
    story.admin().create(&source(&story, "admin")).ok();
    eventually("what mends it is told", || {
        let rule = story.admin().get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        let told = rule["status"].to_string();
        if told.contains("copies.bind") { Ok(()) } else { Err(told) }
    });
    bound("edit");
}
