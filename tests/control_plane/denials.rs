//! Every right that a rule can lack: what is refused, that the refusal says how to get it, and that it tells nothing of
//! what exists. Writers are ServiceAccounts of the story's home, so that what they are granted is nobody else's.

use std::process::Command;

use serde_json::{Value, json};

use crate::bed::objects::{config_map, ours};
use crate::bed::{Person, Story, eventually, peaceful};

const RBAC: &str = "rbac.authorization.k8s.io";

/// What a writer holds, writes and lacks.
struct Case {
    name: &'static str,
    /// Namespace (`*`: all), verbs, object names.
    holds: Vec<(&'static str, &'static str, &'static [&'static str])>,
    source: Value,
    targets: Value,
    /// What the refusal says that the writer may not do; empty where there is none.
    lacks: &'static [&'static str],
}

const ALL: &[&str] = &[];

fn cases() -> Vec<Case> {
    let source = || json!({ "kind": "ConfigMap", "names": ["app"] });
    let from = |namespace: &str| json!({ "kind": "ConfigMap", "names": ["app"], "namespaces": [namespace] });
    let globs = || json!({ "kind": "ConfigMap", "names": ["app*"] });
    let both = || json!([{ "names": ["denials-x", "denials-y"] }]);
    let selected = || json!([{ "namespaceSelector": { "matchLabels": { "story": "denials" } } }]);
    const WRITE: &str = "create,delete,patch";
    vec![
        Case {
            name: "enough",
            holds: vec![
                ("denials-home", "get", &["app"]),
                ("denials-x", WRITE, ALL),
                ("denials-y", WRITE, ALL),
            ],
            source: source(),
            targets: both(),
            lacks: &[],
        },
        Case {
            name: "unread",
            holds: vec![("denials-x", WRITE, ALL), ("denials-y", WRITE, ALL)],
            source: source(),
            targets: both(),
            lacks: &["may not get configmaps \"app\" in namespace \"denials-home\""],
        },
        Case {
            name: "far",
            holds: vec![("denials-home", "get", ALL), ("denials-x", WRITE, ALL), ("denials-y", WRITE, ALL)],
            source: from("denials-vault"),
            targets: both(),
            lacks: &["may not get configmaps \"app\" in namespace \"denials-vault\""],
        },
        Case {
            name: "some",
            holds: vec![("denials-home", "get", &["app"]), ("denials-x", WRITE, ALL)],
            source: source(),
            targets: both(),
            lacks: &["may not create, delete or patch configmaps in namespace \"denials-y\""],
        },
        Case {
            name: "creates",
            holds: vec![
                ("denials-home", "get", ALL),
                ("denials-x", "create", ALL),
                ("denials-y", "create,patch", ALL),
            ],
            source: source(),
            targets: both(),
            lacks: &[
                "delete or patch configmaps in namespace \"denials-x\"",
                "delete configmaps in namespace \"denials-y\"",
            ],
        },
        Case {
            name: "named",
            holds: vec![
                ("denials-home", "get", &["app"]),
                ("denials-x", WRITE, ALL),
                ("denials-y", WRITE, ALL),
            ],
            source: globs(),
            targets: both(),
            lacks: &["may not get or list configmaps in namespace \"denials-home\""],
        },
        // Every namespace that matches now is not every one that will.
        Case {
            name: "selects",
            holds: vec![("denials-home", "get", ALL), ("denials-x", WRITE, ALL), ("denials-y", WRITE, ALL)],
            source: source(),
            targets: selected(),
            lacks: &["may not create, delete or patch configmaps in all namespaces"],
        },
        Case {
            name: "nothing",
            holds: vec![],
            source: from("denials-vault"),
            targets: both(),
            lacks: &[
                "may not create, delete or patch configmaps in namespaces \"denials-x\", \"denials-y\"",
                "nor get configmaps \"app\" in namespace \"denials-vault\"",
            ],
        },
    ]
}

#[test]
fn every_right_that_is_lacking_is_told_at_once_and_what_is_told_suffices() {
    let story = Story::new(peaceful(), "denials");
    let vault = story.bystander("vault");
    for part in ["x", "y"] {
        story.target(part);
    }
    for namespace in [&story.home, &vault] {
        story.admin().create(&config_map(namespace, "app", [("from", namespace)])).ok();
    }
    let cases = cases();
    let writers: Vec<Person> = cases.iter().map(|case| writer(&story, case)).collect();
    for (case, writer) in cases.iter().zip(&writers) {
        let spec = json!({ "source": case.source, "targets": case.targets, "copy": { "name": case.name } });
        let rule = ours("CopyratorRule", &story.home, case.name, spec);
        let refusal = match case.lacks {
            [] => {
                until_accepted(writer, &rule);
                continue;
            }
            _ => until_refused(writer, &rule, case.lacks),
        };
        assert!(refusal.contains(&format!("system:serviceaccount:denials-home:{}", case.name)), "{refusal}");
        assert!(story.admin().get("ConfigMap", "denials-x", case.name).is_none(), "{}", case.name);
        do_as_told(&story, &refusal);
        until_accepted(writer, &rule);
        for target in ["denials-x", "denials-y"] {
            eventually(&format!("{} is copied to {target}", case.name), || {
                story.admin().get("ConfigMap", target, case.name).ok_or_else(|| "it is not there".to_owned())
            });
        }
    }
}

#[test]
fn an_account_is_named_by_whom_may_impersonate_it_and_its_status_tells_what_it_lacks() {
    let story = Story::new(peaceful(), "acting-as");
    let target = story.target("a");
    let none = Case { name: "writer", holds: vec![], source: json!(null), targets: json!(null), lacks: &[] };
    let writer = writer(&story, &none);
    story.admin().create(&account(&story.home, "copier")).ok();
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["serviceAccountName"] = "copier".into();
    let lacks = "may not impersonate serviceaccounts \"copier\" in namespace \"acting-as-home\"";
    let refusal = until_refused(&writer, &rule, &[lacks]);
    do_as_told(&story, &refusal);
    until_accepted(&writer, &rule);
    // It was let in for its writer, and does nothing for its account.
    let inert = story.until_condition("CopyratorRule", "rule", "Authorized", "False", "Forbidden");
    let message = message(&inert, "Authorized");
    assert!(message.contains("nor get configmaps \"app\" in namespace \"acting-as-home\""), "{message}");
    story.marker("then");
    assert!(story.admin().get("ConfigMap", &target, "app").is_none());
    do_as_told(&story, &message);
    story.until("ConfigMap", &target, "app", [("k", "v")]);
}

/// Each way of restarting is a right of its own.
#[test]
fn a_monitor_needs_the_right_to_what_its_strategy_does() {
    let story = Story::new(peaceful(), "restarters");
    for (name, spec, lacks) in [
        (
            "rolls",
            json!({}),
            "may not patch daemonsets.apps, deployments.apps or statefulsets.apps in namespace",
        ),
        (
            "rolls-one",
            json!({ "workloads": { "names": [{ "kind": "Deployment", "name": "web" }] } }),
            "may not patch deployments.apps \"web\" in namespace",
        ),
        ("evicts", json!({ "strategy": { "type": "Evict" } }), "may not create pods/eviction in namespace"),
        ("deletes", json!({ "strategy": { "type": "Delete" } }), "may not delete pods in namespace"),
    ] {
        let case = Case { name, holds: vec![], source: json!(null), targets: json!(null), lacks: &[] };
        let writer = writer(&story, &case);
        let mut monitor = ours("ConfigMonitor", &story.home, name, spec);
        monitor["spec"]["watch"] = json!([{ "kind": "ConfigMap", "names": ["app"] }]);
        let refusal = until_refused(&writer, &monitor, &[lacks, "\"restarters-home\""]);
        do_as_told(&story, &refusal);
        until_accepted(&writer, &monitor);
        story.until_condition("ConfigMonitor", name, "Authorized", "True", "Allowed");
    }
}

/// RBAC knows groups, and what is asked about a user must name that user's.
#[test]
fn what_a_group_may_its_members_may() {
    let story = Story::new(peaceful(), "by-group");
    let target = story.target("a");
    for namespace in [&story.home, &target] {
        let bound = json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
            "metadata": { "namespace": namespace, "name": "people" },
            "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": "edit" },
            "subjects": [{ "apiGroup": RBAC, "kind": "Group", "name": "people" }],
        });
        story.admin().create(&bound).ok();
    }
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["targets"] = json!([{ "names": [target] }]);
    until_accepted(&story.bed.alice, &rule);
    // The reconciler asks by the stamp, groups with it.
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Authorized", "True", "Allowed");
}

/// A user who may not see an object learns nothing of it by a rule: in what is refused, in what is inert, in a dry run.
#[test]
fn a_refusal_is_the_same_whether_or_not_what_it_is_about_exists() {
    let story = Story::new(peaceful(), "oracle");
    let vault = story.bystander("vault-is");
    let none = Case { name: "spy", holds: vec![], source: json!(null), targets: json!(null), lacks: &[] };
    let spy = writer(&story, &none);
    story.admin().create(&config_map(&vault, "is", [("k", "v")])).ok();
    story.admin().create(&account(&story.home, "is")).ok();
    let told = |source: &str, namespace: &str, target: &str, account: Option<&str>| {
        let mut spec = json!({
            "source": { "kind": "ConfigMap", "names": [source], "namespaces": [namespace] },
            "targets": [{ "names": [target] }],
        });
        if let Some(account) = account {
            spec["serviceAccountName"] = account.into();
        }
        let rule = ours("CopyratorRule", &story.home, "spied", spec);
        let refusal = until_refused(&spy, &rule, &["may not"]);
        assert_eq!(neutral(&spy.try_create(&rule).refused()), neutral(&refusal));
        neutral(&refusal)
    };
    let there = told("is", "oracle-vault-is", "oracle-vault-is", None);
    assert_eq!(
        told("no", "oracle-vault-is", "oracle-vault-is", None),
        there.replace("\"is\"", "\"no\"").replace("=is ", "=no ")
    );
    let elsewhere = told("is", "oracle-vault-no", "oracle-vault-no", None);
    assert_eq!(elsewhere, there.replace("oracle-vault-is", "oracle-vault-no"));
    let accounts = ["is", "no"].map(|name| told("is", "oracle-vault-is", "oracle-vault-is", Some(name)));
    assert_eq!(
        accounts[1],
        accounts[0].replace("\"is\"", "\"no\"").replace("=is ", "=no ").replace("/is:", "/no:")
    );

    // A user who may impersonate accounts by any name is told no more of those.
    story
        .admin()
        .create(&role(
            &story.home,
            "impersonates",
            json!([
                { "apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"] },
            ]),
        ))
        .ok();
    story.admin().create(&bound(&story.home, "impersonates", &story.home, "spy")).ok();
    let messages = ["is", "no"].map(|name| {
        let spec = json!({
            "source": { "kind": "ConfigMap", "names": ["is"] }, "targets": [{ "names": [vault] }], "serviceAccountName": name,
        });
        until_accepted(&spy, &ours("CopyratorRule", &story.home, name, spec));
        message(&story.until_condition("CopyratorRule", name, "Authorized", "False", "Forbidden"), "Authorized")
    });
    let [is, no] = messages.map(|message| neutral(&message));
    assert_eq!(no, is.replace("oracle-home:is", "oracle-home:no"));

    // Nor does a rule that may do nothing count or name what it would come upon.
    let inert = |name: &str, source: &str, target: &str| {
        let spec = json!({
            "source": { "kind": "ConfigMap", "names": [source], "namespaces": ["oracle-vault-is"] },
            "targets": [{ "names": [target] }], "serviceAccountName": "is",
        });
        until_accepted(&spy, &ours("CopyratorRule", &story.home, name, spec));
        let rule = story.until_condition("CopyratorRule", name, "Authorized", "False", "Forbidden");
        ["sources", "desired", "current", "problemCount", "problems"]
            .map(|field| rule["status"][field].to_string())
    };
    let other = story.bystander("other");
    assert_eq!(inert("counts", "is", &other), inert("counts-none", "no", "oracle-nowhere"));
}

/// Without the ends of the names of roles, which are digests of what they grant, and stems, which name the rule.
fn neutral(text: &str) -> String {
    let mut parts = text.split("copyrator-");
    let mut neutral = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(' ').unwrap_or(part.len());
        neutral.push_str("ROLE");
        neutral.push_str(&part[end..]);
    }
    neutral
}

/// A ServiceAccount of the story's home, named after the case, that may write rules there and what it holds besides.
fn writer(story: &Story<'_>, case: &Case) -> Person {
    story.admin().create(&account(&story.home, case.name)).ok();
    let rules = json!([{ "apiGroups": ["copyrator.dev"], "resources": ["copyratorrules", "configmonitors"], "verbs": ["*"] }]);
    let mut roles = vec![(story.home.clone(), format!("{}-writes", case.name), rules)];
    for (number, (namespace, verbs, names)) in case.holds.iter().enumerate() {
        let verbs: Vec<_> = verbs.split(',').collect();
        let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": names, "verbs": verbs }]);
        roles.push(((*namespace).to_owned(), format!("{}-{number}", case.name), rules));
    }
    for (namespace, name, rules) in roles {
        story.admin().create(&role(&namespace, &name, rules)).ok();
        story.admin().create(&bound(&namespace, &name, &story.home, case.name)).ok();
    }
    story.bed.account(&story.home, case.name)
}

fn account(namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": namespace, "name": name } })
}

fn role(namespace: &str, name: &str, rules: Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role",
        "metadata": { "namespace": namespace, "name": name }, "rules": rules,
    })
}

fn bound(namespace: &str, role: &str, home: &str, account: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": { "namespace": namespace, "name": role },
        "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "namespace": home, "name": account }],
    })
}

/// What the refusal says, once RBAC has heard of whatever the writer holds: it says then just what the writer lacks.
fn until_refused(writer: &Person, object: &Value, lacks: &[&str]) -> String {
    eventually("it is refused for what is lacking", || {
        let answer = writer.create(object);
        let refusal = if answer.code < 300 { return Err("accepted".into()) } else { answer.refused() };
        let is_whole = refusal.contains("to allow it: ") && lacks.iter().all(|lack| refusal.contains(lack));
        if is_whole { Ok(refusal) } else { Err(refusal) }
    })
}

fn until_accepted(person: &Person, object: &Value) {
    eventually("it is accepted", || match person.create(object) {
        answer if answer.code < 300 => Ok(()),
        answer => Err(answer.refused()),
    });
}

/// Pastes into a shell what a refusal says, as an administrator would.
fn do_as_told(story: &Story<'_>, refusal: &str) {
    let (_, commands) = refusal.split_once("to allow it: ").expect("a refusal tells the way out");
    let cluster = story.bed.testbed.cluster();
    let kubectl = cluster.kubectl();
    let mut shell = Command::new("sh");
    shell.arg("-euc").arg(format!("kubectl() {{ \"$KUBECTL\" \"$@\"; }}\n{commands}"));
    shell.env("KUBECTL", kubectl.get_program());
    for (name, value) in kubectl.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    shell.env("KUBECONFIG", cluster.admin_kubeconfig());
    let output = shell.output().expect("a shell runs");
    assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
}

fn message(object: &Value, condition: &str) -> String {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    let found =
        all.filter(|one| one["type"] == condition).map(|one| one["message"].as_str().unwrap_or_default());
    found.collect()
}
