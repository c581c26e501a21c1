//! What a policy refuses comes in by no copy and no template, and a type exempts nobody by itself.

use serde_json::{Value, json};

use crate::bed::objects::{binding, config_map, ours, secret};
use crate::bed::{Story, eventually, peaceful, same};

/// A rule of bob's that copies one object of home into these namespaces.
fn rule(story: &Story<'_>, name: &str, kind: &str, targets: &[&str], copy: Value) -> Value {
    let spec = json!({
        "source": { "kind": kind, "names": [name] }, "targets": [{ "names": targets }], "copy": copy,
        "deletionGrace": "0s",
    });
    ours("CopyratorRule", &story.home, name, spec)
}

/// Waits until a rule or template of the story says that a policy refuses one object of it, and why.
#[track_caller]
fn until_refused(story: &Story<'_>, kind: &str, name: &str) -> String {
    eventually(&format!("{kind} {name} says that a policy refuses its object"), || {
        let rule = story.admin().get(kind, &story.home, name).ok_or("it is gone")?;
        let problem = &rule["status"]["problems"][0];
        let message = problem["message"].as_str().unwrap_or_default();
        if problem["reason"] == "RefusedByPolicy" {
            Ok(message.to_owned())
        } else {
            Err(rule["status"].to_string())
        }
    })
}

#[test]
fn what_a_policy_refuses_comes_in_by_no_copy_and_no_template() {
    let story = Story::new(peaceful(), "guarded");
    let (prod, free, bed) = (story.target("prod"), story.bystander("free"), story.bed);
    for namespace in [&story.home, &prod, &free] {
        story.admin().create(&binding(namespace, "bob", "edit")).ok();
    }
    let spec = json!({
        "match": {}, "data": [{ "name": "address", "keys": ["url"], "format": "url" }],
    });
    let mut policy = story.policy(&["ConfigMap"], spec);
    policy["spec"]["match"]["names"] = json!(["app*"]);
    story.admin().create(&policy).ok();
    eventually("bob is refused what breaks the policy", || {
        let answer = bed.bob.try_create(&config_map(&prod, "app", [("url", "nonsense")]));
        if answer.code == 403 && answer.body.to_string().contains("policy guarded") {
            Ok(())
        } else {
            Err(answer.body.to_string())
        }
    });

    // Another namespace, another name, a renamed key, another kind.
    let bad = [("url", "nonsense")];
    bed.bob.create(&config_map(&story.home, "app", bad)).ok();
    bed.bob.create(&config_map(&story.home, "named", bad)).ok();
    bed.bob.create(&config_map(&story.home, "app-renamed", [("address", "nonsense")])).ok();
    bed.bob.create(&secret(&story.home, "app-secret", bad)).ok();
    let shown = json!({ "kind": "ConfigMap", "keys": { "include": ["url"] } });
    let declared = json!({
        "forEach": { "namespaces": [{ "names": [prod, free] }] },
        "objects": [{ "id": "app", "template": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "app-declared" }, "data": { "url": "nonsense" } } }],
    });
    for rule in [
        ours("CopyratorTemplate", &story.home, "app-declared", declared),
        rule(&story, "app", "ConfigMap", &[&prod, &free], json!({})),
        rule(&story, "named", "ConfigMap", &[&prod], json!({ "name": "app-named" })),
        rule(
            &story,
            "app-renamed",
            "ConfigMap",
            &[&prod],
            json!({ "keys": { "rename": { "address": "url" } } }),
        ),
        rule(&story, "app-secret", "Secret", &[&prod], shown),
    ] {
        eventually("bob declares it", || match bed.bob.create(&rule) {
            answer if answer.code < 300 => Ok(()),
            answer => Err(answer.refused()),
        });
    }
    for (kind, name, copy) in [
        ("CopyratorRule", "app", "app"),
        ("CopyratorRule", "named", "app-named"),
        ("CopyratorRule", "app-renamed", "app-renamed"),
        ("CopyratorRule", "app-secret", "app-secret"),
        ("CopyratorTemplate", "app-declared", "app-declared"),
    ] {
        let message = until_refused(&story, kind, name);
        let object = format!("ConfigMap {prod}/{copy}");
        for part in ["policy guarded", "rule address", "key url", &object, "copies: Exclude"] {
            assert!(message.contains(part), "{part:?} is missing in: {message}");
        }
        assert!(!message.contains("nonsense"), "{message}");
        assert!(story.admin().get("ConfigMap", &prod, copy).is_none(), "{copy} came in");
    }
    story.until_condition("CopyratorTemplate", "app-declared", "Degraded", "True", "RefusedByPolicy");
    // Where the policy says nothing the object is made.
    for name in ["app", "app-declared"] {
        story.until("ConfigMap", &free, name, bad);
    }

    // What is right comes; what then becomes wrong does not, and the old copy stays.
    let set = |url: &str| {
        bed.bob.merge("ConfigMap", &story.home, "app", &json!({ "data": { "url": url } })).ok();
    };
    set("https://example.com");
    story.until("ConfigMap", &prod, "app", [("url", "https://example.com")]);
    set("worse");
    story.until("ConfigMap", &free, "app", [("url", "worse")]);
    until_refused(&story, "CopyratorRule", "app");
    story.until("ConfigMap", &prod, "app", [("url", "https://example.com")]);

    // A policy that leaves copies out is heard at once, and one that takes them in again counts them.
    let copies = |word: &str| {
        let patch = json!({ "spec": { "match": { "copies": word } } });
        story.admin().merge("ConfigPolicy", "", "guarded", &patch).ok();
    };
    copies("Exclude");
    story.until("ConfigMap", &prod, "app", [("url", "worse")]);
    story.until("ConfigMap", &prod, "app-named", bad);
    let count = |wanted: i64| {
        eventually(&format!("{wanted} objects break the policy"), || {
            let policy = story.admin().get("ConfigPolicy", "", "guarded").ok_or("it is gone")?;
            same(policy["status"]["observedGeneration"].as_i64(), policy["metadata"]["generation"].as_i64())?;
            same(policy["status"]["violationCount"].as_i64().unwrap_or_default(), wanted)
        });
    };
    story.until("ConfigMap", &prod, "app-renamed", bad);
    story.until("ConfigMap", &prod, "app-secret", bad);
    story.until("ConfigMap", &prod, "app-declared", bad);
    count(0);
    copies("Include");
    count(5);
    story.admin().delete("ConfigPolicy", "", "guarded").ok();
}

/// Our write leaves on a copy what others put there: a policy finds the copy by their label, and their label is one that it has.
#[test]
fn a_copy_is_judged_with_the_labels_that_others_put_on_it() {
    let story = Story::new(peaceful(), "tiered");
    let (prod, bed) = (story.target("prod"), story.bed);
    for namespace in [&story.home, &prod] {
        story.admin().create(&binding(namespace, "bob", "edit")).ok();
    }
    for name in ["app", "owned"] {
        bed.bob.create(&config_map(&story.home, name, [("url", "https://example.com")])).ok();
        let rule = rule(&story, name, "ConfigMap", &[&prod], json!({}));
        eventually("bob declares it", || match bed.bob.create(&rule) {
            answer if answer.code < 300 => Ok(()),
            answer => Err(answer.refused()),
        });
        story.until("ConfigMap", &prod, name, [("url", "https://example.com")]);
    }
    let label = |name: &str, key: &str| {
        let labels = json!({ "metadata": { "labels": { key: "prod" } } });
        bed.bob.merge("ConfigMap", &prod, name, &labels).ok();
    };
    label("app", "tier");
    label("owned", "owner");
    let spec = json!({
        "match": { "objectSelector": { "matchLabels": { "tier": "prod" } } },
        "data": [{ "name": "address", "keys": ["url"], "format": "url" }],
    });
    story.admin().create(&story.policy(&["ConfigMap"], spec)).ok();
    let spec = json!({ "match": { "names": ["owned", "probe"] }, "labels": { "required": ["owner"] } });
    let mut required = story.policy(&["ConfigMap"], spec);
    required["metadata"]["name"] = json!("tiered-owner");
    story.admin().create(&required).ok();
    eventually("bob is refused what breaks either policy", || {
        let mut probe = config_map(&prod, "probe", [("url", "nonsense")]);
        probe["metadata"]["labels"] = json!({ "tier": "prod" });
        let answer = bed.bob.try_create(&probe);
        let said = answer.body.to_string();
        let is_both = said.contains("policy tiered,") && said.contains("policy tiered-owner,");
        if answer.code == 403 && is_both { Ok(()) } else { Err(said) }
    });

    let set = |name: &str, url: &str| {
        bed.bob.merge("ConfigMap", &story.home, name, &json!({ "data": { "url": url } })).ok();
    };
    set("app", "nonsense");
    let message = until_refused(&story, "CopyratorRule", "app");
    assert!(message.contains("policy tiered, rule address"), "{message}");
    story.until("ConfigMap", &prod, "app", [("url", "https://example.com")]);
    // The rule gives no owner, and the copy has one.
    set("owned", "https://example.org");
    story.until("ConfigMap", &prod, "owned", [("url", "https://example.org")]);
    for policy in ["tiered", "tiered-owner"] {
        story.admin().delete("ConfigPolicy", "", policy).ok();
    }
}

/// A type is its writer's choice, and pods use a Secret of any type.
#[test]
fn a_type_exempts_nobody_by_itself() {
    let story = Story::new(peaceful(), "typed");
    let place = story.target("a");
    story.admin().create(&binding(&place, "bob", "edit")).ok();
    let spec = json!({ "match": {}, "labels": { "required": ["owner"] } });
    story.admin().create(&story.policy(&["Secret"], spec)).ok();
    let typed = |name: &str, kind: &str, keys: &[&str]| {
        let mut object = secret(&place, name, []);
        object["type"] = kind.into();
        object["data"] = keys.iter().map(|key| ((*key).to_owned(), json!("eA=="))).collect();
        if kind.contains("account") {
            object["metadata"]["annotations"] = json!({ "kubernetes.io/service-account.name": "default" });
        }
        object
    };
    let (helm, token) = ("helm.sh/release.v1", "kubernetes.io/service-account-token");
    // Without a name yet it is no release either.
    let mut unnamed = typed("", helm, &["release"]);
    unnamed["metadata"] = json!({ "namespace": place, "generateName": "app-" });
    for object in [
        unnamed,
        typed("app", "Opaque", &["url"]),
        typed("app", helm, &["release"]),
        typed("sh.helm.release.v1.app.v1", helm, &["release", "url"]),
        typed("sh.helm.release.v1.app.v1", "Opaque", &["release"]),
        typed("app", token, &["url"]),
        typed("app", "bootstrap.kubernetes.io/token", &["token-id"]),
    ] {
        eventually(&format!("bob is refused {object}"), || {
            let answer = story.bed.bob.try_create(&object);
            let refused = answer.code == 403 && answer.body.to_string().contains("policy typed");
            if refused { Ok(()) } else { Err(answer.body.to_string()) }
        });
    }
    for object in [typed("sh.helm.release.v1.app.v1", helm, &["release"]), typed("app-token", token, &[])] {
        story.bed.bob.create(&object).ok();
    }
    story.admin().delete("ConfigPolicy", "", "typed").ok();
}

/// A user who may edit ConfigMaps can write into the root CA that each namespace has, and pods may mount it.
#[test]
fn what_a_policy_refuses_is_not_put_into_the_root_ca() {
    let story = Story::new(peaceful(), "rooted");
    let place = story.target("a");
    story.admin().create(&binding(&place, "bob", "edit")).ok();
    let spec = json!({ "match": {}, "limits": { "maxBytes": 20000 } });
    story.admin().create(&story.policy(&["ConfigMap"], spec)).ok();
    let body = json!({ "binaryData": { "x": "eHh4".repeat(10_000) } });
    eventually("the root CA is there", || {
        story.admin().get("ConfigMap", &place, "kube-root-ca.crt").map(drop).ok_or_else(|| "not yet".into())
    });
    // A violation that is there before the policy is in force stands.
    let mut other = config_map(&place, "other", []);
    other["binaryData"] = body["binaryData"].clone();
    eventually("the policy is in force", || match story.bed.bob.try_create(&other) {
        answer if answer.code == 403 => Ok(()),
        answer => Err(answer.body.to_string()),
    });
    let answer = story.bed.bob.merge("ConfigMap", &place, "kube-root-ca.crt", &body);
    let said = answer.body.to_string();
    assert!(answer.code == 403 && said.contains("policy rooted"), "{said}");
    story.admin().delete("ConfigPolicy", "", "rooted").ok();
}
