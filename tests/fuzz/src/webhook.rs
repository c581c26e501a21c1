//! The webhook from a request's body to its answer's, without the network; and what holds for every answer.

use std::{collections::BTreeMap, sync::Arc};

use copyrator::{
    admit::{
        Parties, Purpose,
        decide::{Case, Decision, LONGEST_MESSAGE, read},
        decode::decode,
        respond::{LONGEST_WARNING, respond},
    },
    api::ConfigPolicySpec,
    model::{NamespaceFacts, PolicyFacts, World},
    validate::CompiledPolicy,
};
use serde_json::{Value, json};

/// A cluster with two namespaces and these policies.
pub fn world(policies: impl IntoIterator<Item = (&'static str, ConfigPolicySpec, CompiledPolicy)>) -> World {
    let mut world = World::default();
    world.settings_mut().own_namespace = "copyrator-system".into();
    world.settings_mut().annotations = true;
    for name in ["platform", "shop"] {
        let labels = BTreeMap::from([("team".to_owned(), "blue".to_owned())]);
        world.set_namespace(name.into(), NamespaceFacts { labels, ..NamespaceFacts::default() });
    }
    for (name, spec, compiled) in policies {
        world.set_policy(name.into(), facts(spec, compiled));
    }
    world
}

fn facts(spec: ConfigPolicySpec, compiled: CompiledPolicy) -> PolicyFacts {
    PolicyFacts {
        uid: "u".into(),
        resource_version: "1".into(),
        generation: 1,
        created: jiff::Timestamp::UNIX_EPOCH,
        annotations: BTreeMap::new(),
        spec,
        compiled: Ok(Arc::new(compiled)),
        status: None,
    }
}

/// The answer's bytes; none where the answer is an HTTP status, or a question to the API server.
pub fn answer(world: &World, purpose: &Purpose, body: &[u8]) -> Option<String> {
    let parties = Parties::default();
    let review = decode(body).ok()?;
    let verdict = match read(&review, purpose, &parties, jiff::Timestamp::UNIX_EPOCH).ok()? {
        Case::Settled(Decision::Now(verdict)) => verdict,
        Case::Settled(Decision::Ask(inquiry)) => inquiry.allow,
        Case::Write(write) => write.judge(write.look(world).ok()?),
        Case::Instance(instance) => instance.look(world),
    };
    let answer = String::from_utf8(respond(&review.uid, &verdict)).expect("an answer is text");
    hold(&answer, &review.uid);
    Some(answer)
}

/// The `response` of an answer.
pub fn response(answer: &str) -> Value {
    let answer: Value = serde_json::from_str(answer).expect("an answer is JSON");
    answer["response"].clone()
}

/// What holds for every answer.
fn hold(answer: &str, uid: &str) {
    let response = response(answer);
    assert_eq!(response["uid"], uid);
    let allowed = response["allowed"].as_bool().expect("a verdict says whether the write is allowed");
    let message = response["status"]["message"].as_str();
    assert_eq!(allowed, message.is_none(), "{answer}");
    if let Some(message) = message {
        assert!(
            !message.is_empty() && message.len() <= LONGEST_MESSAGE,
            "{} bytes: {message}",
            message.len()
        );
        printable(message);
    }
    for warning in response["warnings"].as_array().into_iter().flatten() {
        let warning = warning.as_str().expect("a warning is text");
        assert!(!warning.is_empty() && warning.len() <= LONGEST_WARNING, "{warning}");
        printable(warning);
    }
    for note in response["auditAnnotations"].as_object().into_iter().flatten() {
        printable(note.1.as_str().expect("an annotation is text"));
    }
}

/// A terminal and a log show what stands there, and nothing else.
fn printable(text: &str) {
    let hidden =
        |one: char| one.is_control() || matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!text.contains(hidden), "{text:?}");
}

/// The object after an answer's patch, which must apply; none without one.
pub fn patched(answer: &str, object: &Value) -> Option<Value> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let response = response(answer);
    let patch = STANDARD.decode(response["patch"].as_str()?).expect("a patch is Base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a patch is JSON");
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).expect("a patch applies");
    Some(object)
}

/// A review of a write; an update where there is an old object.
pub fn review(kind: &str, name: &str, object: &Value, old: Option<&Value>) -> Vec<u8> {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5", "kind": {"group": "", "version": "v1", "kind": kind},
            "name": name, "namespace": "shop", "operation": operation,
            "userInfo": {"username": "alice", "groups": ["dev"]},
            "object": object, "oldObject": old,
        },
    });
    review.to_string().into_bytes()
}
