//! Fields of a spec that this build does not know.

use serde_json::Value;

use crate::api::Problem;

/// Reason of a [`Problem`] that an older or newer build would not have, with a field or word of another
/// version.
pub const UNSUPPORTED: &str = "UnsupportedField";

/// Reason of a [`Problem`] with annotations that have no effect, since the label beside them is missing.
pub const LABEL_MISSING: &str = "LabelMissing";

/// The paths, as in `spec.targets[0].label`, of what was `given` and is missing in what was `understood`:
/// decoding and encoding dropped it. Empty values do not count.
pub fn unknown_fields(given: &Value, understood: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    lost("spec", given, understood, &mut paths);
    paths
}

/// Why a spec is not acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quarantine {
    /// Something is wrong with it.
    Invalid,
    /// Another version wrote it: [`UNSUPPORTED`].
    UnsupportedField,
    /// The label beside annotations is missing: [`LABEL_MISSING`].
    LabelMissing,
}

impl Quarantine {
    /// Why a spec with these problems is not acted on.
    pub fn of(problems: &[Problem]) -> Self {
        match problems.first().map(|problem| problem.reason.as_str()) {
            Some(UNSUPPORTED) => Self::UnsupportedField,
            Some(LABEL_MISSING) => Self::LabelMissing,
            _ => Self::Invalid,
        }
    }
}

fn lost(path: &str, given: &Value, known: &Value, paths: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (key, value) in given {
                let path = format!("{path}.{key}");
                match known.get(key) {
                    Some(known) => lost(&path, value, known, paths),
                    None if is_nothing(value) => {}
                    None => paths.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            for (index, (given, known)) in given.iter().zip(known).enumerate() {
                lost(&format!("{path}[{index}]"), given, known, paths);
            }
        }
        _ => {}
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
