//! What comes back with a backup, and what was written while we were away: judged like everything else.

use serde_json::{Value, json};

use crate::bed::objects::{binding, condition, config_map, ours, uid};
use crate::bed::{Person, Story, eventually, rough};

const RBAC: &str = "rbac.authorization.k8s.io";

/// A tool's account brings rules and copies back, with new UIDs. No copy is lost and nobody restarts; a rule that names
/// no account is inert, since the tool is nobody's rights, and keeps its copies.
#[test]
fn rules_and_copies_that_a_backup_tool_restores_lose_nothing_and_restart_nobody() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let (apps, vault) = (Story::new(bed, "restored"), Story::new(bed, "restored-vault"));
    bed.admin.create(&account(&vault.home, "copier")).ok();
    for namespace in [&vault.home, &apps.home] {
        bed.admin.create(&edits(namespace, &vault.home, "copier")).ok();
    }
    bed.admin.create(&config_map(&vault.home, "app", [("k", "v")])).ok();
    let rule = |name: &str, account: Option<&str>| {
        let mut spec = json!({
            "source": { "kind": "ConfigMap", "names": ["app"] }, "targets": [{ "names": [apps.home] }],
            "copy": { "name": name }, "deletionGrace": "0s",
        });
        if let Some(account) = account {
            spec["serviceAccountName"] = account.into();
        }
        ours("CopyratorRule", &vault.home, name, spec)
    };
    for rule in [rule("kept", Some("copier")), rule("inert", None)] {
        until_accepted(&bed.admin, &rule);
    }
    for name in ["kept", "inert"] {
        apps.until("ConfigMap", &apps.home, name, [("k", "v")]);
        vault.until_condition("CopyratorRule", name, "Ready", "True", "AllCopied");
    }
    apps.deploy("web", &["kept", "inert"]);
    bed.admin.create(&apps.monitor(&["kept", "inert"], json!(null))).ok();
    apps.until_adopted("web");
    let pod = apps.until_running("web");

    // The disaster, with us away.
    crew.reconciler.kill();
    crew.webhook.kill();
    bed.unhook();
    let kept: Vec<(&str, &str, &str)> = vec![
        ("ConfigMap", &vault.home, "app"),
        ("ConfigMap", &apps.home, "kept"),
        ("ConfigMap", &apps.home, "inert"),
        ("CopyratorRule", &vault.home, "kept"),
        ("CopyratorRule", &vault.home, "inert"),
    ];
    let backup: Vec<Value> = kept
        .iter()
        .map(|(kind, namespace, name)| bed.admin.get(kind, namespace, name).expect("it is there"))
        .collect();
    for (kind, namespace, name) in &kept {
        bed.admin.delete(kind, namespace, name).ok();
    }

    // A tool that may write ConfigMaps, and no more, brings back no copies: they are made anew, or protected from it.
    let tools = vault.bystander("tools");
    bed.admin.create(&account(&tools, "modest")).ok();
    bed.admin.create(&edits(&apps.home, &tools, "modest")).ok();
    let modest = bed.account(&tools, "modest");
    let refusal = eventually("RBAC has heard of the tool", || {
        let refusal = modest.create(&bare(&backup[1])).refused();
        if refusal.contains("cannot create resource") { Err(refusal) } else { Ok(refusal) }
    });
    assert!(refusal.contains("copyrator.dev/rule"), "{refusal}");
    // One that may do everything holds `override` too.
    bed.admin.create(&account(&tools, "velero")).ok();
    let everything = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": "restored-velero" },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": tools, "name": "velero" }],
    });
    bed.admin.create(&everything).ok();
    let velero = bed.account(&tools, "velero");
    let restored: Vec<String> =
        backup.iter().map(|object| uid(&until_accepted(&velero, &bare(object)))).collect();
    assert!(backup.iter().zip(&restored).all(|(before, now)| uid(before) != *now), "{restored:?}");

    crew = bed.man();
    vault.until_condition("CopyratorRule", "kept", "Ready", "True", "AllCopied");
    let inert = vault.until_condition("CopyratorRule", "inert", "Authorized", "False", "IdentityRequired");
    assert!(
        inert["status"].to_string().contains(&format!("system:serviceaccount:{tools}:velero")),
        "{inert}"
    );
    eventually("the copy knows its source again", || {
        let copy = bed.admin.get("ConfigMap", &apps.home, "kept").ok_or("it is gone")?;
        let source = copy["metadata"]["annotations"]["copyrator.dev/source-uid"].as_str();
        if source == Some(&restored[0]) { Ok(()) } else { Err(format!("{source:?}")) }
    });
    vault.marker("then");
    let still = |name: &str| uid(&bed.admin.get("ConfigMap", &apps.home, name).expect("a copy was lost"));
    assert_eq!([still("kept"), still("inert")], [restored[1].clone(), restored[2].clone()]);

    // The other way out: an administrator trusts the tool, in this namespace.
    crew.reconciler.kill();
    bed.release_lease();
    let trusted = format!("system:serviceaccount:{tools}:velero@{}", vault.home);
    let more = ["--trusted-writers", trusted.as_str()];
    crew.reconciler =
        bed.testbed.operator(testbed::Role::Reconciler, 0, &more).expect("the reconciler starts");
    vault.until_condition("CopyratorRule", "inert", "Ready", "True", "AllCopied");
    vault.marker("later");
    assert_eq!([still("kept"), still("inert")], [restored[1].clone(), restored[2].clone()]);
    assert_eq!(
        (apps.until_running("web"), apps.revisions("web")),
        (pod, 1),
        "somebody restarted for a restore"
    );
    crew.reconciler.kill();
    crew.webhook.kill();
}

/// A rule is no stronger for having been written while nobody looked, and no weaker.
#[test]
fn what_was_written_while_we_were_away_is_asked_about_before_anything_is_done() {
    let (bed, _turn) = rough();
    bed.unhook();
    let story = Story::new(bed, "written-meanwhile");
    let target = story.target("a");
    bed.admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    bed.admin.create(&binding(&story.home, "alice", "edit")).ok();
    for namespace in [&story.home, &target] {
        bed.admin.create(&binding(namespace, "bob", "edit")).ok();
    }
    for (writer, name) in [(&bed.alice, "taken"), (&bed.bob, "given")] {
        let spec = json!({
            "source": { "kind": "ConfigMap", "names": ["app"] }, "targets": [{ "names": [target] }], "copy": { "name": name },
        });
        let rule = ours("CopyratorRule", &story.home, name, spec);
        let rule = until_accepted(writer, &rule);
        assert_eq!(condition(&rule, "Authorized"), None);
    }
    let crew = bed.man();
    story.until("ConfigMap", &target, "given", [("k", "v")]);
    let inert = story.until_condition("CopyratorRule", "taken", "Authorized", "False", "Forbidden");
    assert_eq!(inert["status"]["identity"], "user alice");
    story.marker("then");
    assert!(bed.admin.get("ConfigMap", &target, "taken").is_none(), "copied with rights that alice lacks");
    crew.reconciler.kill();
    crew.webhook.kill();
}

fn account(namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": namespace, "name": name } })
}

/// A ServiceAccount may edit a namespace.
fn edits(namespace: &str, home: &str, name: &str) -> Value {
    let mut bound = binding(namespace, name, "edit");
    bound["subjects"] = json!([{ "kind": "ServiceAccount", "namespace": home, "name": name }]);
    bound
}

/// As a backup tool writes an object back: without what the server gave it.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    for given in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"] {
        object["metadata"].as_object_mut().expect("metadata").remove(given);
    }
    object
}

/// Creates, once RBAC and the removal of hooks are in force.
fn until_accepted(person: &Person, object: &Value) -> Value {
    eventually("it is accepted", || match person.create(object) {
        answer if answer.code < 300 => Ok(answer.ok()),
        answer => Err(answer.refused()),
    })
}
