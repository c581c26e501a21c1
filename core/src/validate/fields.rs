//! Fields of a spec that this build does not know.

use serde_json::Value;

use crate::api::Problem;

/// The paths, as in `spec.targets[0].label`, of what was `given` and is missing in what was `understood`:
/// decoding and encoding dropped it. Empty values do not count.
pub fn unknown_fields(given: &Value, understood: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    lost("spec", given, understood, &mut paths);
    paths
}

/// What is wrong with a spec: the reason of a [`Problem`] that is found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecFault {
    /// A value makes no sense.
    Invalid,
    /// A field or a word is of another version of Copyrator.
    UnsupportedField,
    /// Annotations have no effect, since the label beside them is missing.
    LabelMissing,
    /// A template's text does not have the types of a kind.
    TypeError,
    /// The kind that a rule names is not granted to rules.
    KindNotGranted,
}

impl SpecFault {
    const ALL: [Self; 5] =
        [Self::Invalid, Self::UnsupportedField, Self::LabelMissing, Self::TypeError, Self::KindNotGranted];

    /// The word for statuses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::UnsupportedField => "UnsupportedField",
            Self::LabelMissing => "LabelMissing",
            Self::TypeError => "TypeError",
            Self::KindNotGranted => "KindNotGranted",
        }
    }

    /// The fault with its message, as a status lists it.
    pub fn problem(self, message: String) -> Problem {
        Problem { reason: self.as_str().into(), message, ..Problem::default() }
    }

    /// The fault that a problem of a status names; `None` of a problem of another kind, or of another version.
    pub fn of(problem: &Problem) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == problem.reason)
    }

    /// Why a spec with these problems is not acted on: its first fault.
    pub fn first(problems: &[Problem]) -> Self {
        problems.first().and_then(Self::of).unwrap_or(Self::Invalid)
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
