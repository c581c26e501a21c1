//! A value that is to be of a format: the format's name in the first line (any name; those that the program does not know yet
//! are passed over), then the value. What is accepted must also look right to somebody else.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copyrator::{admit::Purpose, api::ConfigPolicySpec, validate::CompiledPolicy};
use serde_json::{Value, json};

use super::{CUT, canary, policy, webhook};

/// A value of the input is judged by the format that its first line names.
pub fn check(input: &[u8]) {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return };
    let (Ok(format), value) = (std::str::from_utf8(&input[..end]), &input[end + 1..]) else { return };
    let (keys, values) = match format {
        "tls-pair" => (None, pair(value)),
        _ => (Some(["value"]), vec![("value", value)]),
    };
    let mut rule = json!({"name": "format", "format": format});
    if let Some(keys) = keys {
        rule["keys"] = json!(keys);
    }
    let spec = json!({"match": {"kinds": ["Secret"]}, "data": [rule]});
    let Ok(typed) = serde_json::from_value::<ConfigPolicySpec>(spec.clone()) else { return };
    let compiled = CompiledPolicy::compile(&typed).expect("a rule with a format is fine");
    let world = webhook::world([("p", typed, compiled)]);
    let data: Value =
        values.iter().map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value)))).collect();
    let object = json!({"metadata": {"name": "app", "namespace": "shop"}, "type": "Opaque", "data": data});
    let answer =
        webhook::answer(&world, &Purpose::Policies, &webhook::review("Secret", "app", &object, None));
    let answer = answer.expect("a Secret of bytes is judged");
    if webhook::response(&answer)["allowed"] == true {
        accepted(format, value);
    }
    // Once more as text: what a refusal says must not quote it.
    let texts: Option<Vec<String>> = values
        .iter()
        .map(|(key, value)| Some(format!("{key}\n{}", std::str::from_utf8(value).ok()?)))
        .collect();
    if let Some(texts) = texts.filter(|_| !canary::is_in(input)) {
        policy::judge(spec, "", &texts.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

fn pair(value: &[u8]) -> Vec<(&'static str, &[u8])> {
    let cut = CUT.as_bytes();
    match value.windows(cut.len()).position(|window| window == cut) {
        Some(at) => vec![("tls.crt", &value[..at]), ("tls.key", &value[at + cut.len()..])],
        None => vec![("tls.crt", value)],
    }
}

/// What somebody else must find in a value that was accepted.
fn accepted(format: &str, value: &[u8]) {
    let text = || std::str::from_utf8(value).expect("what is accepted is text");
    match format {
        "json" => assert!(serde_json::from_slice::<Value>(value).is_ok(), "{:?}", text()),
        "dockerconfigjson" => {
            let found: Value = serde_json::from_slice(value).expect("it is JSON");
            assert!(found["auths"].is_object(), "{:?}", text());
        }
        "integer" => {
            let digits = text().trim_start_matches(['-', '+']);
            assert!(!digits.is_empty() && digits.chars().all(|one| one.is_ascii_digit()), "{:?}", text());
        }
        "boolean" => assert!(["true", "false"].contains(&text())),
        "regex" => assert!(regex::Regex::new(text()).is_ok(), "{:?}", text()),
        "url" => {
            let (scheme, rest) = text().split_once("://").expect("it has a scheme");
            let clean = |text: &str| {
                !text.is_empty() && !text.contains(|one: char| one.is_whitespace() || one.is_control())
            };
            assert!(clean(scheme) && clean(rest), "{:?}", text());
        }
        "pem-certificate" => {
            let found =
                copyrator_certs::Certificate::all_from_pem(text()).expect("our other reader takes it");
            assert!(!found.is_empty());
        }
        "yaml" | "toml" | "properties" => drop(text()),
        _ => {}
    }
}
