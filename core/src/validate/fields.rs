//! Fields of a spec that this build does not know.

use serde_json::Value;

use crate::api::Problem;

/// Returns the paths, as in `spec.targets[0].label`, of fields that are in `given` but not in `understood`:
/// decoding has dropped these fields. Empty values are ignored.
pub fn unknown_fields(given: &Value, understood: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    lost("spec", given, understood, &mut paths);
    paths
}

/// A fault of a spec: the reason of a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecFault {
    /// A value is not valid.
    Invalid,
    /// A field or a word that only a different version of Copyrator knows.
    UnsupportedField,
    /// Annotations have no effect, since the object lacks the label that enables them.
    LabelMissing,
    /// The administrator has not granted the kind for copying by rules.
    KindNotGranted,
}

impl SpecFault {
    const ALL: [Self; 4] = [Self::Invalid, Self::UnsupportedField, Self::LabelMissing, Self::KindNotGranted];

    /// The reason in a status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::UnsupportedField => "UnsupportedField",
            Self::LabelMissing => "LabelMissing",
            Self::KindNotGranted => "KindNotGranted",
        }
    }

    /// The fault with its message, as a status lists it.
    pub fn problem(self, message: String) -> Problem {
        Problem { reason: self.as_str().into(), message, ..Problem::default() }
    }

    /// Returns the fault that a problem of a status names; `None` for other problems, or problems of a
    /// different version.
    pub fn of(problem: &Problem) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == problem.reason)
    }

    /// Returns the reason why Copyrator does not act on a spec with these problems: the first fault.
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
