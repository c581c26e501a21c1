//! Reports fields of a spec that the kind does not have, and the position of a field that cannot be read.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde_json::Value;

use crate::{
    api::Problem,
    validate::{did_you_mean, invalid},
};

/// Returns a problem for each given field that the kind's CRD lacks.
pub(super) fn unknown(raw: &str, definition: &CustomResourceDefinition) -> Vec<Problem> {
    let Ok(given) = serde_json::from_str::<Value>(raw) else { return Vec::new() };
    let version = definition.spec.versions.first();
    let schema = version.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
    let spec = schema.and_then(|schema| schema.properties.as_ref()?.get("spec"));
    let mut problems = Vec::new();
    if let Some(spec) = spec {
        compare("spec", &given, spec, &mut problems);
    }
    problems
}

fn compare(path: &str, given: &Value, schema: &JSONSchemaProps, problems: &mut Vec<Problem>) {
    match (given, &schema.properties, &schema.items) {
        (Value::Object(given), Some(known), _) => {
            for (key, value) in given {
                let path = format!("{path}.{key}");
                match known.get(key) {
                    Some(schema) => compare(&path, value, schema, problems),
                    None => {
                        let meant = did_you_mean(key, known.keys().map(String::as_str));
                        let what = if meant.is_empty() { "; check its spelling" } else { &meant };
                        problems
                            .push(invalid(&path, format!("unknown field in this version of the kind{what}")));
                    }
                }
            }
        }
        (Value::Array(given), _, Some(JSONSchemaPropsOrArray::Schema(schema))) => {
            for (index, value) in given.iter().enumerate() {
                compare(&format!("{path}[{index}]"), value, schema, problems);
            }
        }
        _ => {}
    }
}

/// The problem of a spec that cannot be read, with the field at the position that the parser gave.
pub(super) fn undecodable(raw: &str, error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let offset = offset_of(raw, error.line(), error.column());
    let mut path = path_at(raw, offset);
    // The parser reports a missing field at the end of its structure: name the structure, not its last field.
    if message.starts_with("missing field") {
        path.truncate(path.rfind('.').unwrap_or(0));
    }
    let message =
        message.replace("a sequence", "a list").replace("invalid type: sequence", "invalid type: list");
    invalid(&format!("spec{path}"), format!("cannot be read: {message}"))
}

fn offset_of(raw: &str, line: usize, column: usize) -> usize {
    let before: usize = raw.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column).min(raw.len())
}

enum Step {
    Key(String),
    Index(usize),
}

/// The path of the value that ends at, or contains, this byte of a JSON document.
fn path_at(raw: &str, offset: usize) -> String {
    let bytes = &raw.as_bytes()[..offset];
    let mut steps: Vec<Step> = Vec::new();
    let mut at = 0;
    let mut key_follows = false;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => {
                steps.push(Step::Key(String::new()));
                key_follows = true;
            }
            b'[' => steps.push(Step::Index(0)),
            // The parser reports a fault of a whole structure at its closing bracket: keep that structure
            // innermost.
            b'}' | b']' if at + 1 == bytes.len() => {}
            b'}' | b']' => {
                steps.pop();
            }
            b',' => match steps.last_mut() {
                Some(Step::Index(index)) => *index += 1,
                Some(Step::Key(_)) => key_follows = true,
                None => {}
            },
            b'"' => {
                let start = at + 1;
                at = string_end(bytes, start);
                if key_follows && let Some(Step::Key(key)) = steps.last_mut() {
                    *key = String::from_utf8_lossy(&bytes[start..at]).into_owned();
                    key_follows = false;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let path = steps.iter().map(|step| match step {
        Step::Key(key) if key.is_empty() => String::new(),
        Step::Key(key) => format!(".{key}"),
        Step::Index(index) => format!("[{index}]"),
    });
    path.collect()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt as _;

    use super::*;
    use crate::api::{CopyratorRule, CopyratorRuleSpec};

    #[test]
    fn a_spec_that_cannot_be_read_names_the_field() {
        for (raw, expected) in [
            (
                r#"{"source":{"kind":"Secret"},"targets":[],"copy":{"kind":"Pod"}}"#,
                "spec.copy.kind: cannot be read: unknown variant `Pod`",
            ),
            (
                r#"{"source":{"kind":"Secret"},"targets":[{"names":["a"]},{"names":7}]}"#,
                "spec.targets[1].names: cannot be read: invalid type: integer `7`",
            ),
            (
                r#"{"source":{"kind":"Secret","names":["a"]}}"#,
                "spec: cannot be read: missing field `targets`",
            ),
            (
                r#"{"source":{"kind":"Secret"},"targets":{"names":["a"]}}"#,
                "spec.targets: cannot be read: invalid type: map, expected a list",
            ),
        ] {
            let error = serde_json::from_str::<CopyratorRuleSpec>(raw).unwrap_err();
            let problem = undecodable(raw, &error);
            assert!(problem.message.starts_with(expected), "{}", problem.message);
        }
    }

    #[test]
    fn unknown_fields_are_all_named_with_what_they_were_meant_to_be() {
        let raw = r#"{"source":{"kind":"Secret","name":"b"},"target":[{"namespaceSelector":{"matchLabel":{"a":"b"}}}],
            "targets":[{"namespaceSelector":{"matchLabel":{"a":"b"},"matchLabels":{"any":"label"}}}],"frequency":1}"#;
        let all = unknown(raw, &CopyratorRule::crd());
        let all: Vec<_> = all.into_iter().map(|problem| problem.message).collect();
        let unknown = "unknown field in this version of the kind";
        assert_eq!(
            all,
            [
                format!("spec.frequency: {unknown}; check its spelling"),
                format!("spec.source.name: {unknown}; did you mean names?"),
                format!("spec.target: {unknown}; did you mean targets?"),
                format!("spec.targets[0].namespaceSelector.matchLabel: {unknown}; did you mean matchLabels?"),
            ]
        );
    }
}
