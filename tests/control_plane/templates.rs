//! Objects that templates declare for namespaces.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, binding, config_map, data, namespace, ours};
use crate::bed::{Bed, Story, eventually, peaceful, same};

const STARTER_KIT: &str = include_str!("../../examples/starter-kit.yaml");

#[test]
fn a_template_gives_each_namespace_its_config_map_and_takes_it_back() {
    let story = Story::new(peaceful(), "stamped");
    let first = story.target("first");
    let template = of_config_map(
        &story,
        "${namespaceObject.metadata.name} of ${namespaceObject.metadata.labels['story']}",
    );
    story.admin().create(&template).ok();
    let object = story.until("ConfigMap", &first, "team", [("who", "stamped-first of stamped")]);
    assert_eq!(annotation(&object, "copyrator.dev/rule"), Some("stamped-home/template:team"));
    let second = story.target("second");
    story.until("ConfigMap", &second, "team", [("who", "stamped-second of stamped")]);
    // The first namespace alone was ready, too.
    eventually("both objects are in order", || {
        let template = story.admin().get("CopyratorTemplate", &story.home, "team").ok_or("it is gone")?;
        same(
            ["instances", "desired", "current"].map(|field| template["status"][field].clone()),
            [2, 2, 2].map(Value::from),
        )
    });
    story.until_condition("CopyratorTemplate", "team", "Ready", "True", "AllRendered");

    // It is kept, and protected, like a copy.
    story.admin().create(&binding(&first, "bob", "admin")).ok();
    eventually("bob may write in the first namespace", || {
        let answer = story.bed.bob.apply(&config_map(&first, "own", [("a", "b")]));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    let edit = json!({ "data": { "who": "bob" } });
    assert!(story.bed.bob.merge("ConfigMap", &first, "team", &edit).refused().contains("override"));
    story.admin().merge("ConfigMap", &first, "team", &json!({ "data": { "who": "me", "more": "x" } })).ok();
    story.until("ConfigMap", &first, "team", [("who", "stamped-first of stamped")]);

    // Another text, an expression that has no value somewhere, and an object in the way.
    let third = story.called("third");
    let labels = data([("story", "stamped"), ("tier", "gold")]);
    story.admin().create(&namespace(&third, &labels)).ok();
    story.until("ConfigMap", &third, "team", [("who", "stamped-third of stamped")]);
    let spec = of_config_map(&story, "${namespaceObject.metadata.labels['tier']}")["spec"].clone();
    story.admin().merge("CopyratorTemplate", &story.home, "team", &json!({ "spec": spec })).ok();
    story.until("ConfigMap", &third, "team", [("who", "gold")]);
    story.until_condition("CopyratorTemplate", "team", "Degraded", "True", "RenderFailed");
    eventually("both namespaces without the label are named", || {
        let template = story.admin().get("CopyratorTemplate", &story.home, "team").ok_or("it is gone")?;
        let problems = template["status"]["problems"].as_array().cloned().unwrap_or_default();
        let own = |problem: &Value| problem["namespace"].as_str().unwrap_or_default().to_owned();
        let others = |problem: &Value| problem["others"]["names"].as_array().cloned().unwrap_or_default();
        let of_others = problems
            .iter()
            .flat_map(others)
            .filter_map(|name| Some(name.as_str()?.split_once('/')?.0.to_owned()));
        let mut places: Vec<String> = problems.iter().map(own).chain(of_others).collect();
        places.sort_unstable();
        let is_located = problems.iter().all(|problem| problem["message"].to_string().contains("data.who"));
        if is_located {
            same(places, vec![first.clone(), second.clone()])
        } else {
            Err(template["status"].to_string())
        }
    });
    story.until("ConfigMap", &first, "team", [("who", "stamped-first of stamped")]);
    eventually("one object is counted as in order", || {
        let output = story.bed.testbed.copyrator(&["status", "-n", &story.home]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let is_counted = said.contains("CopyratorTemplate") && said.contains("1 of 3 objects");
        if is_counted { Ok(()) } else { Err(format!("{output:?}")) }
    });

    let other = story.bystander("other");
    story.admin().create(&config_map(&other, "team", [("who", "its own")])).ok();
    let label = json!({ "metadata": { "labels": { "story": "stamped", "tier": "silver" } } });
    story.admin().merge("Namespace", "", &other, &label).ok();
    eventually("the object in the way is reported", || {
        let template = story.admin().get("CopyratorTemplate", &story.home, "team").ok_or("it is gone")?;
        let said = template["status"]["problems"].to_string();
        if said.contains("Conflict") { Ok(()) } else { Err(said) }
    });
    story.until("ConfigMap", &other, "team", [("who", "its own")]);

    let gone = json!({ "metadata": { "labels": { "story": null } } });
    story.admin().merge("Namespace", "", &third, &gone).ok();
    story.until_gone("ConfigMap", &third, "team");
    story.admin().delete("CopyratorTemplate", &story.home, "team").ok();
    for place in [&first, &second] {
        story.until_gone("ConfigMap", place, "team");
    }
    story.until("ConfigMap", &other, "team", [("who", "its own")]);
}

/// An author gives nobody more than the author could, and a kind that is not granted is left alone.
#[test]
fn a_template_acts_with_the_rights_of_its_author() {
    let story = Story::new(peaceful(), "stamp-rights");
    let target = story.target("a");
    story.admin().create(&binding(&story.home, "alice", "admin")).ok();
    let template = of_config_map(&story, "x");
    eventually("alice may write templates, and is told what she lacks", || {
        let said = story.bed.alice.try_create(&template).refused();
        if said.contains("create, delete or patch configmaps") { Ok(()) } else { Err(said) }
    });
    let object = json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "name": "deny" },
        "spec": { "podSelector": {} } });
    story.admin().create(&template_of(&story, "closed", json!([{ "id": "deny", "template": object }]))).ok();
    let closed = story.until_condition("CopyratorTemplate", "closed", "Ready", "False", "KindNotGranted");
    assert!(closed["status"].to_string().contains("copies.kinds"), "{closed}");
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } });
    let refused =
        story.admin().create(&template_of(&story, "secret", json!([{ "id": "s", "template": secret }])));
    assert!(refused.refused().contains("spec.objects[s]"));
    story.marker("then");
    assert!(story.admin().get("NetworkPolicy", &target, "deny").is_none());
}

/// What platform teams give each namespace of a team, as the example has it: on a cluster that grants the kinds. And some more, which is
/// stored otherwise than it is written.
pub fn a_starter_kit(bed: &Bed, until_swept: &dyn Fn()) {
    let story = Story::new(bed, "kit");
    let more = json!([
        { "id": "cpu", "template": {
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "cpu" },
            "spec": { "hard": { "requests.cpu": "2000m" } } } },
        { "id": "closed", "template": {
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": { "name": "closed", "annotations": { "example.com/kit": "yes" } },
            "spec": { "podSelector": {}, "policyTypes": ["Ingress"], "ingress": [] } } },
        { "id": "account", "includeWhen": "'ci' in namespaceObject.metadata.labels", "template": {
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "ci" },
            "automountServiceAccountToken": false } },
    ]);
    let mut kit: Value = serde_saphyr::from_str(STARTER_KIT).expect("the example is YAML");
    kit["metadata"]["namespace"] = story.home.as_str().into();
    kit["spec"]["deletionGrace"] = "0s".into();
    let objects = kit["spec"]["objects"].as_array_mut().expect("it has objects");
    objects.extend(more.as_array().cloned().unwrap_or_default());
    story.admin().create(&kit).ok();
    let place = story.called("blue");
    story.admin().create(&namespace(&place, &data([("team", "blue"), ("ci", "")]))).ok();
    let hard = |pods: &'static str| {
        eventually(&format!("the quota of {place} allows {pods} pods"), || {
            let quota = story.admin().get("ResourceQuota", &place, "team").ok_or("it does not exist")?;
            same(quota["spec"]["hard"]["pods"].clone(), json!(pods))
        })
    };
    hard("20");
    let all = [
        ("ResourceQuota", "team"),
        ("ResourceQuota", "cpu"),
        ("LimitRange", "team"),
        ("NetworkPolicy", "default-deny"),
        ("NetworkPolicy", "closed"),
        ("RoleBinding", "team"),
        ("ServiceAccount", "ci"),
    ];
    for (kind, name) in all {
        eventually(&format!("{kind} {name} is there"), || {
            story.admin().get(kind, &place, name).map(drop).ok_or("it does not exist".to_owned())
        });
    }
    story.until("ConfigMap", &place, "contacts", [("chat", "#team-blue")]);
    let bound = story.admin().get("RoleBinding", &place, "team").expect("it was there");
    assert_eq!(
        (&bound["roleRef"]["name"], &bound["subjects"][0]["name"]),
        (&json!("edit"), &json!("team-blue"))
    );
    story.until_condition("CopyratorTemplate", "starter-kit", "Ready", "True", "AllRendered");
    // What is stored differs from the text: 2 for 2000m, no ingress for an empty one. A sweep finds nothing to do all the same.
    until_swept();
    let before = story.bed.our_writes_in(&place);
    until_swept();
    assert_eq!(story.bed.our_writes_in(&place), before, "something was written again");
    // Somebody applies the same beside us.
    let copy = story.admin().get("NetworkPolicy", &place, "closed").expect("it is there");
    let mut same_again = copy.clone();
    same_again["metadata"]["managedFields"] = Value::Null;
    story.admin().apply_as("argocd", &same_again).ok();
    until_swept();
    assert_eq!(story.bed.our_writes_in(&place), before, "something was written that nobody had changed");

    // No generation counts a change of an annotation.
    let annotated = json!({ "metadata": { "annotations": { "example.com/kit": "no" } } });
    story.admin().merge("NetworkPolicy", &place, "closed", &annotated).ok();
    eventually("its annotation is the template's again", || {
        let policy = story.admin().get("NetworkPolicy", &place, "closed").ok_or("it is gone")?;
        same(annotation(&policy, "example.com/kit"), Some("yes"))
    });

    // A field that the template does not name does not open it: an apply alone would leave that field.
    let opened = json!({ "spec": { "ingress": [{}] } });
    story.admin().create(&binding(&place, "bob", "admin")).ok();
    eventually("bob may write policies here, and not this one", || {
        let refusal = bed.bob.merge("NetworkPolicy", &place, "default-deny", &opened).refused();
        if refusal.contains("override") { Ok(()) } else { Err(refusal) }
    });
    for name in ["default-deny", "closed"] {
        story.admin().merge("NetworkPolicy", &place, name, &opened).ok();
        eventually("it is closed again", || {
            let policy = story.admin().get("NetworkPolicy", &place, name).ok_or("it is gone")?;
            same(policy["spec"]["ingress"].clone(), Value::Null)
        });
    }

    let less = json!({ "example.com/pods": "30", "example.com/limits": "off" });
    let less = json!({ "metadata": { "labels": { "ci": null }, "annotations": less } });
    story.admin().merge("Namespace", "", &place, &less).ok();
    hard("30");
    story.until_gone("LimitRange", &place, "team");
    story.until_gone("ServiceAccount", &place, "ci");
    story.admin().delete("CopyratorTemplate", &story.home, "starter-kit").ok();
    for (kind, name) in all {
        story.until_gone(kind, &place, name);
    }
}

/// A template gives a role that its author may bind, and that the chart lets the operator bind.
pub fn roles_are_bound_where_author_and_operator_may(bed: &Bed) {
    let story = Story::new(bed, "bound");
    let place = story.target("place");
    let of = |role: &str| {
        let object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "team" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "carol" }],
        });
        template_of(&story, "team", json!([{ "id": "team", "template": object, "recreate": "OnImmutable" }]))
    };
    story.admin().create(&of("admin")).ok();
    let told = story.until_condition("CopyratorTemplate", "team", "Ready", "False", "Forbidden");
    assert!(told["status"].to_string().contains("copies.bind"), "{told}");
    assert!(story.admin().get("RoleBinding", &place, "team").is_none());

    let spec = of("view")["spec"].clone();
    story.admin().merge("CopyratorTemplate", &story.home, "team", &json!({ "spec": spec })).ok();
    eventually("the role is bound", || {
        let binding = story.admin().get("RoleBinding", &place, "team").ok_or("it does not exist")?;
        same(binding["roleRef"]["name"].clone(), json!("view"))
    });
    story.until_condition("CopyratorTemplate", "team", "Ready", "True", "AllRendered");
    story.admin().create(&binding(&place, "bob", "admin")).ok();
    let more =
        json!({ "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob" }] });
    eventually("bob may write roles in a namespace, but not into this one", || {
        let refusal = bed.bob.merge("RoleBinding", &place, "team", &more).refused();
        if refusal.contains("override") { Ok(()) } else { Err(refusal) }
    });
    story.admin().merge("RoleBinding", &place, "team", &more).ok();
    eventually("nobody else is bound for long", || {
        let binding = story.admin().get("RoleBinding", &place, "team").ok_or("it is gone")?;
        same(binding["subjects"][0]["name"].clone(), json!("carol"))
    });

    // A user who writes a template for one namespace binds no role that this user may not bind.
    story.admin().create(&binding(&story.home, "bob", "admin")).ok();
    let mut own = of("view");
    own["metadata"]["name"] = "own".into();
    own["spec"]["forEach"]["namespaces"] = json!([{ "names": [place] }]);
    eventually("bob is told which right is missing", || {
        let refusal = bed.bob.try_create(&own).refused();
        if refusal.contains("bind clusterroles") { Ok(()) } else { Err(refusal) }
    });
    story.admin().delete("CopyratorTemplate", &story.home, "team").ok();
    story.until_gone("RoleBinding", &place, "team");
}

/// Once the chart does not let the operator bind the role any more, RBAC refuses every change of the binding, of its annotations too,
/// but not its deletion.
pub fn a_binding_whose_role_left_the_list_can_only_go(bed: &Bed, forget_roles: &dyn Fn()) {
    let story = Story::new(bed, "unbound");
    let places = ["excluded", "other"].map(|part| story.target(part));
    let of = |subject: &str| {
        let object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "team" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
            "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": subject }],
        });
        let mut template = template_of(&story, "team", json!([{ "id": "team", "template": object }]));
        // Long enough to be marked for first, where that is possible.
        template["spec"]["deletionGrace"] = "2s".into();
        template
    };
    story.admin().create(&of("carol")).ok();
    story.until_condition("CopyratorTemplate", "team", "Ready", "True", "AllRendered");
    let bound = |place: &String| story.admin().get("RoleBinding", place, "team").expect("the role is bound");
    let before = places.each_ref().map(bound);
    forget_roles();
    eventually("the operator may not bind the role any more", || {
        let mut own = before[0].clone();
        own["metadata"] = json!({ "namespace": places[0], "name": "probe" });
        let answer = bed.reconciler_itself().try_create(&own);
        let is_refused = answer.body.to_string().contains("attempting to grant RBAC permissions");
        if is_refused { Ok(()) } else { Err(answer.body.to_string()) }
    });

    let spec = of("dave")["spec"].clone();
    story.admin().merge("CopyratorTemplate", &story.home, "team", &json!({ "spec": spec })).ok();
    let told = story.until_condition("CopyratorTemplate", "team", "Degraded", "True", "Forbidden");
    eventually("both bindings are told of, and what mends it", || {
        let template = story.admin().get("CopyratorTemplate", &story.home, "team").ok_or("it is gone")?;
        let problems = template["status"]["problems"].as_array().cloned().unwrap_or_default();
        // One cause is one entry: the second binding is among its others.
        let is_about = |problem: &Value, place: &String| {
            let other = json!(format!("{place}/team"));
            let others = problem["others"]["names"].as_array().cloned().unwrap_or_default();
            problem["namespace"] == **place || others.contains(&other)
        };
        let is_told = |place: &String| {
            let here = problems.iter().find(|problem| is_about(problem, place));
            here.is_some_and(|problem| problem["message"].to_string().contains("copies.bind"))
        };
        if places.iter().all(is_told) { Ok(()) } else { Err(template["status"].to_string()) }
    });
    story.marker("told");
    assert_eq!(places.each_ref().map(bound), before, "{told}");

    let excluded = json!({ "metadata": { "labels": { "story": null } } });
    story.admin().merge("Namespace", "", &places[0], &excluded).ok();
    story.until_gone("RoleBinding", &places[0], "team");
    assert_eq!(bound(&places[1]), before[1]);
    story.admin().delete("CopyratorTemplate", &story.home, "team").ok();
    story.until_gone("RoleBinding", &places[1], "team");
}

fn of_config_map(story: &Story<'_>, who: &str) -> Value {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "team" }, "data": { "who": who } });
    template_of(story, "team", json!([{ "id": "team", "template": object }]))
}

fn template_of(story: &Story<'_>, name: &str, objects: Value) -> Value {
    let spec = json!({
        "forEach": { "namespaces": [{ "namespaceSelector": story.selector() }] },
        "objects": objects,
        "deletionGrace": "0s",
    });
    ours("CopyratorTemplate", &story.home, name, spec)
}
