//! Our own kinds: what makes no sense is refused with the field, the fault and the fix.

use serde_json::{Value, json};

use crate::bed::objects::{config_map, ours};
use crate::bed::{Story, eventually, peaceful};

/// How the API server passes a refusal of ours on.
const BY_US: &str = "admission webhook";

fn refusal(story: &Story<'_>, kind: &str, spec: Value) -> String {
    let namespace = if kind == "ConfigPolicy" { "" } else { &story.home };
    story.admin().try_create(&ours(kind, namespace, "wrong", spec)).refused()
}

/// Dropped in silence, it leaves a policy that judges more than it means: kubectl has it refused, and so does every test.
#[test]
fn a_misspelt_field_is_refused_but_for_clients_that_do_not_ask_so() {
    let story = Story::new(peaceful(), "misspelt-field");
    let admin = story.admin();
    let data = json!([{ "name": "url", "keys": ["url"], "format": "url" }]);
    let narrow =
        story.policy(&["ConfigMap"], json!({ "match": { "nome": { "globs": ["app-*"] } }, "data": data }));
    let refusal = admin.try_create(&narrow).refused();
    assert!(refusal.contains(r#"unknown field "spec.match.nome""#), "{refusal}");
    let tolerated = admin.tolerantly().try_create(&narrow);
    assert!(tolerated.warnings.iter().any(|it| it.contains("spec.match.nome")), "{:?}", tolerated.warnings);
    assert!(tolerated.ok()["spec"]["match"]["nome"].is_null());

    let mut map = config_map(&story.home, "app", [("k", "v")]);
    admin.create(&map).ok();
    map["dato"] = json!({});
    let merged = admin.try_merge("ConfigMap", &story.home, "app", &json!({ "dato": {} }));
    for answer in [merged, admin.replace(&map), admin.try_apply(&map)] {
        let refusal = answer.refused();
        assert!(refusal.contains("dato"), "{refusal}");
    }
}

/// It never gets as far as to harm anybody (config-syncer#472, #407). The first case shows that the hook asks us; all others that
/// we refuse are in `core/src/validate` and `tests/reviews/own_kinds.rs`, and these are those of the definition's schema.
#[test]
fn a_senseless_rule_is_refused_with_its_field() {
    let story = Story::new(peaceful(), "senseless-rule");
    let good = json!({ "source": { "kind": "Secret", "names": ["a"] }, "targets": [{ "names": ["x"] }] });
    story.admin().try_create(&ours("CopyratorRule", &story.home, "good", good.clone())).ok();
    for (pointer, value, expected) in [
        ("/source/names", json!(["ok", "a["]), "spec.source.names[1]"),
        ("/source/kind", json!("Pod"), "spec.source.kind"),
        ("/targets", json!([{}]), "names, namespaceSelector or both"),
        ("/targets", json!([]), "spec.targets"),
        ("/deletionGrace", json!("soon"), "spec.deletionGrace"),
    ] {
        let mut spec = good.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        spec.pointer_mut(parent).unwrap()[field] = value;
        let refusal = refusal(&story, "CopyratorRule", spec);
        let is_ours = ["/source/names", "/source/kind"].contains(&pointer);
        assert_eq!(refusal.contains(BY_US), is_ours, "{pointer}: {refusal}");
        assert!(refusal.contains(expected), "{pointer}: {expected:?} is missing in: {refusal}");
    }
}

#[test]
fn a_senseless_monitor_is_refused_with_its_field() {
    let story = Story::new(peaceful(), "senseless-monitor");
    let watch = json!([{ "kind": "ConfigMap", "names": ["a"] }]);
    for (by_us, spec, expected) in [
        (true, json!({ "watch": [{ "kind": "ConfigMap", "names": ["a["] }] }), "spec.watch[0].names[0]"),
        (false, json!({ "watch": [] }), "spec.watch"),
        (false, json!({ "watch": watch, "workloads": {} }), "exactly one of podSelector and names"),
        (false, json!({ "watch": watch, "strategy": { "type": "Reboot" } }), "spec.strategy.type"),
        (false, json!({ "watch": watch, "pace": { "minInterval": "soon" } }), "spec.pace.minInterval"),
        (false, json!({ "watch": watch, "pace": { "soak": "long" } }), "spec.pace.soak"),
        (false, json!({ "watch": watch, "pace": { "maxConcurrent": 0 } }), "spec.pace.maxConcurrent"),
        (
            false,
            json!({ "watch": watch, "window": { "schedule": "0 2 * *", "duration": "1h" } }),
            "five fields",
        ),
        (
            false,
            json!({ "watch": watch, "window": { "schedule": "0 2 * * *", "duration": "0s" } }),
            "longer than 0s",
        ),
    ] {
        let refusal = refusal(&story, "ConfigMonitor", spec);
        assert_eq!(refusal.contains(BY_US), by_us, "{expected}: {refusal}");
        assert!(refusal.contains(expected), "{expected:?} is missing in: {refusal}");
    }
}

#[test]
fn a_senseless_policy_is_refused_with_its_field() {
    let story = Story::new(peaceful(), "senseless-policy");
    let kinds = json!({ "kinds": ["ConfigMap"] });
    for (by_us, spec, expected) in [
        (true, json!({ "match": kinds }), "has no requirement"),
        (false, json!({ "match": kinds, "data": [{ "name": "a", "format": "json" }] }), "keys is required"),
        (
            false,
            json!({ "match": { "kinds": ["Namespace"] }, "data": [{ "name": "a", "keys": ["a"] }] }),
            "data has rules about keys",
        ),
        (false, json!({ "match": { "kinds": ["Pod"] } }), "spec.match.kinds"),
    ] {
        let refusal = refusal(&story, "ConfigPolicy", spec);
        assert_eq!(refusal.contains(BY_US), by_us, "{expected}: {refusal}");
        assert!(refusal.contains(expected), "{expected:?} is missing in: {refusal}");
    }
}

#[test]
fn kubectl_explains_stages_and_windows() {
    let story = Story::new(peaceful(), "explained");
    for (field, expected) in [
        ("pace.soak", "stay ready before the next one follows"),
        ("pace.order", "workloads that no selector matches come last"),
        ("pace.maxConcurrent", "under way at once"),
        ("window.schedule", "minute, hour, day of month"),
        ("window.timeZone", "Europe/Berlin"),
        ("window.duration", "How long it stays open"),
    ] {
        // The API server publishes what it has of a new kind a moment after it serves it.
        eventually(&format!("{field} is explained"), || {
            let mut kubectl = story.bed.testbed.cluster().kubectl();
            let output = kubectl.args(["explain", &format!("configmonitors.spec.{field}")]).output();
            let output = output.expect("kubectl runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_explained = text.split_whitespace().collect::<Vec<_>>().join(" ").contains(expected);
            if is_explained { Ok(()) } else { Err(text + &String::from_utf8_lossy(&output.stderr)) }
        });
    }
}
