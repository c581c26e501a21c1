//! The body of a request, as it comes from the network.

use copyrator::{
    admit::{Purpose, decode::decode},
    api::ConfigPolicySpec,
    validate::CompiledPolicy,
};
use serde_json::{Value, json};

use super::webhook;

/// In the recorded reviews what is secret is written with this word, in plain or in Base64 (of any alignment).
const SECRET: [&str; 4] = ["swordfish", "c3dvcmRmaXNo", "N3b3JkZmlza", "zd29yZGZpc2"];

/// The webhook answers to the input, on each of its paths.
pub fn check(input: &[u8]) {
    let Ok(review) = decode(input) else { return };
    let object: Option<Value> = review.object.and_then(|raw| serde_json::from_str(raw.get()).ok());
    // The API server sends no object without.
    let object = object.filter(|object| object["metadata"].is_object());
    let is_secret = !is_told(input);
    let world = webhook::world(policies());
    for purpose in purposes() {
        let Some(answer) = webhook::answer(&world, &purpose, input) else { continue };
        assert_eq!(
            webhook::answer(&world, &purpose, input).as_ref(),
            Some(&answer),
            "an answer hangs on the review only"
        );
        if let Some(object) = &object {
            webhook::patched(&answer, object);
        }
        if is_secret {
            assert!(!SECRET.iter().any(|word| answer.contains(word)), "an answer quotes a value: {answer}");
        }
    }
}

fn purposes() -> [Purpose; 8] {
    [
        Purpose::All,
        Purpose::OwnKinds,
        Purpose::Files,
        Purpose::Annotations,
        Purpose::Policies,
        Purpose::Warnings,
        Purpose::Defaults,
        Purpose::Author,
    ]
}

/// Whether the word stands anywhere but in the values of a Secret or ConfigMap.
fn is_told(input: &[u8]) -> bool {
    let Ok(mut review) = serde_json::from_slice::<Value>(input) else { return true };
    for version in ["object", "oldObject"] {
        let Some(object) = review["request"][version].as_object_mut() else { continue };
        for field in ["data", "stringData", "binaryData"] {
            for value in object.get_mut(field).and_then(Value::as_object_mut).into_iter().flatten() {
                *value.1 = Value::Null;
            }
        }
    }
    let rest = review.to_string();
    SECRET.iter().any(|word| rest.contains(word))
}

fn policies() -> Vec<(&'static str, ConfigPolicySpec, CompiledPolicy)> {
    let specs = [
        (
            "data",
            json!({
                "match": {"kinds": ["ConfigMap", "Secret"], "namespaceSelector": {"matchLabels": {"team": "blue"}}},
                "data": [
                    {"name": "url", "keys": ["url"], "required": true, "format": "url"},
                    {"name": "settings", "keys": ["*.yaml"], "format": "yaml"},
                    {"name": "json", "keys": ["*.json"], "format": "json"},
                    {"name": "level", "keys": ["level"], "pattern": "debug|info"},
                    {"name": "frozen", "keys": ["schema-version"], "immutable": true},
                ],
                "limits": {"maxBytes": 4096},
                "validations": [{"expression": "!('min' in text) || int(text.min) <= int(text.max)"}],
            }),
        ),
        (
            "labels",
            json!({
                "match": {"kinds": ["Namespace", "Secret"]},
                "labels": {"required": ["owner"], "patterns": {"owner": "[a-z-]+"}},
                "validationActions": ["Warn"],
            }),
        ),
        (
            "defaults",
            json!({
                "match": {"kinds": ["ConfigMap", "Secret", "Namespace"]},
                "defaults": {"labels": {"tier": "none"}, "annotations": {"example.com/policy": "x"}},
            }),
        ),
    ];
    let compile = |(name, spec): (&'static str, Value)| {
        let spec: ConfigPolicySpec = serde_json::from_value(spec).expect("a spec of ours");
        let compiled = CompiledPolicy::compile(&spec).expect("a policy of ours");
        (name, spec, compiled)
    };
    specs.into_iter().map(compile).collect()
}
