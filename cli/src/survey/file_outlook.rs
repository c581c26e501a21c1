//! The planned actions on objects of files.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::{
    explain::{Course, Difference},
    files::FileObject,
    names::ObjectKey,
    plan::Reason,
};

/// The planned action on an object of a file; as JSON, a row of a plan.
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

/// An object of a file, as the fields of a row.
#[derive(Serialize, JsonSchema)]
struct Fields<'f> {
    kind: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'f str>,
    name: &'f str,
}

fn as_fields<S: Serializer>(of: &FileObject, serializer: S) -> Result<S::Ok, S::Error> {
    let namespace = Some(&*of.name.namespace).filter(|namespace| !namespace.is_empty());
    Fields { kind: of.kind.as_str(), namespace, name: &of.name.name }.serialize(serializer)
}

impl FileOutlook {
    /// The ConfigMap or Secret, if it is created or changed.
    pub(super) fn written(&self) -> Option<ObjectKey> {
        self.of.data().filter(|_| matches!(self.course, Course::Create | Course::Change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files::FileKind, names::NamespacedName};

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
        let of = |kind, namespace, name| FileObject { kind, name: NamespacedName::new(namespace, name) };
        for (row, expected) in [
            (
                row(of(FileKind::Secret, "shop", "tls"), Some(Reason::Copy)),
                r#"{"action":"refuse","kind":"Secret","namespace":"shop","name":"tls","file":"a.yaml:1","reason":"Copy","changes":{}}"#,
            ),
            (
                row(of(FileKind::Policy, "", "ca"), None),
                r#"{"action":"refuse","kind":"ConfigPolicy","name":"ca","file":"a.yaml:1","changes":{}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&row).unwrap(), expected);
        }
    }
}
