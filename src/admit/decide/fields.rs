//! Fields of a spec that nobody knows, and the place of one that cannot be read.

use serde::Serialize;
use serde_json::Value;

use crate::{api::Problem, validate::unknown_fields};

/// The fields that were given and are not part of the spec: what decoding and encoding loses.
pub(super) fn unknown(raw: &str, spec: &impl Serialize) -> Vec<Problem> {
    let (Ok(given), Ok(known)) = (serde_json::from_str::<Value>(raw), serde_json::to_value(spec)) else {
        return Vec::new();
    };
    let paths = unknown_fields(&given, &known).into_iter();
    paths.map(|path| finding(&path, "is no field of this kind in this version; check its spelling")).collect()
}

/// The finding about a spec that cannot be read, naming the field at the parser's place.
pub(super) fn undecodable(raw: &str, error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let offset = offset_of(raw, error.line(), error.column());
    finding(&format!("spec{}", path_at(raw, offset)), &format!("cannot be read: {message}"))
}

fn finding(field: &str, message: &str) -> Problem {
    Problem { reason: "Invalid".into(), message: format!("{field}: {message}"), ..Problem::default() }
}

fn offset_of(raw: &str, line: usize, column: usize) -> usize {
    let before: usize = raw.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column).min(raw.len())
}

enum Step {
    Key(String),
    Index(usize),
}

/// The path of the value that ends at, or holds, this offset of a JSON document.
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
            // The parser complains of a whole structure once it has ended: it is the innermost then.
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
    use super::*;
    use crate::api::CopyratorRuleSpec;

    #[test]
    fn a_spec_that_cannot_be_read_names_the_field() {
        for (raw, expected) in [
            (
                r#"{"source":{"kind":"Pod"},"targets":[]}"#,
                "spec.source.kind: cannot be read: unknown variant `Pod`",
            ),
            (
                r#"{"source":{"kind":"Secret"},"targets":[{"names":["a"]},{"names":7}]}"#,
                "spec.targets[1].names: cannot be read: invalid type: integer `7`",
            ),
            (r#"{"source":{"kind":"Secret","names":["a"]}}"#, "spec"),
        ] {
            let error = serde_json::from_str::<CopyratorRuleSpec>(raw).unwrap_err();
            let problem = undecodable(raw, &error);
            assert!(problem.message.starts_with(expected), "{}", problem.message);
        }
    }

    #[test]
    fn unknown_fields_are_named_with_their_path() {
        let raw = r#"{"source":{"kind":"Secret","names":["a"],"name":"b"},"targets":[{"namespaceSelector":{"matchLabel":{"a":"b"}}}],"excludeTargets":[],"copy":null}"#;
        let spec: CopyratorRuleSpec = serde_json::from_str(raw).unwrap();
        let messages: Vec<_> = unknown(raw, &spec).into_iter().map(|problem| problem.message).collect();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[0].starts_with("spec.source.name: is no field"), "{messages:?}");
        assert!(messages[1].starts_with("spec.targets[0].namespaceSelector.matchLabel: "), "{messages:?}");
    }
}
