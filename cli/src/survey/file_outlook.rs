//! The planned actions on ConfigMaps, Secrets and ConfigPolicies of files.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::OurKind;
use crate::{
    explain::{Course, Difference},
    names::ObjectKey,
    plan::Reason,
};

/// What becomes of a ConfigPolicy, ConfigMap or Secret of a file; as JSON, a row of a plan.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FileRow")]
pub struct FileOutlook {
    /// One of `create`, `change`, `current` and `refuse`.
    #[serde(rename = "action")]
    pub course: Course,
    #[serde(flatten, serialize_with = "as_fields")]
    #[schemars(with = "Fields<'static>")]
    pub of: FileObject,
    /// `FILE:LINE` of the document.
    #[serde(rename = "file")]
    pub place: String,
    /// The word for why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reason: Option<Reason>,
    /// Why it is refused, or what else is to be said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The names of what changes.
    #[serde(rename = "changes")]
    pub difference: Difference,
    /// What policies warn of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// An object of a file.
#[derive(Clone, Debug)]
pub enum FileObject {
    /// A ConfigMap or Secret.
    Data(ObjectKey),
    /// The ConfigPolicy of this name.
    Policy(String),
}

/// An object of a file, as the fields of a row.
#[derive(Serialize, JsonSchema)]
struct Fields<'f> {
    kind: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'f str>,
    name: &'f str,
}

fn as_fields<S: Serializer>(of: &FileObject, serializer: S) -> Result<S::Ok, S::Error> {
    let fields = match of {
        FileObject::Data(object) => Fields {
            kind: object.kind.resource().kind,
            namespace: Some(&*object.namespace),
            name: &object.name,
        },
        FileObject::Policy(name) => Fields { kind: OurKind::Policy.as_str(), namespace: None, name },
    };
    fields.serialize(serializer)
}

impl FileOutlook {
    /// The ConfigMap or Secret, if it is created or changed.
    pub(super) fn written(&self) -> Option<&ObjectKey> {
        match &self.of {
            FileObject::Data(object) if matches!(self.course, Course::Create | Course::Change) => {
                Some(object)
            }
            FileObject::Data(_) | FileObject::Policy(_) => None,
        }
    }
}

impl fmt::Display for FileObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(object) => object.fmt(f),
            Self::Policy(name) => write!(f, "{} {name}", OurKind::Policy.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Kind;

    /// Scripts read these fields.
    #[test]
    fn a_row_has_these_fields() {
        let row = |of, reason| FileOutlook {
            course: Course::Refuse,
            of,
            place: "a.yaml:1".into(),
            reason,
            message: String::new(),
            difference: Difference::default(),
            warnings: Vec::new(),
        };
        let object = FileObject::Data(ObjectKey::new(Kind::Secret, "shop", "tls"));
        for (row, expected) in [
            (
                row(object, Some(Reason::Copy)),
                r#"{"action":"refuse","kind":"Secret","namespace":"shop","name":"tls","file":"a.yaml:1","reason":"Copy","changes":{}}"#,
            ),
            (
                row(FileObject::Policy("ca".into()), None),
                r#"{"action":"refuse","kind":"ConfigPolicy","name":"ca","file":"a.yaml:1","changes":{}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&row).unwrap(), expected);
        }
    }
}
