//! Who wrote a rule is stamped on it: by the API server's own policy, or by a hook of ours where that is not in force.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::bed::objects::{annotation, config_map, ours};
use crate::bed::{Bed, Person, Story, eventually, private, same, unstamped};

const MUTATING: &str = "MutatingWebhookConfiguration";
const BINDING: &str = "MutatingAdmissionPolicyBinding";
const AUTHOR: &str = "copyrator.dev/author";
const AUTHOR_GROUPS: &str = "copyrator.dev/author-groups";

/// One row of `tests/cases/author.yaml`.
#[derive(Deserialize)]
struct Case {
    name: String,
    before: Option<Value>,
    after: Value,
    given: Option<Value>,
    author: String,
}

/// Before Kubernetes 1.36.
#[test]
fn where_the_api_server_does_not_stamp_a_hook_does_and_nobody_is_forged() {
    let bed = unstamped("stamped-by-hook");
    everybody_may_edit(&bed);
    let story = Story::new(&bed, "hooked-stamps");
    let target = story.target("a");
    bed.admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let nobody_stamps = "must name the writer";
    eventually("nothing is written while nobody stamps", || {
        let said = bed.alice.try_create(&story.rule("ConfigMap", &["app"])).body.to_string();
        // Right after its creation RBAC may not have heard of the binding.
        if said.contains(nobody_stamps) { Ok(()) } else { Err(said) }
    });

    let crew = bed.man();
    let (_, readiness) = crew.reconciler.ask("/readyz").expect("the reconciler answers");
    assert!(readiness.contains("authors: the hook author.copyrator.dev records the authors"), "{readiness}");
    every_case_is_stamped(&story);
    until_written(&bed.alice, &story.rule("ConfigMap", &["app"]));
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    let rule = story.until_condition("CopyratorRule", "rule", "Authorized", "True", "Allowed");
    assert_eq!(rule["status"]["identity"], "user alice");
    let mut asks = config_map(&story.home, "annotated", [("k", "v")]);
    asks["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": target, AUTHOR: "bob" });
    asks["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    let stamped = bed.alice.create(&asks).ok();
    assert_eq!(annotation(&stamped, AUTHOR), Some("alice"));
    story.until("ConfigMap", &target, "annotated", [("k", "v")]);

    crew.webhook.kill();
    let (mut bobs, labels) =
        (story.rule("ConfigMap", &["app"]), json!({ "metadata": { "labels": { "a": "b" } } }));
    bobs["metadata"]["name"] = "bobs".into();
    let claim = json!({ "metadata": { "annotations": { AUTHOR: "bob" } } });
    let change = json!({ "spec": { "deletionGrace": "1s" } });
    for answer in [
        bed.bob.create(&bobs),
        bed.bob.merge("CopyratorRule", &story.home, "rule", &change),
        bed.bob.merge("CopyratorRule", &story.home, "rule", &claim),
    ] {
        let refusal = answer.refused();
        assert!(refusal.contains("failed calling webhook \"author.copyrator.dev\""), "{refusal}");
    }
    bed.bob.merge("CopyratorRule", &story.home, "rule", &labels).ok();

    // With the hooks away too, an author can only tell the truth.
    crew.reconciler.kill();
    bed.unhook();
    let groups = r#"["people","system:authenticated"]"#;
    let refusal = eventually("the hooks are out of force", || {
        let refusal = bed.bob.create(&bobs).refused();
        if refusal.contains("failed calling") { Err(refusal) } else { Ok(refusal) }
    });
    assert!(refusal.contains(nobody_stamps), "{refusal}");
    bobs["metadata"]["annotations"] = json!({ AUTHOR: "alice", AUTHOR_GROUPS: groups });
    assert!(bed.bob.create(&bobs).refused().contains(nobody_stamps));
    bobs["metadata"]["annotations"] =
        json!({ AUTHOR: "bob", AUTHOR_GROUPS: r#"["people","system:masters"]"# });
    assert!(bed.bob.create(&bobs).refused().contains(nobody_stamps));
    assert!(
        bed.bob.merge("CopyratorRule", &story.home, "rule", &claim).refused().contains("change only with it")
    );
    bobs["metadata"]["annotations"] = json!({ AUTHOR: "bob", AUTHOR_GROUPS: groups });
    until_written(&bed.bob, &bobs);
}

/// From Kubernetes 1.36 on nothing of ours stands between an author and the API server; and a user who takes its
/// policy away is noticed.
#[test]
fn where_the_api_server_stamps_there_is_no_hook_for_it() {
    let bed = private("stamped-by-policy");
    everybody_may_edit(&bed);
    let crew = bed.man();
    let trigger = ours(
        "ConfigPolicy",
        "",
        "trigger",
        json!({
            "match": { "kinds": ["ConfigMap"], "names": ["none"] }, "limits": { "maxBytes": 1 },
        }),
    );
    bed.admin.create(&trigger).ok();
    until_hooked(&bed, false);
    let (_, readiness) = crew.reconciler.ask("/readyz").expect("the reconciler answers");
    assert!(!readiness.contains("authors"), "{readiness}");
    every_case_is_stamped(&Story::new(&bed, "policy-stamps"));

    let binding = bed.admin.get(BINDING, "", "copyrator-author").expect("the chart's binding");
    bed.admin.delete(BINDING, "", "copyrator-author").ok();
    until_hooked(&bed, true);
    every_case_is_stamped(&Story::new(&bed, "taken-over-stamps"));
    let again = json!({
        "apiVersion": binding["apiVersion"], "kind": binding["kind"], "metadata": { "name": "copyrator-author" },
        "spec": binding["spec"],
    });
    bed.admin.create(&again).ok();
    until_hooked(&bed, false);
}

/// Each row of the table that the unit test of the hook's decision goes by, too.
fn every_case_is_stamped(story: &Story<'_>) {
    let text = include_str!("../cases/author.yaml");
    // In the table `first` and `second` are anybody.
    let names = |value: &Value| -> Value {
        let text = value.to_string().replace(":\"first\"", ":\"bob\"").replace(":\"second\"", ":\"alice\"");
        serde_json::from_str(&text).expect("still JSON")
    };
    let cases: Vec<Case> = serde_saphyr::from_str(text).expect("the table is valid");
    for (number, case) in cases.iter().enumerate() {
        let (kind, name) = ("CopyratorRule", format!("case-{number}"));
        let mut object = ours(kind, &story.home, &name, case.after.clone());
        if let Some(given) = &case.given {
            object["metadata"]["annotations"] = names(given);
        }
        let written = match &case.before {
            Some(before) => {
                until_written(&story.bed.bob, &ours(kind, &story.home, &name, before.clone()));
                until_replaced(&story.bed.alice, &mut object)
            }
            None => until_written(&story.bed.alice, &object),
        };
        let author = if case.author == "first" { "bob" } else { "alice" };
        assert_eq!(annotation(&written, AUTHOR), Some(author), "{}", case.name);
        let groups = annotation(&written, AUTHOR_GROUPS);
        assert_eq!(groups, Some(r#"["people","system:authenticated"]"#), "{}", case.name);
    }
}

/// Replaces an object, whose status may be written meanwhile.
fn until_replaced(person: &Person, object: &mut Value) -> Value {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    eventually("it is replaced", || {
        let current = person.get("CopyratorRule", &namespace, &name).ok_or("it is gone")?;
        object["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
        match person.replace(object) {
            conflict if conflict.code == 409 => Err(conflict.refused()),
            answer => Ok(answer.ok()),
        }
    })
}

/// Waits until the hook that stamps authors is there, or is not. Hooks are looked at whenever a policy changes.
fn until_hooked(bed: &Bed, hooked: bool) {
    let mut tries = 1;
    eventually(&format!("author.copyrator.dev is there: {hooked}"), || {
        tries += 1;
        bed.admin.merge(
            "ConfigPolicy",
            "",
            "trigger",
            &json!({ "spec": { "limits": { "maxBytes": tries } } }),
        );
        let hooks = bed.admin.get(MUTATING, "", "copyrator").ok_or("no mutating hooks")?;
        let author = hooks["webhooks"].as_array().into_iter().flatten();
        let author = author.filter(|hook| hook["name"] == "author.copyrator.dev").collect::<Vec<_>>();
        same(
            author.iter().map(|hook| &hook["failurePolicy"]).collect::<Vec<_>>(),
            match hooked {
                true => vec![&hooks["webhooks"][0]["failurePolicy"]],
                false => vec![],
            },
        )?;
        same(author.iter().all(|hook| hook["failurePolicy"] == "Fail"), true)
    });
}

fn everybody_may_edit(bed: &Bed) {
    let grant = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "people" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "people" }],
    });
    bed.admin.create(&grant).ok();
}

/// Creates, once the hooks and RBAC are in force.
fn until_written(person: &Person, object: &Value) -> Value {
    eventually("it is accepted", || match person.create(object) {
        answer if answer.code < 300 => Ok(answer.ok()),
        answer => Err(answer.refused()),
    })
}
