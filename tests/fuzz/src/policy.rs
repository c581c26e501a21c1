//! A policy and a write, both from the input: the spec as JSON, the object's metadata as JSON, then keys with their values. A
//! key after `<` is of the object before the write, one after `>` of the object after it, any other of both.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copyrator::{
    admit::Purpose,
    api::{Action, ConfigPolicySpec, PolicyKind},
    model::World,
    validate::CompiledPolicy,
};
use serde_json::{Map, Value, json};

use super::{canary, parts, webhook};

/// A policy of the input judges a write of the input.
pub fn check(input: &[u8]) {
    let Some(parts) = parts(input) else { return };
    let [spec, metadata, values @ ..] = &parts[..] else { return };
    let Ok(spec) = serde_json::from_str(spec) else { return };
    if !canary::is_in(input) {
        judge(spec, metadata, values);
    }
}

/// Judges a write of these values by a policy, and looks at the answers.
pub fn judge(spec: Value, metadata: &str, values: &[&str]) {
    let Ok(spec) = serde_json::from_value::<ConfigPolicySpec>(spec) else { return };
    let compiled = match CompiledPolicy::compile(&spec) {
        Ok(compiled) => compiled,
        Err(problems) => {
            assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.message.is_empty()));
            return;
        }
    };
    let Some(kind) = spec.match_.kinds.first().copied() else { return };
    let may_refuse = spec.validation_actions.contains(&Action::Deny);
    let write = Write { kind, metadata: metadata_of(metadata), values };
    let world = webhook::world([("p", spec, compiled)]);
    let (object, old) = write.versions(str::to_owned);
    let first = webhook::answer(&world, &Purpose::Policies, &write.review(&object, old.as_ref()));
    let again = webhook::answer(&world, &Purpose::Policies, &write.review(&object, old.as_ref()));
    assert_eq!(first, again, "a verdict hangs on the write and the policy only");
    if let Some(answer) = &first {
        let response = webhook::response(answer);
        assert!(may_refuse || response["allowed"] == true, "only Deny refuses: {answer}");
        if let Some(message) = response["status"]["message"].as_str() {
            assert!(message.starts_with("policy p, rule "), "a refusal names its policy and rule: {message}");
        }
    }
    nothing_new_is_let_pass(&world, &write, &object);
    defaults_are_added_once(&world, &write, &object);
    let (object, old) = write.versions(canary::put_into);
    for purpose in [Purpose::Policies, Purpose::All, Purpose::Defaults] {
        if let Some(answer) = webhook::answer(&world, &purpose, &write.review(&object, old.as_ref())) {
            canary::assert_kept_from(&answer, "an answer");
        }
    }
}

/// A write that only touches finalizers passes without a word.
fn nothing_new_is_let_pass(world: &World, write: &Write<'_>, object: &Value) {
    let mut after = object.clone();
    after["metadata"]["finalizers"] = json!(["example.com/hold"]);
    if let Some(answer) = webhook::answer(world, &Purpose::Policies, &write.review(&after, Some(object))) {
        let response = webhook::response(&answer);
        assert!(response["allowed"] == true && response["warnings"].is_null(), "{answer}");
    }
}

/// A patch applies, and after it there is none to make.
fn defaults_are_added_once(world: &World, write: &Write<'_>, object: &Value) {
    let defaults = |object: &Value| {
        let answer = webhook::answer(world, &Purpose::Defaults, &write.review(object, None))?;
        webhook::patched(&answer, object)
    };
    if let Some(patched) = defaults(object) {
        assert_ne!(patched, *object, "a patch changes something");
        assert_eq!(defaults(&patched), None, "a second call adds nothing");
    }
}

/// A write as the input describes it.
struct Write<'a> {
    kind: PolicyKind,
    metadata: Map<String, Value>,
    values: &'a [&'a str],
}

impl Write<'_> {
    /// The object after the write and before it, with each value changed like this. Nothing is before where no key says so.
    fn versions(&self, change: impl Fn(&str) -> String) -> (Value, Option<Value>) {
        let (mut new, mut old, mut is_update) = (Map::new(), Map::new(), false);
        for part in self.values {
            let (key, value) = part.split_once('\n').unwrap_or((part, ""));
            let stored = match self.kind {
                PolicyKind::Secret => STANDARD.encode(change(value)),
                _ => change(value),
            };
            is_update |= key.starts_with(['<', '>']);
            if !key.starts_with('<') {
                new.insert(key.trim_start_matches('>').to_owned(), json!(stored));
            }
            if !key.starts_with('>') {
                old.insert(key.trim_start_matches('<').to_owned(), json!(stored));
            }
        }
        (self.object(new), is_update.then(|| self.object(old)))
    }

    fn object(&self, data: Map<String, Value>) -> Value {
        match self.kind {
            PolicyKind::Namespace => json!({"metadata": self.metadata}),
            PolicyKind::Secret => json!({"metadata": self.metadata, "type": "Opaque", "data": data}),
            PolicyKind::ConfigMap => json!({"metadata": self.metadata, "data": data}),
        }
    }

    fn review(&self, object: &Value, old: Option<&Value>) -> Vec<u8> {
        let kind = match self.kind {
            PolicyKind::Namespace => "Namespace",
            PolicyKind::Secret => "Secret",
            PolicyKind::ConfigMap => "ConfigMap",
        };
        webhook::review(kind, self.metadata["name"].as_str().unwrap_or_default(), object, old)
    }
}

/// What the input says of the metadata, where that is an object of JSON; it has a name and a namespace in any case.
fn metadata_of(text: &str) -> Map<String, Value> {
    let mut metadata: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    metadata.entry("name").or_insert_with(|| json!("app"));
    metadata.insert("namespace".into(), json!("shop"));
    metadata
}
