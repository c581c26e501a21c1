//! Kinds beside ConfigMap and Secret, which are copied where the chart grants them.

use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE};

use crate::bed::objects::{annotation, binding, ours, uid, version};
use crate::bed::{Bed, Story, eventually, peaceful, private, same};
use crate::beside_others::{a_rewritten_copy_is_told, nobody_fights};
use crate::copied_bindings::roles_are_bound_by_copies_where_the_author_may;
use crate::rights::unused_on;
use crate::template_races::a_tenant_who_is_quick_gets_nothing_more;
use crate::templates::{
    a_binding_whose_role_left_the_list_can_only_go, a_starter_kit,
    roles_are_bound_where_author_and_operator_may,
};
use crate::test_stub::{it_comes_and_goes_with_a_label, it_is_made_and_removed_over_http};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
const KINDS: &str = "NetworkPolicy,ResourceQuota,LimitRange,PodDisruptionBudget,ServiceAccount,Deployment,Service,RoleBinding";
const RECONCILER: &str = "system:serviceaccount:copyrator-system:copyrator-reconciler";

#[test]
fn granted_kinds_are_copied_kept_and_protected() {
    let bed = private("copy-kinds");
    let granted = format!("copies.kinds={{{KINDS}}}");
    let bound = "copies.bind={view,edit}";
    bed.helm(&[
        "upgrade",
        RELEASE,
        CHART,
        "-n",
        NAMESPACE,
        "--reuse-values",
        "--set",
        &granted,
        "--set",
        bound,
    ]);
    let crew = bed.man_with(&["--copy-kinds", KINDS, "--sweep-interval", "3s"]);
    // ConfigMaps, Secrets and the kinds above that rules copy.
    let until_swept = || crew.until_swept(8);
    a_network_policy_stays_closed(&bed);
    what_controllers_write_is_no_drift(&bed);
    an_object_in_the_way_is_overwritten(&bed);
    who_may_not_create_them_gets_none(&bed);
    a_starter_kit(&bed, &until_swept);
    roles_are_bound_where_author_and_operator_may(&bed);
    roles_are_bound_by_copies_where_the_author_may(&bed);
    it_is_made_and_removed_over_http(&bed);
    it_comes_and_goes_with_a_label(&bed, &until_swept);
    nobody_fights(&bed, &until_swept);
    a_rewritten_copy_is_told(&bed, &until_swept);
    let bind = |roles: &str| {
        let bound = format!("copies.bind={roles}");
        bed.helm(&["upgrade", RELEASE, CHART, "-n", NAMESPACE, "--reuse-values", "--set-json", &bound]);
    };
    a_binding_whose_role_left_the_list_can_only_go(&bed, &|| bind("[]"));
    bind(r#"["view"]"#);
    crew.webhook.kill();
    a_tenant_who_is_quick_gets_nothing_more(&bed);
    let forbidden: Vec<_> =
        bed.requests().into_iter().filter(|it| it.user == RECONCILER && it.is_forbidden()).collect();
    assert!(forbidden.is_empty(), "a right is missing: {forbidden:#?}");
    let granted = [
        "networking.k8s.io",
        "policy",
        "resourcequotas",
        "limitranges",
        "serviceaccounts",
        "services",
        "apps/deployments",
        "rbac.authorization.k8s.io/rolebindings",
    ];
    assert_eq!(unused_on(&bed, &granted), Vec::<String>::new());
}

/// A field that the source lacks opens it, and a plain apply would leave that one alone.
fn a_network_policy_stays_closed(bed: &Bed) {
    let story = Story::new(bed, "closed");
    let first = story.target("first");
    let source = of(
        "NetworkPolicy",
        &story.home,
        "deny",
        "spec",
        json!({ "podSelector": {}, "policyTypes": ["Ingress"] }),
    );
    story.admin().create(&source).ok();
    story.admin().create(&story.rule("NetworkPolicy", &["deny"])).ok();
    let copy = until_same(&story, "NetworkPolicy", "deny", &first);
    assert_eq!(annotation(&copy, "copyrator.dev/source"), Some("closed-home/deny"));
    let second = story.target("second");
    until_same(&story, "NetworkPolicy", "deny", &second);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");

    story.admin().create(&binding(&first, "bob", "admin")).ok();
    let opened = json!({ "spec": { "ingress": [{}] } });
    let own = of("NetworkPolicy", &first, "own", "spec", json!({ "podSelector": {} }));
    eventually("bob may write in the first namespace", || {
        let answer = bed.bob.apply(&own);
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    let refusal = bed.bob.merge("NetworkPolicy", &first, "deny", &opened).refused();
    assert!(refusal.contains("closed-home/deny") && refusal.contains("override"), "{refusal}");
    bed.bob.delete("NetworkPolicy", &first, "deny").refused();
    bed.bob
        .merge("NetworkPolicy", &first, "deny", &json!({ "metadata": { "labels": { "mine": "yes" } } }))
        .ok();

    for edit in [
        opened,
        json!({ "spec": { "podSelector": { "matchLabels": { "app": "none" } } } }),
        json!({ "spec": { "policyTypes": ["Egress"], "egress": [{}] } }),
    ] {
        bed.admin.merge("NetworkPolicy", &first, "deny", &edit).ok();
        until_same(&story, "NetworkPolicy", "deny", &first);
    }
    let mut applied = source.clone();
    applied["metadata"]["namespace"] = (*first).into();
    applied["spec"]["ingress"] = json!([{}]);
    bed.admin.apply_as("argocd", &applied).ok();
    until_same(&story, "NetworkPolicy", "deny", &first);

    // A tenant may edit who owns which fields; what the source lacks later goes all the same.
    bed.admin.merge("NetworkPolicy", &story.home, "deny", &json!({ "spec": { "ingress": [{}] } })).ok();
    until_same(&story, "NetworkPolicy", "deny", &first);
    story.marker("opened");
    let copy = until_same(&story, "NetworkPolicy", "deny", &first);
    let entries = copy["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut entries: Vec<Value> = entries.into_iter().filter(|entry| entry["operation"] == "Apply").collect();
    entries.retain(|entry| entry["manager"] == "copyrator-copy");
    for entry in &mut entries {
        entry["fieldsV1"]["f:spec"].as_object_mut().and_then(|fields| fields.remove("f:ingress"));
    }
    assert_eq!(entries.len(), 1);
    bed.bob.merge("NetworkPolicy", &first, "deny", &json!({ "metadata": { "managedFields": entries } })).ok();
    bed.admin.merge("NetworkPolicy", &story.home, "deny", &json!({ "spec": { "ingress": null } })).ok();
    until_same(&story, "NetworkPolicy", "deny", &first);

    let changed = json!({ "spec": { "podSelector": { "matchLabels": { "app": "web" } } } });
    bed.admin.merge("NetworkPolicy", &story.home, "deny", &changed).ok();
    for place in [&first, &second] {
        until_same(&story, "NetworkPolicy", "deny", place);
    }
    // A patch puts the content right, and our apply comes after it.
    story.marker("written");
    let settled = [&first, &second].map(|place| until_same(&story, "NetworkPolicy", "deny", place));
    story.marker("quiet");
    for (place, before) in [&first, &second].into_iter().zip(settled) {
        let after = until_same(&story, "NetworkPolicy", "deny", place);
        assert_eq!(version(&after), version(&before), "it was written again: {after}");
    }
    for command in ["why", "tree"] {
        let output =
            bed.testbed.copyrator(&[command, "netpol/deny", "-n", &first]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("closed-home/deny"), "{command}: {output:?}");
    }
    let output = bed.testbed.copyrator(&["status", "-A", "-o", "json"]).output().expect("it runs");
    let said: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(
        !said.to_string().contains("KindNotGranted") && said.to_string().contains("closed-home"),
        "{said}"
    );
    bed.admin.delete("CopyratorRule", &story.home, "rule").ok();
    story.until_gone("NetworkPolicy", &second, "deny");
}

/// Statuses, and what a ServiceAccount is given, are not ours to keep.
fn what_controllers_write_is_no_drift(bed: &Bed) {
    let story = Story::new(bed, "statuses");
    let target = story.target("a");
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": story.home, "name": "app" },
        "automountServiceAccountToken": false, "imagePullSecrets": [{ "name": "registry" }],
    });
    let quota = json!({ "hard": { "pods": "10", "requests.cpu": "2000m", "count/jobs.batch": "3" } });
    let range = json!({ "limits": [{ "type": "Container", "default": { "cpu": "500m" } }] });
    let budget = json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } });
    bed.admin.create(&account).ok();
    for (kind, spec) in [("ResourceQuota", quota), ("LimitRange", range), ("PodDisruptionBudget", budget)] {
        bed.admin.create(&of(kind, &story.home, "app", "spec", spec)).ok();
    }
    let kinds = ["ServiceAccount", "ResourceQuota", "LimitRange", "PodDisruptionBudget"];
    for kind in kinds {
        let mut rule = story.rule(kind, &["app"]);
        rule["metadata"]["name"] = kind.to_lowercase().into();
        bed.admin.create(&rule).ok();
    }
    for kind in kinds {
        until_same(&story, kind, "app", &target);
    }
    eventually("controllers have written the statuses", || {
        let status = |kind: &str| bed.admin.get(kind, &target, "app").unwrap_or_default()["status"].clone();
        let (quota, budget) = (status("ResourceQuota"), status("PodDisruptionBudget"));
        if quota["hard"]["pods"] == "10" && budget["observedGeneration"] == 1 {
            Ok(())
        } else {
            Err(format!("{quota} {budget}"))
        }
    });
    let copy = bed.admin.get("ServiceAccount", &target, "app").expect("the copy");
    assert_eq!(
        (&copy["imagePullSecrets"], &copy["automountServiceAccountToken"]),
        (&Value::Null, &json!(false))
    );
    bed.admin.create(&binding(&target, "bob", "admin")).ok();
    eventually("bob gives it a Secret", || {
        let given = json!({ "secrets": [{ "name": "mine" }], "imagePullSecrets": [{ "name": "mine" }] });
        let answer = bed.bob.merge("ServiceAccount", &target, "app", &given);
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    let refusal =
        bed.bob.merge("ServiceAccount", &target, "app", &json!({ "automountServiceAccountToken": true }));
    assert!(refusal.refused().contains("override"));
    story.marker("quiet");
    let copy = bed.admin.get("ServiceAccount", &target, "app").expect("the copy");
    assert_eq!(copy["imagePullSecrets"], json!([{ "name": "mine" }]));
    for kind in kinds {
        let plural = format!("{}s", kind.to_lowercase());
        let mut writes = bed.requests();
        // A creation can be tried once more, in vain, before the watch has told of the first.
        writes.retain(|it| {
            let is_patch = it.verb == "patch" && it.code < 300;
            it.user == RECONCILER && it.resource == plural && it.namespace == target && is_patch
        });
        assert_eq!(writes.len(), 1, "{kind} was written again: {writes:#?}");
    }
    // Its scopes never change, so the copy is made anew when those of the source are others. Until then it stays.
    let patient = json!({ "spec": { "deletionGrace": "1h" } });
    bed.admin.merge("CopyratorRule", &story.home, "resourcequota", &patient).ok();
    let before = bed.admin.get("ResourceQuota", &target, "app").expect("the copy");
    bed.admin.delete("ResourceQuota", &story.home, "app").ok();
    let quota = of(
        "ResourceQuota",
        &story.home,
        "app",
        "spec",
        json!({ "hard": { "pods": "5" }, "scopes": ["BestEffort"] }),
    );
    bed.admin.create(&quota).ok();
    let after = until_same(&story, "ResourceQuota", "app", &target);
    assert_ne!(uid(&after), uid(&before));
    // The status is another way to the metadata. RBAC lets bob write it, and the policy refuses bob.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "quota-statuses" },
        "rules": [{
            "apiGroups": ["", "policy"], "verbs": ["get", "patch"],
            "resources": ["resourcequotas/status", "poddisruptionbudgets/status"],
        }],
    });
    bed.admin.create(&role).ok();
    bed.admin.create(&binding(&target, "bob", "quota-statuses")).ok();
    let unmark = json!({ "metadata": { "labels": { "copyrator.dev/rule": null } } });
    for kind in ["ResourceQuota", "PodDisruptionBudget"] {
        eventually("the policy refuses the unmarking by the status", || {
            let refusal = bed.bob.merge_by_status(kind, &target, "app", &unmark).refused();
            if refusal.contains("override") { Ok(()) } else { Err(refusal) }
        });
    }
    bed.admin.delete("CopyratorRule", &story.home, "poddisruptionbudget").ok();
    story.until_gone("PodDisruptionBudget", &target, "app");
}

fn an_object_in_the_way_is_overwritten(bed: &Bed) {
    let story = Story::new(bed, "in-the-way");
    let target = story.target("a");
    let open = json!({ "podSelector": { "matchLabels": { "app": "old" } }, "ingress": [{}], "policyTypes": ["Ingress"] });
    bed.admin.apply_as("argocd", &of("NetworkPolicy", &target, "deny", "spec", open)).ok();
    let closed = json!({ "podSelector": {}, "policyTypes": ["Ingress", "Egress"] });
    bed.admin.create(&of("NetworkPolicy", &story.home, "deny", "spec", closed)).ok();
    let mut rule = story.rule("NetworkPolicy", &["deny"]);
    bed.admin.create(&rule).ok();
    story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Conflict");
    rule["spec"]["conflictPolicy"] = "Overwrite".into();
    bed.admin
        .merge("CopyratorRule", &story.home, "rule", &json!({ "spec": { "conflictPolicy": "Overwrite" } }))
        .ok();
    until_same(&story, "NetworkPolicy", "deny", &target);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
}

/// A user who may copy ConfigMaps somewhere need not be allowed to open or close its network.
fn who_may_not_create_them_gets_none(bed: &Bed) {
    let story = Story::new(bed, "tenant");
    let target = story.target("a");
    bed.admin.create(&of("NetworkPolicy", &story.home, "deny", "spec", json!({ "podSelector": {} }))).ok();
    bed.admin.create(&binding(&story.home, "alice", "admin")).ok();
    let spec = json!({ "source": { "kind": "NetworkPolicy", "names": ["deny"] }, "targets": [{ "names": [target] }] });
    let rule = ours("CopyratorRule", &story.home, "rule", spec);
    eventually("alice may write rules, and is told what she lacks", || {
        let said = bed.alice.try_create(&rule).refused();
        if said.contains("create, delete or patch networkpolicies.networking.k8s.io") {
            Ok(())
        } else {
            Err(said)
        }
    });
    eventually("she writes it while there are no hooks", || {
        bed.unhook();
        let answer = bed.alice.create(&rule);
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    story.until_condition("CopyratorRule", "rule", "Authorized", "False", "Forbidden");
    story.marker("then");
    assert!(bed.admin.get("NetworkPolicy", &target, "deny").is_none());
    // The marker's rule has the hooks looked at, and put back: what comes after this is judged.
    bed.until_answered();
}

#[test]
fn a_kind_that_is_not_granted_is_left_alone_and_its_rule_says_so() {
    let story = Story::new(peaceful(), "not-granted");
    let target = story.target("a");
    let source = of("NetworkPolicy", &story.home, "deny", "spec", json!({ "podSelector": {} }));
    story.admin().create(&source).ok();
    story.admin().create(&story.rule("NetworkPolicy", &["deny"])).ok();
    let rule = story.until_condition("CopyratorRule", "rule", "Ready", "False", "KindNotGranted");
    assert!(rule["status"].to_string().contains("copies.kinds"), "{rule}");
    story.marker("then");
    assert!(story.admin().get("NetworkPolicy", &target, "deny").is_none());
}

fn of(kind: &str, namespace: &str, name: &str, field: &str, content: Value) -> Value {
    let group = match kind {
        "NetworkPolicy" => "networking.k8s.io/v1",
        "PodDisruptionBudget" => "policy/v1",
        _ => "v1",
    };
    json!({ "apiVersion": group, "kind": kind, "metadata": { "namespace": namespace, "name": name }, field: content })
}

/// Waits until the copy of a source is like it.
#[track_caller]
fn until_same(story: &Story<'_>, kind: &str, name: &str, place: &str) -> Value {
    eventually(&format!("{kind} {place}/{name} is like its source"), || {
        let source = story.admin().get(kind, &story.home, name).ok_or("there is no source")?;
        let copy = story.admin().get(kind, place, name).ok_or("it does not exist")?;
        let content =
            |object: &Value| [&object["spec"], &object["automountServiceAccountToken"]].map(Value::to_string);
        same(content(&copy), content(&source))?;
        Ok(copy)
    })
}
