//! What the API server does not let anybody change is deleted and made again, once the API server accepts the new one.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, config_map, secret, uid};
use crate::bed::{Story, eventually, peaceful, same};

/// An immutable copy does not keep its old content for ever (ClusterSecret#12).
#[test]
fn an_immutable_source_that_was_recreated_with_other_content_replaces_its_copies() {
    let story = Story::new(peaceful(), "immutable");
    let target = story.target("a");
    let mut source = config_map(&story.home, "frozen", [("k", "1")]);
    source["immutable"] = true.into();
    story.admin().create(&source).ok();
    let mut rule = story.rule("ConfigMap", &["frozen"]);
    rule["spec"]["deletionGrace"] = "1h".into();
    story.admin().create(&rule).ok();
    let before = story.until("ConfigMap", &target, "frozen", [("k", "1")]);
    assert_eq!(before["immutable"], true);

    story.admin().delete("ConfigMap", &story.home, "frozen").ok();
    source["data"]["k"] = "2".into();
    story.admin().create(&source).ok();
    let after = story.until("ConfigMap", &target, "frozen", [("k", "2")]);
    assert_ne!(uid(&before), uid(&after));
    eventually("an Event says so", || {
        let events = story.admin().list("Event", "", "");
        let about = |event: &serde_json::Value| {
            event["metadata"]["namespace"] == *story.home || event["metadata"]["namespace"] == *target
        };
        let seen: Vec<_> = events.iter().filter(|event| about(event)).map(|event| &event["reason"]).collect();
        if seen.is_empty() { Err("no Event".into()) } else { Ok(()) }
    });
}

#[test]
fn a_source_made_immutable_makes_its_copies_immutable() {
    let story = Story::new(peaceful(), "freezing");
    let target = story.target("a");
    let mut source = config_map(&story.home, "app", [("k", "1")]);
    story.admin().apply(&source).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("k", "1")]);
    source["immutable"] = true.into();
    story.admin().apply(&source).ok();
    eventually("the copy is immutable too", || {
        let copy = story.admin().get("ConfigMap", &target, "app").ok_or("it is gone")?;
        if copy["immutable"] == true { Ok(()) } else { Err(copy.to_string()) }
    });
}

#[test]
fn a_secret_whose_type_changed_is_made_anew() {
    let story = Story::new(peaceful(), "retyped");
    let target = story.target("a");
    let mut source = secret(&story.home, "login", [("username", "u"), ("password", "p")]);
    story.admin().create(&source).ok();
    let mut rule = story.rule("Secret", &["login"]);
    rule["spec"]["deletionGrace"] = "1h".into();
    story.admin().create(&rule).ok();
    story.until("Secret", &target, "login", [("username", "u"), ("password", "p")]);
    story.admin().delete("Secret", &story.home, "login").ok();
    source["type"] = "kubernetes.io/basic-auth".into();
    story.admin().create(&source).ok();
    eventually("the copy has the new type", || {
        let copy = story.admin().get("Secret", &target, "login").ok_or("it is gone for now")?;
        if copy["type"] == "kubernetes.io/basic-auth" { Ok(()) } else { Err(copy["type"].to_string()) }
    });
    story.until("Secret", &target, "login", [("username", "u"), ("password", "p")]);
}

/// Content is not deleted on hope: while somebody's admission policy refuses the successor, the old object stays, be it a copy or
/// what was there before the rule; it is replaced when the policy goes.
#[test]
fn a_successor_that_is_refused_replaces_nothing() {
    let story = Story::new(peaceful(), "kept-for-now");
    let (target, theirs) = (story.target("a"), story.bystander("b"));
    let frozen = |namespace: &str, value: &str| {
        let mut object = config_map(namespace, "frozen", [("k", value)]);
        object["immutable"] = true.into();
        object
    };
    story.admin().create(&frozen(&story.home, "1")).ok();
    story.admin().create(&patient(&story, "ConfigMap", "frozen")).ok();
    let copy = story.until("ConfigMap", &target, "frozen", [("k", "1")]);
    let policy = no_content(&story, "2");
    story.admin().create(&policy[0]).ok();
    story.admin().create(&policy[1]).ok();
    eventually("the policy is in force", || {
        let tried = config_map(&target, "frozen-too", [("k", "2")]);
        let answer = story.admin().try_create(&tried);
        if answer.code < 300 { Err("it is taken".to_owned()) } else { Ok(()) }
    });

    story.admin().delete("ConfigMap", &story.home, "frozen").ok();
    story.admin().create(&frozen(&story.home, "2")).ok();
    until_not_replaced(&story, "rule");
    assert_eq!(uid(&story.admin().get("ConfigMap", &target, "frozen").expect("it stays")), uid(&copy));

    let foreign = story.admin().create(&frozen(&theirs, "theirs")).ok();
    let mut greedy = story.rule("ConfigMap", &["frozen"]);
    greedy["metadata"]["name"] = "greedy".into();
    greedy["spec"]["conflictPolicy"] = "Overwrite".into();
    greedy["spec"]["targets"] = json!([{ "names": [theirs] }]);
    story.admin().create(&greedy).ok();
    until_not_replaced(&story, "greedy");
    assert_eq!(uid(&story.admin().get("ConfigMap", &theirs, "frozen").expect("it stays")), uid(&foreign));

    story.admin().delete("ValidatingAdmissionPolicyBinding", "", "kept").ok();
    story.until("ConfigMap", &target, "frozen", [("k", "2")]);
    story.until("ConfigMap", &theirs, "frozen", [("k", "2")]);
    // Each deletion has its Event: on the rule, and on what was somebody's.
    until_event(&story, &story.home, "rule", "CopyReplaced");
    until_event(&story, &story.home, "greedy", "CopyReplaced");
    until_event(&story, &theirs, "frozen", "CopyReplaced");
}

/// A quota that is used up refuses the trial of the successor. The place of the old object is enough for it.
#[test]
fn a_full_quota_does_not_keep_an_old_object() {
    let story = Story::new(peaceful(), "crowded");
    let target = story.target("a");
    let mut source = secret(&story.home, "login", [("username", "u"), ("password", "p")]);
    story.admin().create(&source).ok();
    story.admin().create(&patient(&story, "Secret", "login")).ok();
    let before = story.until("Secret", &target, "login", [("username", "u"), ("password", "p")]);
    fill(&story, &target, "full", "count/secrets", "1");
    eventually("the quota refuses", || {
        let refused = story.admin().try_create(&secret(&target, "more", [("k", "v")]));
        if refused.code < 300 { Err("there is room".to_owned()) } else { Ok(()) }
    });
    story.admin().delete("Secret", &story.home, "login").ok();
    source["type"] = "kubernetes.io/basic-auth".into();
    story.admin().create(&source).ok();
    eventually("the copy has the new type", || {
        let copy = story.admin().get("Secret", &target, "login").ok_or("it is gone for now")?;
        same(copy["type"].clone(), json!("kubernetes.io/basic-auth"))?;
        if uid(&copy) == uid(&before) { Err("it is the same".to_owned()) } else { Ok(()) }
    });
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
}

/// The API server names one of the quotas that are exceeded. Each of them must have room for the successor once the old object is gone.
#[test]
fn a_second_quota_without_room_keeps_the_old_object() {
    let story = Story::new(peaceful(), "twice-crowded");
    let target = story.target("a");
    let mut source = secret(&story.home, "login", [("username", "u"), ("password", "p")]);
    story.admin().create(&source).ok();
    story.admin().create(&patient(&story, "Secret", "login")).ok();
    let before = story.until("Secret", &target, "login", [("username", "u"), ("password", "p")]);
    for (name, most, resource) in [("full", "1", "count/secrets"), ("less", "0", "secrets")] {
        fill(&story, &target, name, resource, most);
    }
    story.admin().delete("Secret", &story.home, "login").ok();
    eventually("the copy is about to go, since its source is gone", || {
        let copy = story.admin().get("Secret", &target, "login").ok_or("it is gone")?;
        annotation(&copy, "copyrator.dev/remove-after").map(drop).ok_or_else(|| copy.to_string())
    });
    source["type"] = "kubernetes.io/basic-auth".into();
    story.admin().create(&source).ok();
    eventually("the copy is not replaced, and is not about to go any more", || {
        let rule = story.admin().get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        let said = rule["status"]["problems"].to_string();
        if !said.contains("not replaced")
            || !said.contains("ResourceQuota less has no room for the new object (secrets)")
        {
            return Err(rule["status"].to_string());
        }
        let copy = story.admin().get("Secret", &target, "login").ok_or("it is gone")?;
        assert_eq!((uid(&copy), &copy["type"]), (uid(&before), &json!("Opaque")));
        same(annotation(&copy, "copyrator.dev/remove-after"), None)
    });
    // Once there is room in both, the copy is replaced.
    story.admin().delete("ResourceQuota", &target, "less").ok();
    eventually("the copy has the new type", || {
        let copy = story.admin().get("Secret", &target, "login").ok_or("it is gone for now")?;
        same(copy["type"].clone(), json!("kubernetes.io/basic-auth"))
    });
}

/// A rule that gives its copies another name needs room for the new ones, which the old ones may hold.
#[test]
fn a_renamed_copy_goes_first_only_where_its_room_suffices() {
    let story = Story::new(peaceful(), "renamed-crowded");
    let target = story.target("a");
    story.admin().create(&secret(&story.home, "login", [("k", "1")])).ok();
    let mut rule = story.rule("Secret", &["login"]);
    rule["spec"]["deletionGrace"] = "0s".into();
    story.admin().create(&rule).ok();
    story.until("Secret", &target, "login", [("k", "1")]);
    fill(&story, &target, "full", "count/secrets", "1");
    let rename = |name: &str| {
        let renamed = json!({ "spec": { "copy": { "name": name } } });
        story.admin().merge("CopyratorRule", &story.home, "rule", &renamed).ok();
    };
    rename("second");
    story.until("Secret", &target, "second", [("k", "1")]);
    story.until_gone("Secret", &target, "login");

    let none = json!({ "spec": { "hard": { "count/secrets": "0" } } });
    story.admin().merge("ResourceQuota", &target, "full", &none).ok();
    eventually("the quota counts so", || {
        let quota = story.admin().get("ResourceQuota", &target, "full").ok_or("it is gone")?;
        same(quota["status"]["hard"]["count/secrets"].clone(), json!("0"))
    });
    let kept = story.admin().get("Secret", &target, "second").expect("it is there");
    rename("third");
    eventually("the rule says that the room does not suffice", || {
        let rule = story.admin().get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        let problems = rule["status"]["problems"].to_string();
        let says = ["even after deletion of the old object", "because its replacement"];
        if says.iter().all(|words| problems.contains(words)) {
            Ok(())
        } else {
            Err(rule["status"].to_string())
        }
    });
    assert_eq!(uid(&story.admin().get("Secret", &target, "second").expect("it stays")), uid(&kept));
    assert!(story.admin().get("Secret", &target, "third").is_none());
}

/// A rule that gives its copies another name makes new objects beside the old ones. Where these are refused, the old ones are all there is.
#[test]
fn a_renamed_copy_stays_until_the_new_one_is_there() {
    let story = Story::new(peaceful(), "renamed-copy");
    let target = story.target("a");
    let policy = no_content(&story, "2");
    story.admin().create(&config_map(&story.home, "app", [("k", "1")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["deletionGrace"] = "0s".into();
    story.admin().create(&rule).ok();
    let before = story.until("ConfigMap", &target, "app", [("k", "1")]);
    let mut binding = policy[1].clone();
    let mut refusing = policy[0].clone();
    for object in [&mut refusing, &mut binding] {
        object["metadata"]["name"] = "renamed".into();
    }
    binding["spec"]["policyName"] = "renamed".into();
    refusing["spec"]["validations"][0]["expression"] =
        format!("namespaceObject.metadata.name != '{target}' || object.metadata.name != 'new'").into();
    story.admin().create(&refusing).ok();
    story.admin().create(&binding).ok();
    eventually("the policy is in force", || {
        let answer = story.admin().try_create(&config_map(&target, "new", [("k", "1")]));
        if answer.code < 300 { Err("it is taken".to_owned()) } else { Ok(()) }
    });
    let renamed = json!({ "spec": { "copy": { "name": "new" } } });
    story.admin().merge("CopyratorRule", &story.home, "rule", &renamed).ok();
    eventually("the rule says that the old copy is kept", || {
        let rule = story.admin().get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        let kept = "because its replacement";
        if rule["status"]["problems"].to_string().contains(kept) {
            Ok(())
        } else {
            Err(rule["status"].to_string())
        }
    });
    assert_eq!(uid(&story.admin().get("ConfigMap", &target, "app").expect("it stays")), uid(&before));
    story.admin().delete("ValidatingAdmissionPolicyBinding", "", "renamed").ok();
    story.until("ConfigMap", &target, "new", [("k", "1")]);
    story.until_gone("ConfigMap", &target, "app");
}

/// A quota that the one object there has used up.
fn fill(story: &Story<'_>, namespace: &str, name: &str, resource: &str, most: &str) {
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "namespace": namespace, "name": name },
        "spec": { "hard": { resource: most } } });
    story.admin().create(&quota).ok();
    eventually("the quota is used up", || {
        let quota = story.admin().get("ResourceQuota", namespace, name).ok_or("it is gone")?;
        same(quota["status"]["used"][resource].clone(), json!("1"))
    });
}

/// A rule that does not delete its copies while their source is made anew.
fn patient(story: &Story<'_>, kind: &str, name: &str) -> Value {
    let mut rule = story.rule(kind, &[name]);
    rule["spec"]["deletionGrace"] = "1h".into();
    rule
}

/// Somebody's policy against creations of ConfigMaps that hold this value, and its binding.
fn no_content(story: &Story<'_>, value: &str) -> [Value; 2] {
    let of = |kind: &str, spec: Value| json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": "kept" }, "spec": spec });
    let places =
        format!("namespaceObject.metadata.name in ['{}', '{}']", story.called("a"), story.called("b"));
    let policy = json!({
        "matchConstraints": { "resourceRules": [
            { "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] },
        ] },
        "validations": [{
            "expression": format!("!({places}) || object.data.?k.orValue('') != '{value}'"),
            "message": "this content is not wanted",
        }],
    });
    let binding = json!({ "policyName": "kept", "validationActions": ["Deny"] });
    [of("ValidatingAdmissionPolicy", policy), of("ValidatingAdmissionPolicyBinding", binding)]
}

/// Waits until a rule says that an object keeps its old content, and why.
#[track_caller]
fn until_not_replaced(story: &Story<'_>, rule: &str) {
    eventually(&format!("{rule} says that the object is not replaced"), || {
        let rule = story.admin().get("CopyratorRule", &story.home, rule).ok_or("it is gone")?;
        let said = rule["status"]["problems"].to_string();
        let is_said = ["not replaced, so the object keeps its old content", "this content is not wanted"];
        if is_said.iter().all(|part| said.contains(part)) { Ok(()) } else { Err(rule["status"].to_string()) }
    });
}

/// Waits for an Event with this reason in a namespace, about an object of this name.
#[track_caller]
fn until_event(story: &Story<'_>, namespace: &str, about: &str, reason: &str) {
    eventually(&format!("{reason} is said of {about} in {namespace}"), || {
        let events = story.admin().list("Event", namespace, "");
        let is_it = |event: &&Value| event["reason"] == reason && event["regarding"]["name"] == about;
        events.iter().find(is_it).map(|_| ()).ok_or_else(|| json!(events).to_string())
    });
}
