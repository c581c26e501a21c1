//! What a tenant tries against time: texts of a template that change while its rights are asked for, and objects that come and go
//! where it writes.

use std::{thread, time::Duration};

use serde_json::{Value, json};
use testbed::NAMESPACE;

use crate::authority::grant;
use crate::bed::objects::{config_map, ours, version};
use crate::bed::{Bed, Story, eventually, same};

/// How often the template is edited, every other time to a text that bob may not have.
const EDITS: usize = 50;

/// On a cluster where NetworkPolicies and RoleBindings to `view` are granted, while no webhook runs: whatever bob writes is stored, and the reconciler alone
/// judges it.
pub fn a_tenant_who_is_quick_gets_nothing_more(bed: &Bed) {
    let story = Story::new(bed, "quick");
    let vault = story.target("vault");
    // To override copies is one of these verbs, so no policy is in bob's way at home.
    let rights = json!([
        { "apiGroups": ["copyrator.dev"], "resources": ["*"], "verbs": ["*"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] },
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["*"] },
    ]);
    grant(&story, "bob", rights);
    let (allowed, forbidden) = texts(&story, &vault);
    let write = |spec: &Value| {
        let template = ours("CopyratorTemplate", &story.home, "own", spec.clone());
        eventually("it gets in while there are no hooks", || {
            let answer = bed.bob.apply(&template);
            if answer.code < 300 {
                return Ok(answer.body);
            }
            bed.unhook();
            Err(answer.body.to_string())
        })
    };
    write(&allowed[0]);
    let own = story.until("ConfigMap", &story.home, "own", [("text", "mine")]);
    let mut forged = config_map(&vault, "own", [("text", "theirs")]);
    for field in ["labels", "annotations"] {
        forged["metadata"][field] = own["metadata"][field].clone();
    }
    // As where the policy that refuses such marks is not in force.
    let kept = story.admin().create(&forged).ok();
    forged["metadata"]["namespace"] = story.home.clone().into();

    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..EDITS {
                bed.bob.delete("ConfigMap", &story.home, "own");
                bed.bob.create(&forged);
                bed.bob.delete("ConfigMap", &story.home, "own");
                bed.bob.create(&config_map(&story.home, "own", [("text", "bob's")]));
            }
        });
        // The pauses only vary what meets what; nothing is expected within them.
        for edit in 0..EDITS / 2 {
            for (texts, pause) in [(&allowed[..], 7 * (edit % 10)), (&forbidden[..], 3 * (edit % 20))] {
                write(&texts[edit % texts.len()]);
                thread::sleep(Duration::from_millis(pause as u64));
            }
        }
    });
    // Each of them is judged in peace, too.
    let lacking = ["networkpolicies", "bind clusterroles", &vault, "all namespaces", "metadata.namespace"];
    for (spec, lacking) in forbidden.iter().zip(lacking) {
        let generation = write(spec)["metadata"]["generation"].clone();
        eventually("it is not carried out", || {
            let template = story.admin().get("CopyratorTemplate", &story.home, "own").ok_or("it is gone")?;
            let ready = &template["status"]["conditions"][0];
            let seen = (&template["status"]["observedGeneration"], &ready["type"], &ready["status"]);
            same(seen, (&generation, &json!("Ready"), &json!("False")))?;
            let said = template["status"].to_string();
            if said.contains(lacking) { Ok(()) } else { Err(said) }
        });
    }
    write(&allowed[0]);
    eventually("bob has all that is allowed, once nothing of bob's is in the way", || {
        let there = story.admin().get("ConfigMap", &story.home, "own");
        if there.is_some_and(|own| own["data"]["text"] != "mine") {
            bed.bob.delete("ConfigMap", &story.home, "own");
        }
        let template = story.admin().get("CopyratorTemplate", &story.home, "own").ok_or("it is gone")?;
        let counted = ["observedGeneration", "current"].map(|field| template["status"][field].clone());
        same(counted, [template["metadata"]["generation"].clone(), json!(1)])
    });
    story.until("ConfigMap", &story.home, "own", [("text", "mine")]);
    story.marker("then");

    let there = story.admin().list("ConfigMap", &vault, "");
    let there = there.iter().filter(|object| object["metadata"]["name"] != "kube-root-ca.crt");
    assert_eq!(there.map(version).collect::<Vec<_>>(), [version(&kept)], "it was written where bob may not");
    let account = format!("system:serviceaccount:{NAMESPACE}:");
    let mut touched = bed.requests();
    touched.retain(|it| {
        let is_bobs =
            it.namespace == story.home && !["networkpolicies", "rolebindings"].contains(&&*it.resource);
        // What bob selects is watched, as all would be for a template of somebody else.
        let is_watch = ["list", "watch"].contains(&&*it.verb) && it.resource == "configmaps";
        it.user.starts_with(&account)
            && [&story.home, &vault].contains(&&it.namespace)
            && !is_bobs
            && !is_watch
    });
    assert!(touched.is_empty(), "asked for what bob may not: {touched:#?}");
}

/// What bob may have, under one name and under another, so that there is a time when either place is free; and what bob may not.
fn texts(story: &Story<'_>, vault: &str) -> ([Value; 2], [Value; 5]) {
    let text = |namespaces: Value, object: Value| {
        json!({ "forEach": { "namespaces": [namespaces] }, "objects": [{ "id": "it", "template": object }],
            "deletionGrace": "0s" })
    };
    let named = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "text": "mine" } });
    let here = json!({ "names": [story.home] });
    let policy = json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "name": "own" },
        "spec": { "podSelector": {} } });
    // The operator may bind the role, and bob may write RoleBindings, but not for this role.
    let bound = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "own" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob" }] });
    let mut elsewhere = named("own");
    elsewhere["metadata"]["namespace"] = vault.into();
    let allowed = ["own", "other"].map(|name| text(here.clone(), named(name)));
    let forbidden = [
        text(here.clone(), policy),
        text(here.clone(), bound),
        text(json!({ "names": [story.home, vault] }), named("own")),
        text(json!({ "namespaceSelector": story.selector() }), named("own")),
        text(here, elsewhere),
    ];
    (allowed, forbidden)
}
