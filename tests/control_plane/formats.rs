//! Every format a policy can ask for, through the real API server.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::bed::objects::{config_map, secret};
use crate::bed::{Answer, Story, eventually, peaceful};

const FORMATS: [&str; 11] = [
    "json",
    "yaml",
    "toml",
    "properties",
    "url",
    "integer",
    "boolean",
    "regex",
    "pem-certificate",
    "pem-key",
    "dockerconfigjson",
];

#[test]
fn each_format_refuses_what_it_is_not_and_takes_what_it_is() {
    let story = Story::new(peaceful(), "formats");
    let place = story.target("a");
    let rules: Vec<Value> =
        FORMATS.iter().map(|it| json!({ "name": it, "keys": [it], "format": it })).collect();
    story.admin().create(&story.policy(&["ConfigMap"], json!({ "match": {}, "data": rules }))).ok();
    let write = |key: &str, value: &str| story.admin().try_create(&config_map(&place, "app", [(key, value)]));
    eventually("the policy is in force", || {
        if write("integer", "many").code >= 400 { Ok(()) } else { Err("it lets everything pass".into()) }
    });
    let (certificate, key) = leaf();
    let login = r#"{"auths": {"registry.example.com": {"auth": "dTpw"}}}"#;
    for (format, good, bad) in [
        ("json", r#"{"a": [1, null]}"#, "{"),
        ("yaml", "a: 1\nb: [x]\n", "a: 1\na: 2\n"),
        ("url", "postgres://u:p@db:5432/x", "example.com"),
        ("integer", "-12", "1.5"),
        ("boolean", "true", "yes"),
        ("regex", "^[a-z]+$", "("),
        ("toml", "a = 1\n[b]\nc = [1, 2]\n", "a = 1\na = 2\n"),
        ("properties", "a=1\nb: \\u0041\n", "a=1\na=2\n"),
        ("pem-key", &key, &certificate),
        ("dockerconfigjson", login, r#"{"auths": {"registry.example.com": {}}}"#),
        ("pem-certificate", &certificate, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    ] {
        write(format, good).ok();
        until_refused(format, || write(format, bad));
    }
}

#[test]
fn hostile_documents_are_refused_and_the_webhook_lives_on() {
    let story = Story::new(peaceful(), "hostile");
    let place = story.target("a");
    let rules: Vec<Value> =
        FORMATS.iter().map(|it| json!({ "name": it, "keys": [it], "format": it })).collect();
    story.admin().create(&story.policy(&["ConfigMap"], json!({ "match": {}, "data": rules }))).ok();
    let write = |key: &str, value: &str| story.admin().try_create(&config_map(&place, "app", [(key, value)]));
    eventually("the policy is in force", || {
        if write("integer", "many").code >= 400 { Ok(()) } else { Err("it lets everything pass".into()) }
    });
    let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs += &format!("a{level}: &a{level} [{before}]\n");
    }
    for (format, value) in [
        ("yaml", laughs),
        ("yaml", "[".repeat(100_000)),
        ("json", "[".repeat(100_000) + &"]".repeat(100_000)),
        ("regex", "((a{1000}){1000}){1000}".to_owned()),
        ("toml", format!("a{} = 1", ".a".repeat(100_000))),
        ("properties", "a=1\n".repeat(100_000)),
    ] {
        until_refused(format, || write(format, &value));
    }
    write("integer", "1").ok();
}

#[test]
fn a_key_that_does_not_belong_to_its_certificate_is_refused() {
    let story = Story::new(peaceful(), "tls");
    let place = story.target("a");
    let spec = json!({ "match": {}, "data": [{ "name": "tls", "format": "tls-pair" }] });
    story.admin().create(&story.policy(&["Secret"], spec)).ok();
    let write = |certificate: &str, key: &str| {
        story.admin().try_create(&secret(&place, "app", [("tls.crt", certificate), ("tls.key", key)]))
    };
    let ((certificate, key), (_, other)) = (leaf(), leaf());
    eventually("the policy is in force", || {
        if write(&certificate, "nonsense").code >= 400 {
            Ok(())
        } else {
            Err("it lets everything pass".into())
        }
    });
    write(&certificate, &key).ok();
    let refusal = until_refused("tls", || write(&certificate, &other));
    assert!(refusal.contains("tls.key") && refusal.contains("does not belong"), "{refusal}");
    assert!(!refusal.contains("PRIVATE KEY"), "{refusal}");
}

/// The schema arrives at the webhook as it was written: the API server keeps all of it, and refuses what the CRD can tell.
#[test]
fn a_document_is_held_against_the_schema_of_its_policy() {
    let story = Story::new(peaceful(), "schema");
    let place = story.target("a");
    let port = json!({ "type": ["integer", "null"], "minimum": 1, "enum": [null, 80, 443] });
    let schema = json!({ "type": "object", "properties": { "port": port }, "additionalProperties": false });
    let policy = |rule: Value| story.policy(&["ConfigMap"], json!({ "match": {}, "data": [rule] }));
    let rule = json!({ "name": "settings", "keys": ["*.yaml"], "format": "yaml", "schema": schema });
    for (field, value, says) in [
        ("format", json!("url"), "schema is allowed only with format json, yaml or toml"),
        ("minRemaining", json!("1h"), "minRemaining is allowed only with format pem-certificate or tls-pair"),
        ("schema", json!({ "$ref": "https://example.com/a" }), "points outside the schema"),
        ("schema", json!({ "type": "text" }), "is not a JSON Schema"),
    ] {
        let mut wrong = rule.clone();
        wrong[field] = value;
        let refusal = story.admin().try_create(&policy(wrong)).refused();
        assert!(refusal.contains(says), "{says}: {refusal}");
    }
    story.admin().create(&policy(rule)).ok();
    let write = |value: &str| story.admin().try_create(&config_map(&place, "app", [("app.yaml", value)]));
    eventually("the policy is in force", || {
        if write("other: 1").code >= 400 { Ok(()) } else { Err("it lets everything pass".into()) }
    });
    let refusal = until_refused("settings", || write("port: 81"));
    let told =
        "rule settings: ConfigMap NAMESPACE/app, key app.yaml: does not satisfy the schema at /port (enum)";
    assert!(refusal.contains(&told.replace("NAMESPACE", &place)), "{refusal}");
    write("port: null").ok();
}

/// Waits until the rule refuses a write: a call that comes too late lets it pass. What it says.
#[track_caller]
fn until_refused(rule: &str, write: impl Fn() -> Answer) -> String {
    eventually(&format!("rule {rule} refuses it"), || {
        let answer = write();
        let said = answer.body["message"].as_str().unwrap_or_default();
        let is_it = answer.code == 403 && said.contains(&format!("rule {rule}:"));
        if is_it { Ok(said.to_owned()) } else { Err(format!("{}: {said}", answer.code)) }
    })
}

/// A certificate and its key.
fn leaf() -> (String, String) {
    let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
    let authority = copyrator_certs::Authority::issue("test", now, 10 * day).expect("an authority");
    let leaf = authority.issue_leaf(&["a.example.com".to_owned()], &[], now, day).expect("a leaf");
    (leaf.chain_pem.clone(), leaf.key_pem.expose().to_owned())
}
