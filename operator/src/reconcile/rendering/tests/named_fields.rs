//! Kinds of which only the fields that a template names are kept: who else writes into their objects, and what that comes to.

use super::*;

/// As the API server tells of the object: with a generation, and managedFields in which our apply owns something.
fn stored(intent: &Intent, version: &str, generation: i64) -> Slim<Deployment> {
    stored_with(intent, (version, generation), &[])
}

/// The same with managedFields of others.
fn stored_with(intent: &Intent, (version, generation): (&str, i64), others: &[Value]) -> Slim<Deployment> {
    let ours =
        json!({"manager": COPY_MANAGER, "operation": "Apply", "fieldsV1": {"f:metadata": {}, "f:spec": {}}});
    let entries = [&[ours][..], others].concat();
    let object = json!({"metadata": {
        "namespace": "shop", "name": "web", "uid": "web", "resourceVersion": version, "generation": generation,
        "creationTimestamp": "1970-01-01T00:00:00Z", "labels": intent.labels, "annotations": intent.annotations,
        "managedFields": entries,
    }});
    serde_json::from_value(object).unwrap()
}

/// What is stored differs from what was written, so contents are not compared. A change that we did not make is examined.
#[test]
fn of_a_deployment_a_change_by_others_is_examined_before_anything_is_written() {
    let mut world = world();
    world.settings_mut().copy_kinds.insert(Kind::Deployment);
    let web = |image: &str| {
        let spec =
            json!({"replicas": 2, "template": {"spec": {"containers": [{"name": "a", "image": image}]}}});
        json!([{"id": "web", "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}}])
    };
    template(&mut world, ("kit", 1, 1), web("a:1"));
    render_all(&mut world);
    let key = slot(Kind::Deployment, "web");
    let written = |world: &World| match plans(world).remove(&key).unwrap().action {
        Some(CopyAction::Write(write)) => write.intent,
        other => panic!("{other:?}"),
    };
    let plan = |world: &World| {
        let plan = plans(world).remove(&key).unwrap();
        (plan.action.is_some(), plan.needs)
    };
    let edition = |world: &World| world.object(&key).unwrap().edition().to_owned();
    let (nothing, examine) = ((false, vec![]), (false, vec![Need::Drift(key.clone())]));
    let intent = written(&world);
    stored(&intent, "10", 1).put(&mut world, at(1));
    assert_eq!(plan(&world), nothing);
    stored(&intent, "11", 1).put(&mut world, at(2));
    assert_eq!(plan(&world), nothing, "only its status has changed");
    let earlier = edition(&world);

    stored(&intent, "12", 2).put(&mut world, at(3));
    assert_eq!(plan(&world), examine);
    world.note_drift(&key, &earlier, false);
    assert_eq!(plan(&world), examine, "that was an earlier edition");
    let seen = edition(&world);
    world.note_drift(&key, &seen, false);
    assert_eq!(plan(&world), nothing, "somebody wrote a field that is theirs");
    stored(&intent, "13", 2).put(&mut world, at(4));
    assert_eq!(plan(&world), nothing);

    stored(&intent, "14", 3).put(&mut world, at(5));
    let seen = edition(&world);
    world.note_drift(&key, &seen, true);
    assert_eq!(written(&world), intent);
    assert!(as_declared(&world, &key, at(100)).is_some_and(|write| write.intent == intent));
    stored(&intent, "15", 4).put(&mut world, at(6));
    assert_eq!(plan(&world), examine, "our own write of the same content is examined, too");
    let seen = edition(&world);
    world.note_drift(&key, &seen, false);

    template(&mut world, ("kit", 1, 2), web("a:2"));
    render_all(&mut world);
    let next = written(&world);
    assert_ne!(next.marks.digest, intent.marks.digest);
    stored(&next, "16", 5).put(&mut world, at(7));
    assert_eq!(plan(&world), nothing, "another digest: we wrote it");
    assert_eq!(world.doubt_declared(), std::slice::from_ref(&key));
    assert_eq!(plan(&world), examine, "the sweep has everything examined");
}

/// Others write into such objects: one that is there already is never taken over.
#[test]
fn a_deployment_is_taken_over_from_nobody() {
    let mut world = world();
    let spec = json!({"forEach": {"namespaces": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]},
        "conflictPolicy": "Overwrite",
        "objects": [{"id": "web", "template": {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}}]});
    let object = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate", "spec": spec,
        "metadata": {"name": "kit", "namespace": "platform", "uid": "kit", "generation": 1, "creationTimestamp": at(1)}});
    serde_json::from_value::<AsWritten<CopyratorTemplate>>(object).unwrap().put(&mut world, at(0));
    let facts = &world.templates()[&Declarer::template("platform", "kit")];
    let problems = facts.compiled.as_ref().unwrap_err();
    assert!(
        problems
            .iter()
            .any(|it| it.message.contains("spec.conflictPolicy") && it.message.contains("Service")),
        "{problems:?}"
    );
}

/// Another writer undoes each write of the reconciler, and these field managers are on the object then. Returns what the status says in the end.
fn told(others: &[Value]) -> String {
    let mut world = world();
    world.settings_mut().copy_kinds.insert(Kind::Deployment);
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2}});
    let kit = template(&mut world, ("kit", 1, 1), json!([{"id": "web", "template": web}]));
    render_all(&mut world);
    let key = slot(Kind::Deployment, "web");
    for generation in 1..20 {
        let plan = plan_slot(&world, &key, at(100));
        let Some(action) = &plan.action else {
            let SlotState::Blocked(problem) = plan.state else { panic!("{plan:?}") };
            let status = template_report(&world, &kit, at(100)).unwrap().status;
            assert_eq!(
                (&*status.problems[0].reason, &status.problems[0].message),
                ("Contested", &problem.message)
            );
            return problem.message;
        };
        let CopyAction::Write(write) = action else { panic!("{action:?}") };
        settle_slot(&mut world, &key, action, Acted::Done(None), at(100));
        stored_with(&write.intent, (&generation.to_string(), generation), others).put(&mut world, at(100));
        let edition = world.object(&key).unwrap().edition().to_owned();
        world.note_drift(&key, &edition, true);
    }
    panic!("it is written for ever")
}

#[test]
fn who_keeps_changing_an_object_is_named() {
    let by =
        |manager: &str, fields: Value| json!({"manager": manager, "operation": "Update", "fieldsV1": fields});
    let replicas = || json!({"f:spec": {"f:replicas": {}}});
    let status = by("kube-controller-manager", json!({"f:status": {"f:replicas": {}}}));
    for (others, said) in [
        (vec![status.clone()], "another writer changes"),
        (vec![status.clone(), by("kubectl-edit", replicas())], "another writer (kubectl-edit) changes"),
        (
            vec![by("their-operator", replicas()), status, by("kubectl-edit", replicas())],
            "one of its other writers (kubectl-edit, their-operator) changes",
        ),
    ] {
        let told = told(&others);
        assert!(told.starts_with(said), "{said}: {told}");
    }
}
