//! The hooks by hand: applied as plain manifests, switched off, and left to a user who wants them so.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testbed::Role;

use crate::bed::objects::{config_map, ours, version};
use crate::bed::{Bed, Story, USUAL_TIMEOUTS, eventually, peaceful, rough, same};

const KINDS: [&str; 2] = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
const BOTH: &str = "validatingwebhookconfiguration,mutatingwebhookconfiguration";
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/webhook-config");

#[test]
fn the_files_are_accepted_as_they_are_written() {
    let bed = peaceful();
    let text = bed.kubectl(&["kustomize", FILES], &Value::Null);
    let mut items: Vec<Value> = serde_saphyr::from_multiple(&text).expect("kustomize writes YAML");
    for hooks in &mut items {
        // The reconciler writes those of the usual name with every policy of every story.
        hooks["metadata"]["name"] = "plain".into();
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    let accepted = bed.kubectl(&["create", "--dry-run=server", "-o", "name", "-f", "-"], &list);
    assert_eq!(accepted.lines().filter(|line| line.ends_with("/plain")).count(), 2, "{accepted}");
}

/// What `copyrator hooks` prints is what the reconciler applies: it works without a reconciler, and one that comes finds
/// nothing to do.
#[test]
fn printed_hooks_work_without_a_reconciler_and_are_no_drift_to_one() {
    let (bed, _turn) = rough();
    let mut crew = bed.man_with(&USUAL_TIMEOUTS);
    let story = Story::new(bed, "printed");
    let target = story.target("a");
    let spec = json!({
        "data": [{ "name": "url", "keys": ["url"], "format": "url" }], "match": {},
        "defaults": { "labels": { "team": "unknown" } },
    });
    let lenient = story.policy(&["ConfigMap", "Secret"], spec.clone());
    let mut strict = story.policy(&["ConfigMap"], spec);
    (strict["metadata"]["name"], strict["spec"]["failurePolicy"]) = (json!("printed-strict"), json!("Fail"));
    for policy in [&lenient, &strict] {
        bed.admin.create(policy).ok();
    }
    eventually("the hooks are those for both policies", || {
        let [validating, mutating] = webhooks(bed).map(|hooks| hooks.to_string());
        let are_there = validating.contains("printed-strict.policies-fail")
            && validating.contains("policies-ignore")
            && mutating.contains("defaults.copyrator.dev");
        if are_there { Ok(()) } else { Err(validating) }
    });
    let applied = webhooks(bed);
    crew.reconciler.kill();
    bed.unhook();

    let manifests = printed(bed, &applied[0]);
    bed.kubectl(&["apply", "--filename", "-"], &manifests);
    assert_eq!(webhooks(bed), applied, "something else is printed than applied");
    eventually("nonsense is refused, with no reconciler", || {
        let answer = bed.admin.try_create(&config_map(&target, "app", [("url", "nonsense")]));
        same(answer.code, 403)
    });
    bed.release_lease();
    let flags = [&USUAL_TIMEOUTS[..], &["--owner-cluster-role", ""]].concat();
    crew.reconciler = bed.testbed.operator(Role::Reconciler, 0, &flags).expect("it starts");
    crew.reconciler.wait_ready().expect("it becomes ready");
    story.marker("then");
    assert_eq!(webhooks(bed), applied, "the reconciler has them otherwise");
    crew.reconciler.kill();
    crew.webhook.kill();
    for name in ["printed", "printed-strict"] {
        bed.admin.delete("ConfigPolicy", "", name).ok();
    }
}

/// In an emergency people mark the one that they see.
#[test]
fn hooks_are_left_as_they_are_while_somebody_says_hands_off() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = Story::new(bed, "hands-off");
    let target = story.target("a");
    let spec = json!({ "data": [{ "name": "url", "keys": ["url"], "format": "url" }], "match": {} });
    bed.admin.create(&story.policy(&["ConfigMap"], spec)).ok();
    let until_answered = |what: &str, code: u16| {
        eventually(what, || {
            let answer = bed.admin.try_create(&config_map(&target, "app", [("url", "nonsense")]));
            same(answer.code, code)
        });
    };
    until_answered("the policy is in force", 403);
    let before = webhooks(bed);

    // As webhook-config/README.md says, but for one of the two.
    let none = json!(null);
    bed.kubectl(&["annotate", KINDS[1], "copyrator", "copyrator.dev/hands-off=incident"], &none);
    bed.kubectl(&["patch", BOTH, "copyrator", "--type=merge", "-p", r#"{"webhooks":[]}"#], &none);
    until_answered("nobody judges any more", 201);
    let versions = versions(bed);
    // A new leader looks at once.
    let said = crew.reconciler.log().matches("does not update the webhook configurations").count();
    crew.reconciler.kill();
    bed.release_lease();
    crew.reconciler = bed.reconciler(0);
    story.marker("meanwhile");
    eventually("it has looked, and says so", || {
        let now = crew.reconciler.log().matches("does not update the webhook configurations").count();
        if now > said { Ok(()) } else { Err(format!("{said} times, now {now}")) }
    });
    assert_eq!(self::versions(bed), versions, "the hooks were written");

    bed.kubectl(&["annotate", BOTH, "copyrator", "copyrator.dev/hands-off-"], &none);
    // It looks every minute.
    eventually("they are as before", || same(webhooks(bed), before.clone()));
    until_answered("the policy is in force again", 403);
    crew.reconciler.kill();
    crew.webhook.kill();
    bed.admin.delete("ConfigPolicy", "", "hands-off").ok();
}

/// What `copyrator hooks` prints for the policies in the cluster, by the way that webhook-config/README.md tells.
fn printed(bed: &Bed, hooks: &Value) -> Value {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("control_plane");
    let (ca, policies) = (folder.join("printed-ca.crt"), folder.join("printed-policies.json"));
    let arguments = ["-n", testbed::NAMESPACE, "get", "secret", "copyrator-webhook-ca", "-o"];
    let held = bed.kubectl(
        &[&arguments[..], &["go-template={{index .data \"ca.crt\" | base64decode}}"]].concat(),
        &json!(null),
    );
    fs::write(&ca, held).expect("the CA can be written");
    let all = json!({ "apiVersion": "v1", "kind": "List", "items": with_kind(bed.admin.list("ConfigPolicy", "", "")) });
    fs::write(&policies, all.to_string()).expect("the policies can be written");
    let called = hooks[0]["clientConfig"]["url"].as_str().expect("the webhook has a URL here");
    let url = called.split("/validate/").next().unwrap_or_default();
    let (ca, policies) = (ca.to_str().expect("a path"), policies.to_str().expect("a path"));
    let mut command = bed.testbed.copyrator(&["hooks", "--print", "--webhook-url", url, "--ca", ca]);
    let output = command.args(["--policy", policies]).output().expect("copyrator runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it writes text");
    let items: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it writes YAML");
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// Items of a list do not say what they are.
fn with_kind(policies: Vec<Value>) -> Vec<Value> {
    let named = |policy: Value| {
        ours("ConfigPolicy", "", policy["metadata"]["name"].as_str().unwrap_or(""), policy["spec"].clone())
    };
    policies.into_iter().map(named).collect()
}

fn webhooks(bed: &Bed) -> [Value; 2] {
    KINDS.map(|kind| {
        let mut hooks = bed.admin.get(kind, "", "copyrator").expect("it is there")["webhooks"].take();
        // These follow the rules, monitors and workloads of the moment, and are the reconciler's alone.
        let is_warning = |hook: &Value| hook["name"].as_str().is_some_and(|name| name.contains(".warnings."));
        // Without hooks there is no list.
        if let Some(hooks) = hooks.as_array_mut() {
            hooks.retain(|hook| !is_warning(hook));
            // A story before this one may have deleted the CA: for ten minutes the reconciler's hooks carry the one before, too.
            for hook in hooks {
                let bundle = hook["clientConfig"]["caBundle"].take();
                assert!(bundle.is_string(), "a hook without a CA: {hook}");
            }
        }
        hooks
    })
}

fn versions(bed: &Bed) -> [String; 2] {
    KINDS.map(|kind| version(&bed.admin.get(kind, "", "copyrator").expect("it is there")))
}
