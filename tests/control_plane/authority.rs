//! No user does through Copyrator what that user may not do alone.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, binding, config_map, label, ours, secret, version};
use crate::bed::{Person, Story, eventually, peaceful, rough};

#[test]
fn an_author_without_rights_is_refused_with_the_missing_role() {
    let story = Story::new(peaceful(), "unauthorized");
    let target = story.target("a");
    story.admin().create(&binding(&story.home, "alice", "edit")).ok();
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let refusal = eventually("alice may write rules, but not this one", || {
        let refusal = story.bed.alice.create(&story.rule("ConfigMap", &["app"])).refused();
        // Right after its creation RBAC may not have heard of the binding.
        if refusal.contains("cannot create resource") { Err(refusal) } else { Ok(refusal) }
    });
    let grants = [
        "kubectl create clusterrole ",
        "--verb=create,",
        "kubectl create clusterrolebinding ",
        "--user=alice",
    ];
    for part in
        ["user \"alice\" may not create, delete or patch configmaps in all namespaces"].iter().chain(&grants)
    {
        assert!(refusal.contains(part), "{part:?} is missing in: {refusal}");
    }
    assert!(story.admin().get("ConfigMap", &target, "app").is_none());
}

#[test]
fn an_author_with_rights_on_named_targets_needs_no_others() {
    let story = Story::new(peaceful(), "authorized");
    let (mine, other) = (story.target("mine"), story.target("other"));
    for namespace in [&story.home, &mine] {
        story.admin().create(&binding(namespace, "bob", "edit")).ok();
    }
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["targets"] = json!([{ "names": [mine] }]);
    until_accepted(&story.bed.bob, &rule);
    story.until("ConfigMap", &mine, "app", [("k", "v")]);
    let rule = story.until_condition("CopyratorRule", "rule", "Authorized", "True", "Allowed");
    assert_eq!(annotation(&rule, "copyrator.dev/author"), Some("bob"));
    assert!(
        rule["status"]["identity"].as_str().is_some_and(|identity| identity.contains("bob")),
        "{}",
        rule["status"]
    );

    let more = json!({ "spec": { "targets": [{ "names": [mine, other] }] } });
    let refusal = story.bed.bob.merge("CopyratorRule", &story.home, "rule", &more).refused();
    assert!(refusal.contains(&other), "{refusal}");
}

/// So does a template, though the administrator who wrote it may do everything.
#[test]
fn a_rule_with_a_service_account_does_what_that_account_may_and_stops_when_it_may_not() {
    let story = Story::new(peaceful(), "delegated");
    let (target, left, later) = (story.target("a"), story.target("left"), story.called("later"));
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": story.home, "name": "copier" } });
    story.admin().create(&account).ok();
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    let grant = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "delegated" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": story.home, "name": "copier" }],
    });
    story.admin().create(&grant).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["serviceAccountName"] = "copier".into();
    until_accepted(story.admin(), &rule);
    story.until("ConfigMap", &target, "app", [("k", "1")]);
    let copied = story.until_condition("CopyratorRule", "rule", "Authorized", "True", "Allowed");
    assert!(
        copied["status"]["identity"].as_str().is_some_and(|it| it.contains("copier")),
        "{}",
        copied["status"]
    );
    let copy = story.until("ConfigMap", &target, "app", [("k", "1")]);
    story.until("ConfigMap", &left, "app", [("k", "1")]);
    let mut template =
        template_of(&story, "template", &json!({ "namespaceSelector": story.selector() }), "declared");
    template["spec"]["serviceAccountName"] = "copier".into();
    until_accepted(story.admin(), &template);
    for place in [&target, &left] {
        story.until("ConfigMap", place, "declared", [("k", "v")]);
    }
    let known = story.until_condition("CopyratorTemplate", "template", "Authorized", "True", "Allowed");
    assert_eq!(known["status"]["identity"], format!("serviceaccount {}/copier", story.home));

    story.admin().delete("ClusterRoleBinding", "", "delegated").ok();
    for (kind, name) in [("CopyratorRule", "rule"), ("CopyratorTemplate", "template")] {
        story.until_condition(kind, name, "Authorized", "False", "Forbidden");
    }
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    // Nobody wants this copy any more, and nobody may remove it.
    story.admin().merge("Namespace", "", &left, &json!({ "metadata": { "labels": { "story": null } } })).ok();
    story
        .admin()
        .create(&crate::bed::objects::namespace(&later, &crate::bed::objects::data([("story", "delegated")])))
        .ok();
    story.marker("then");
    for name in ["app", "declared"] {
        assert!(
            story.admin().get("ConfigMap", &later, name).is_none(),
            "{name}: written without the right to"
        );
        assert!(
            story.admin().get("ConfigMap", &left, name).is_some(),
            "{name}: removed without the right to"
        );
    }
    let still = story.admin().get("ConfigMap", &target, "app").expect("removed when the right went");
    assert_eq!(version(&still), version(&copy));
    story.admin().create(&grant).ok();
    for (name, value) in [("app", "2"), ("declared", "v")] {
        story.until_gone("ConfigMap", &left, name);
        story.until("ConfigMap", &later, name, [("k", value)]);
    }
}

/// A GitOps controller has rights everywhere; a user who can commit to its repository has not.
#[test]
fn a_service_account_of_another_namespace_is_no_identity() {
    let story = Story::new(peaceful(), "gitops");
    let (target, flux) = (story.target("a"), story.bystander("flux"));
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": flux, "name": "applier" } });
    story.admin().create(&account).ok();
    let grant = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "gitops" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": flux, "name": "applier" }],
    });
    story.admin().create(&grant).ok();
    let applier = story.bed.account(&flux, "applier");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let warnings = until_accepted(&applier, &story.rule("ConfigMap", &["app"]));
    assert!(warnings.iter().any(|warning| warning.contains("serviceAccountName")), "{warnings:?}");
    let rule = story.until_condition("CopyratorRule", "rule", "Authorized", "False", "IdentityRequired");
    let message = rule["status"].to_string();
    assert!(message.contains("serviceAccountName") && message.contains("trusted"), "{message}");
    story.marker("then");
    assert!(story.admin().get("ConfigMap", &target, "app").is_none());
}

#[test]
fn a_monitor_with_a_service_account_restarts_what_that_account_may_and_stops_when_it_may_not() {
    let story = Story::new(peaceful(), "monitored");
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": story.home, "name": "restarter" } });
    story.admin().create(&account).ok();
    let change =
        |value: &str| drop(story.admin().apply(&config_map(&story.home, "app", [("k", value)])).ok());
    change("1");
    story.deploy("web", &["app"]);
    let first = story.until_running("web");
    let mut monitor = story.monitor(&["app"], json!(null));
    monitor["spec"]["serviceAccountName"] = "restarter".into();
    until_accepted(story.admin(), &monitor);
    story.until_condition("ConfigMonitor", "monitor", "Authorized", "False", "Forbidden");
    change("2");
    story.marker("without");
    let web = story.admin().get("Deployment", &story.home, "web").expect("it is there");
    assert_eq!(label(&web, "copyrator.dev/applied"), None, "written without the right to");
    assert_eq!((story.until_running("web"), story.rollouts("web")), (first.clone(), 1));

    let grant = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "namespace": story.home, "name": "restarter" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": story.home, "name": "restarter" }],
    });
    story.admin().create(&grant).ok();
    let monitor = story.until_condition("ConfigMonitor", "monitor", "Authorized", "True", "Allowed");
    let identity = monitor["status"]["identity"].as_str().unwrap_or_default();
    assert!(identity.contains("restarter"), "{identity}");
    story.until_adopted("web");
    story.until_later(1);
    change("3");
    let second = story.until_restarted("web", &first);

    story.admin().delete("RoleBinding", &story.home, "restarter").ok();
    story.until_condition("ConfigMonitor", "monitor", "Authorized", "False", "Forbidden");
    story.until_later(1);
    change("4");
    story.marker("withdrawn");
    assert_eq!(
        (story.until_running("web"), story.rollouts("web")),
        (second.clone(), 2),
        "restarted without the right to"
    );
    story.admin().create(&grant).ok();
    story.until_restarted("web", &second);
    assert_eq!(story.rollouts("web"), 3);
}

/// A user who holds every right in a namespace may write statuses there. That must not be the way to other people's
/// Secrets: what was refused stays refused, also for the next leader, who knows only what statuses say.
#[test]
fn a_status_written_by_a_tenant_grants_nothing() {
    let (bed, _turn) = rough();
    // A rule that the webhook would refuse gets in while the webhook is away: there is none, and no hook from before. Taken
    // away beside a reconciler that has just heard the webhook, hooks could come back.
    bed.unhook();
    bed.until_stamped();
    let mut reconciler = bed.reconciler(0);
    let story = Story::new(bed, "self-granted");
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    grant(&story, "bob", everything);
    // Everything of ours, and nothing else: no right to the workloads that a monitor restarts.
    grant(&story, "alice", json!([{ "apiGroups": ["copyrator.dev"], "resources": ["*"], "verbs": ["*"] }]));
    let vault = story.bystander("vault");
    bed.admin.create(&secret("kube-system", "loot", [("k", "v")])).ok();
    bed.admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.deploy("web", &["app"]);

    let spec = |source: Value| json!({ "source": source, "targets": [{ "names": [story.home] }] });
    let loot = json!({ "kind": "Secret", "names": ["loot"], "namespaces": ["kube-system"] });
    let honest = json!({ "kind": "ConfigMap", "names": ["app"] });
    until_accepted(&bed.bob, &ours("CopyratorRule", &story.home, "loot", spec(loot)));
    until_accepted(&bed.bob, &ours("CopyratorRule", &story.home, "honest", spec(honest)));
    until_accepted(&bed.alice, &story.monitor(&["app"], json!(null)));
    for (name, place) in [("planted", &vault), ("honest", &story.home)] {
        until_accepted(&bed.bob, &template_of(&story, name, &json!({ "names": [place] }), name));
    }
    let refused = [
        ("CopyratorRule", "loot", &bed.bob),
        ("ConfigMonitor", "monitor", &bed.alice),
        ("CopyratorTemplate", "planted", &bed.bob),
    ];
    for (kind, name, _) in refused {
        story.until_condition(kind, name, "Authorized", "False", "Forbidden");
    }
    let proofs = ["CopyratorRule", "CopyratorTemplate"].map(|kind| {
        let granted = story.until_condition(kind, "honest", "Authorized", "True", "Allowed");
        let proof = granted["status"]["authorizedProof"].as_str().map(str::to_owned);
        proof.unwrap_or_else(|| panic!("{kind} has no proof: {}", granted["status"]))
    });

    let claim = json!({ "authorizedGeneration": 1 });
    // Several proofs may stand beside each other.
    let pasted = json!({ "authorizedGeneration": 1, "authorizedProof": proofs.join(",") });
    for (part, forged) in [("claimed", claim), ("pasted", pasted)] {
        reconciler.kill();
        for (kind, name, tenant) in refused {
            let refusal = tenant.merge_status(kind, &story.home, name, &forged).refused();
            assert!(refusal.contains("'copyrator-statuses'"), "{kind}: {refusal}");
            // As where that policy is not in force.
            story.admin().merge_status(kind, &story.home, name, &forged).ok();
        }
        bed.release_lease();
        reconciler = bed.reconciler(0);
        story.marker(part);
        for (kind, name, _) in refused {
            story.until_condition(kind, name, "Authorized", "False", "Forbidden");
        }
        assert!(story.admin().get("Secret", &story.home, "loot").is_none(), "a Secret was had for a status");
        assert!(
            story.admin().get("ConfigMap", &vault, "planted").is_none(),
            "an object was made for a status"
        );
        let web = story.admin().get("Deployment", &story.home, "web").expect("it is there");
        assert_eq!(label(&web, "copyrator.dev/applied"), None, "a workload was written for a status");
    }
    reconciler.kill();
}

/// A template that gives these namespaces a ConfigMap.
fn template_of(story: &Story<'_>, name: &str, namespaces: &Value, object: &str) -> Value {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": object }, "data": { "k": "v" } });
    let spec = json!({
        "forEach": { "namespaces": [namespaces] }, "objects": [{ "id": "a", "template": object }], "deletionGrace": "0s",
    });
    ours("CopyratorTemplate", &story.home, name, spec)
}

/// Rights in the story's home.
pub fn grant(story: &Story<'_>, user: &str, rules: Value) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "namespace": story.home, "name": user }, "rules": rules,
    });
    story.admin().create(&role).ok();
    let mut bound = binding(&story.home, user, user);
    bound["roleRef"]["kind"] = "Role".into();
    story.admin().create(&bound).ok();
}

/// Creates, once RBAC has heard of the author's rights: the warnings.
fn until_accepted(person: &Person, object: &Value) -> Vec<String> {
    eventually("it is accepted", || match person.create(object) {
        answer if answer.code < 300 => Ok(answer.warnings),
        answer => Err(answer.refused()),
    })
}
