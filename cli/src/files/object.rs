//! Objects of files: the documents whose kind the webhook judges.

use std::fmt;

use serde_json::Value;

use super::{Document, FileKind, Place};
use crate::names::{NamespacedName, ObjectKey};

/// The kind and name of an object of a file. The namespace is empty for kinds without namespaces, the name if the API server will
/// generate a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileObject {
    /// The kind.
    pub kind: FileKind,
    /// Namespace and name.
    pub name: NamespacedName,
}

/// An object of a file. `Item` has no `Debug`, so its content cannot reach a formatter.
pub struct Item {
    /// Kind and name.
    pub of: FileObject,
    /// Where its document begins.
    pub place: Place,
    /// The object as the file has it.
    pub value: Value,
}

/// Returns an item if the webhook judges objects of this kind; otherwise the document unchanged. An object without a namespace
/// belongs to `home`.
pub(crate) fn item(document: Document, home: &str) -> Result<Item, Document> {
    let Some(kind) = FileKind::of(document.text("/apiVersion"), document.text("/kind")) else {
        return Err(document);
    };
    let namespace = match document.text("/metadata/namespace") {
        _ if !kind.is_namespaced() => "",
        "" => home,
        own => own,
    };
    let name = NamespacedName::new(namespace, document.text("/metadata/name"));
    let Document { place, value } = document;
    Ok(Item { of: FileObject { kind, name }, place, value })
}

impl FileObject {
    /// The key of a ConfigMap or Secret; `None` for other kinds.
    pub(crate) fn data(&self) -> Option<ObjectKey> {
        let kind = self.kind.data()?.into();
        Some(ObjectKey::new(kind, self.name.namespace.clone(), self.name.name.clone()))
    }

    /// The namespace that a review names: a Namespace is in itself.
    pub(crate) fn place(&self) -> &str {
        if self.kind == FileKind::Namespace { &self.name.name } else { &self.name.namespace }
    }
}

/// `Kind namespace/name`.
impl fmt::Display for FileObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&title(self.kind.as_str(), &self.name.namespace, &self.name.name))
    }
}

/// An object as messages name it; the namespace may be empty.
pub(crate) fn title(kind: &str, namespace: &str, name: &str) -> String {
    let name = if name.is_empty() { "(unnamed)" } else { name };
    match namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}
