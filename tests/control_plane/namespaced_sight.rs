//! What cannot be looked at is not taken to be gone, where the operator has rights in some namespaces only.

use serde_json::{Value, json};
use testbed::{NAMESPACE, Role};

use crate::bed::objects::{as_saved, binding, config_map, ours};
use crate::bed::{Bed, Story, eventually, namespaced};
use crate::namespaced::writers;
use crate::plan::run;

const HOME: &str = "sight-home";
const PLACE: &str = "sight-place";
const OTHER: &str = "sight-other";

#[test]
fn a_namespace_out_of_sight_holds_up_nobody_and_loses_no_copy() {
    let bed = namespaced("namespaced_sight", &[HOME, PLACE, OTHER]);
    let (home, other) = (Story::at_home(&bed, "sight"), Story::at_place(&bed, "sight", OTHER));
    for place in [HOME, OTHER] {
        for object in writers(place, "bob") {
            bed.admin.create(&object).ok();
        }
    }
    for place in [PLACE, OTHER] {
        bed.admin.create(&binding(place, "bob", "admin")).ok();
    }
    let mut reconciler = bed.reconciler(0);
    reconciler.wait_ready().expect("the reconciler becomes ready");
    bed.admin.create(&config_map(HOME, "app", [("k", "1")])).ok();
    bed.bob.create(&rule(HOME, "app", &[PLACE])).ok();
    home.until("ConfigMap", PLACE, "app", [("k", "1")]);
    bed.admin.create(&config_map(OTHER, "theirs", [("k", "1")])).ok();
    bed.bob.create(&rule(OTHER, "theirs", &[PLACE])).ok();
    other.until("ConfigMap", PLACE, "theirs", [("k", "1")]);

    // Its Role gone, a process that knows nothing yet comes up all the same, and serves the others.
    let bound = bed.admin.get("RoleBinding", HOME, "copyrator").expect("the chart binds it");
    bed.admin.delete("RoleBinding", HOME, "copyrator").ok();
    reconciler.terminate().expect("it ends");
    let mut reconciler = bed.reconciler(0);
    reconciler.wait_ready().expect("a namespace out of sight keeps nobody waiting");
    bed.admin.apply(&config_map(OTHER, "theirs", [("k", "2")])).ok();
    other.until("ConfigMap", PLACE, "theirs", [("k", "2")]);
    bed.admin.apply(&config_map(HOME, "app", [("k", "2")])).ok();
    marker(&bed, &other, "unseen");
    // Of a grace of nothing: a reconciler that took a refused list for an empty one had deleted it.
    home.until("ConfigMap", PLACE, "app", [("k", "1")]);
    eventually("/readyz tells of it", || {
        let (code, said) = reconciler.ask("/readyz").map_err(|error| error.to_string())?;
        let told = code == 200 && said.contains(&format!("Copyrator cannot read namespace {HOME}"));
        if told { Ok(()) } else { Err(said) }
    });

    // Back in sight, it is as good as before.
    bed.admin.create(&as_saved(bound)).ok();
    home.until("ConfigMap", PLACE, "app", [("k", "2")]);

    // A whole namespace goes, its rule with it. The other is served, and whatever becomes of the copies is said by what was
    // seen to go, never by a refusal.
    bed.admin.delete("Namespace", "", HOME).ok();
    home.until_gone("Namespace", "", HOME);
    bed.admin.apply(&config_map(OTHER, "theirs", [("k", "3")])).ok();
    other.until("ConfigMap", PLACE, "theirs", [("k", "3")]);

    // A definition that goes looks like every rule being deleted.
    marker(&bed, &other, "before");
    bed.admin.delete("CustomResourceDefinition", "", "copyratorrules.copyrator.dev").ok();
    other.until_gone("CustomResourceDefinition", "", "copyratorrules.copyrator.dev");
    eventually("the operator has seen that the rules are gone", || {
        let said = reconciler.log();
        let mut held = said.lines().filter(|line| line.contains("nothing is removed while our own kinds"));
        if held.any(|line| line.contains(&format!("{PLACE}/theirs"))) {
            Ok(())
        } else {
            Err(said.lines().rev().take(3).collect())
        }
    });
    assert!(
        bed.admin.get("ConfigMap", PLACE, "theirs").is_some(),
        "a copy went with the definition of rules"
    );
    drop(reconciler);
}

/// Else a user who may write in two namespaces would write in a third as soon as the operator may.
#[test]
fn what_was_granted_for_some_namespaces_is_asked_again_for_another() {
    let bed = namespaced("namespaced_grant", &[HOME, PLACE, OTHER]);
    let story = Story::at_home(&bed, "sight");
    for object in writers(HOME, "alice") {
        bed.admin.create(&object).ok();
    }
    bed.admin.create(&binding(PLACE, "alice", "edit")).ok();
    let bound = bed.admin.get("RoleBinding", OTHER, "copyrator").expect("the chart binds it");
    bed.admin.delete("RoleBinding", OTHER, "copyrator").ok();
    let mut reconciler = bed.reconciler(0);
    reconciler.wait_ready().expect("the reconciler becomes ready");
    bed.admin.create(&config_map(HOME, "app", [("k", "1")])).ok();
    bed.alice.create(&rule(HOME, "app", &["sight-*"])).ok();
    story.until("ConfigMap", PLACE, "app", [("k", "1")]);
    story.until_condition("CopyratorRule", "app", "Degraded", "True", "OutOfSight");
    let granted = story.until_condition("CopyratorRule", "app", "Authorized", "True", "Allowed");
    assert!(granted["status"]["authorizedProof"].is_string(), "{granted}");

    bed.admin.create(&as_saved(bound)).ok();
    let refused = story.until_condition("CopyratorRule", "app", "Authorized", "False", "Forbidden");
    assert!(refused["status"]["conditions"].to_string().contains(OTHER), "{refused}");
    assert!(bed.admin.get("ConfigMap", OTHER, "app").is_none(), "alice wrote where she may not");
    story.until("ConfigMap", PLACE, "app", [("k", "1")]);

    bed.admin.create(&binding(OTHER, "alice", "edit")).ok();
    story.until("ConfigMap", OTHER, "app", [("k", "1")]);
    story.until_condition("CopyratorRule", "app", "Ready", "True", "AllCopied");
}

/// Where the chart brings the definitions, the account may read them: copies outlive a definition that was made anew
/// without its rules, and `status` says how many are held.
#[test]
fn copies_are_held_when_the_definition_of_rules_was_made_anew() {
    let bed = namespaced("namespaced_definition", &[HOME, PLACE, OTHER]);
    let (home, other) = (Story::at_home(&bed, "sight"), Story::at_place(&bed, "sight", OTHER));
    for place in [HOME, OTHER] {
        for object in writers(place, "bob") {
            bed.admin.create(&object).ok();
        }
        bed.admin.create(&binding(place, "bob", "admin")).ok();
    }
    bed.admin.create(&binding(PLACE, "bob", "admin")).ok();
    let group = "rbac.authorization.k8s.io";
    let names: Vec<String> = ["copyratorrules", "configmonitors", "configpolicies", "copyratortemplates"]
        .map(|plural| format!("{plural}.copyrator.dev"))
        .into();
    let what = json!({ "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "resourceNames": names, "verbs": ["get"] });
    let meta = json!({ "name": "copyrator-definitions" });
    bed.admin
        .create(&json!({ "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": meta, "rules": [what] }))
        .ok();
    let account = json!({ "kind": "ServiceAccount", "namespace": NAMESPACE, "name": "copyrator-reconciler" });
    bed.admin
        .create(&json!({ "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": meta,
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "copyrator-definitions" }, "subjects": [account] }))
        .ok();
    let reads = ["--read-definitions=true"];
    let mut reconciler = bed.testbed.operator(Role::Reconciler, 0, &reads).expect("the reconciler starts");
    reconciler.wait_ready().expect("the reconciler becomes ready");
    for name in ["lost", "kept"] {
        bed.admin.create(&config_map(HOME, name, [("k", "1")])).ok();
        bed.bob.create(&rule(HOME, name, &[PLACE])).ok();
        home.until("ConfigMap", PLACE, name, [("k", "1")]);
    }
    let kind = ("CustomResourceDefinition", "copyratorrules.copyrator.dev");
    let definition = as_saved(bed.admin.get(kind.0, "", kind.1).expect("the chart brings it"));
    bed.admin.delete(kind.0, "", kind.1).ok();
    home.until_gone(kind.0, "", kind.1);
    bed.admin.create(&definition).ok();
    eventually("rules are served again", || {
        let answer = bed.bob.try_create(&rule(HOME, "kept", &[PLACE]));
        if answer.body["kind"] == "CopyratorRule" { Ok(()) } else { Err(answer.body.to_string()) }
    });
    bed.bob.create(&rule(HOME, "kept", &[PLACE])).ok();
    home.until_condition("CopyratorRule", "kept", "Ready", "True", "AllCopied");
    // A rule that goes in the ordinary way takes its copy with it: the reconciler has listed rules anew, and removes.
    marker(&bed, &other, "ordinary");
    bed.bob.delete("CopyratorRule", OTHER, "ordinary").ok();
    other.until_gone("ConfigMap", PLACE, "ordinary");
    home.until("ConfigMap", PLACE, "lost", [("k", "1")]);

    let uid = bed.admin.get(kind.0, "", kind.1).expect("it is back")["metadata"]["uid"].to_string();
    let said = reconciler.log();
    assert!(!said.contains("cannot read"), "{said}");
    let flags =
        ["status", "--copyrator-namespace", NAMESPACE, "--namespaces", &[HOME, PLACE, OTHER].join(",")];
    let status = run(&home, None, &flags, "");
    let said = format!("{}{}", status.text, status.notes);
    assert!(said.contains("1 copy is kept"), "{said}");
    assert!(said.contains(&format!("copyrator.dev/definition={}", uid.trim_matches('"'))), "{said}");
    assert!(said.contains(&format!("for n in {HOME} {OTHER} {PLACE}; do kubectl annotate ")), "{said}");
    let anew =
        json!({ "metadata": { "annotations": { "copyrator.dev/definition": uid.trim_matches('"') } } });
    bed.admin.merge("ConfigMap", PLACE, "lost", &anew).ok();
    home.until_gone("ConfigMap", PLACE, "lost");
}

/// Nobody but the API server's own policies says who wrote a rule, and without them anybody could say so.
#[test]
fn without_the_policies_nobody_is_believed() {
    let bed = namespaced("namespaced_unguarded", &[HOME, PLACE]);
    let story = Story::at_home(&bed, "sight");
    for (kind, name) in [
        ("ValidatingAdmissionPolicyBinding", "copyrator-author-honest"),
        ("MutatingAdmissionPolicyBinding", "copyrator-author"),
    ] {
        bed.admin.delete(kind, "", name).ok();
    }
    bed.admin.create(&config_map(HOME, "app", [("k", "1")])).ok();
    let mut forged = rule(HOME, "app", &[PLACE]);
    forged["metadata"]["annotations"] =
        json!({ "copyrator.dev/author": "root", "copyrator.dev/author-groups": "[\"system:masters\"]" });
    eventually("the policies are out of force", || {
        let answer = bed.admin.try_create(&forged);
        let author = answer.body["metadata"]["annotations"]["copyrator.dev/author"].as_str();
        if author == Some("root") { Ok(()) } else { Err(answer.body.to_string()) }
    });
    bed.admin.create(&forged).ok();
    let mut reconciler = bed.reconciler(0);
    reconciler.wait_ready().expect("the reconciler becomes ready");
    let rule = story.until_condition("CopyratorRule", "app", "Authorized", "False", "IdentityRequired");
    assert!(rule.to_string().contains("copyrator-author-honest is not in force"), "{rule}");
    assert!(bed.admin.get("ConfigMap", PLACE, "app").is_none());
}

fn rule(namespace: &str, name: &str, targets: &[&str]) -> Value {
    let source = json!({ "kind": "ConfigMap", "names": [name] });
    let spec = json!({ "source": source, "targets": [{ "names": targets }], "deletionGrace": "0s" });
    ours("CopyratorRule", namespace, name, spec)
}

/// What has not happened by then does not happen.
fn marker(bed: &Bed, story: &Story<'_>, name: &str) {
    bed.admin.create(&config_map(OTHER, name, [("seen", "yes")])).ok();
    bed.bob.create(&rule(OTHER, name, &[PLACE])).ok();
    story.until("ConfigMap", PLACE, name, [("seen", "yes")]);
}
