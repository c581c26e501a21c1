//! One object as the model of the API server keeps it: fields, and who owns which.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copyrator::{
    digest::{DigestKey, Fingerprint, KeyPrint},
    marks::never_carried,
    model::{Owner, WriteFault, keeper},
    names::{Kind, ObjectKey},
    paths::{child, managed, place},
    plan::copy::Version,
    testing::Outcome,
};
use serde_json::{Value, json};

use super::acting::at;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    Data(String),
    Binary(String),
    /// The JSON text of a leaf, of a kind without data.
    Path(String),
    /// Only ever owned, never there.
    StringData(String),
    Label(String),
    Annotation(String),
    Type,
    Immutable,
}

pub type Fields = BTreeMap<Field, Vec<u8>>;

/// One entry of managedFields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub manager: String,
    pub apply: bool,
    pub fields: BTreeSet<Field>,
}

#[derive(Clone, Debug, Default)]
pub struct Stored {
    pub uid: u64,
    pub resource_version: u64,
    pub values: Fields,
    pub entries: Vec<Entry>,
    /// A finalizer that is not ours.
    pub held: bool,
    pub deleting: bool,
    /// Somebody's owner reference.
    pub owned: bool,
}

impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        (&self.values, &self.entries, self.owned) == (&other.values, &other.entries, other.owned)
    }
}

impl Field {
    fn is_content(&self) -> bool {
        matches!(self, Self::Data(_) | Self::Binary(_) | Self::Path(_))
    }

    fn path(&self) -> String {
        match self {
            Self::Data(key) => child("/data", key),
            Self::Binary(key) => child("/binaryData", key),
            Self::Path(path) => path.clone(),
            Self::StringData(key) => child("/stringData", key),
            Self::Label(key) => child("/metadata/labels", key),
            Self::Annotation(key) => child("/metadata/annotations", key),
            Self::Type => "/type".into(),
            Self::Immutable => "/immutable".into(),
        }
    }
}

impl Entry {
    fn json(&self) -> Value {
        let mut fields = json!({});
        for field in &self.fields {
            place(&mut fields, &managed(&field.path()), json!({}));
        }
        let operation = if self.apply { "Apply" } else { "Update" };
        json!({"manager": self.manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    }
}

impl Stored {
    pub fn version(&self) -> Version {
        Version {
            uid: self.uid.to_string().into(),
            resource_version: self.resource_version.to_string().into(),
        }
    }

    pub fn entry(&mut self, manager: &str, apply: bool) -> &mut BTreeSet<Field> {
        let is_it = |entry: &Entry| entry.manager == manager && entry.apply == apply;
        let at = self.entries.iter().position(is_it).unwrap_or_else(|| {
            self.entries.push(Entry { manager: manager.into(), apply, fields: BTreeSet::new() });
            self.entries.len() - 1
        });
        &mut self.entries[at].fields
    }

    pub fn content(&self) -> Fields {
        let content = self.values.iter().filter(|(field, _)| field.is_content());
        content.map(|(field, value)| (field.clone(), value.clone())).collect()
    }

    fn immutable(&self) -> bool {
        self.values.get(&Field::Immutable).is_some_and(|value| value == b"true")
    }

    /// Why the API server would not have an update.
    pub fn forbids(&self, new: &Self) -> Option<Outcome> {
        let is_of_role = |field: &Field| matches!(field, Field::Path(path) if path.starts_with("/roleRef/"));
        let role = |stored: &Self| -> Fields {
            let of_role = stored.values.iter().filter(|(field, _)| is_of_role(field));
            of_role.map(|(field, value)| (field.clone(), value.clone())).collect()
        };
        let type_changed = self.values.get(&Field::Type) != new.values.get(&Field::Type);
        let frozen = self.immutable() && (!new.immutable() || self.content() != new.content());
        (type_changed || frozen || role(self) != role(new))
            .then(|| Outcome::NeedsReplacing("field is immutable".into()))
    }

    pub fn is_invalid(&self) -> Option<Outcome> {
        let twice = self.values.keys().any(|field| match field {
            Field::Data(key) => self.values.contains_key(&Field::Binary(key.clone())),
            _ => false,
        });
        twice.then(|| Outcome::Refused { reason: WriteFault::Refused, message: "duplicate of key".into() })
    }

    fn texts(&self, of: impl Fn(&Field) -> Option<&String>) -> BTreeMap<String, String> {
        let text = |value: &Vec<u8>| String::from_utf8(value.clone()).unwrap();
        self.values.iter().filter_map(|(field, value)| Some((of(field)?.clone(), text(value)))).collect()
    }

    pub fn labels(&self) -> BTreeMap<String, String> {
        self.texts(|field| if let Field::Label(key) = field { Some(key) } else { None })
    }

    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.texts(|field| if let Field::Annotation(key) = field { Some(key) } else { None })
    }

    /// PartialObjectMetadata of it.
    pub fn metadata(&self, key: &ObjectKey) -> Value {
        let Version { uid, resource_version } = self.version();
        let gone = self.deleting.then_some("1970-01-01T00:00:00Z");
        let owners: &[Value] = if self.owned { &[json!({"kind": "Pod", "name": "none"})] } else { &[] };
        let finalizers: &[&str] = if self.held { &["example.com/held"] } else { &[] };
        json!({"metadata": {
            "ownerReferences": owners, "finalizers": finalizers,
            "name": &*key.name, "namespace": &*key.namespace, "uid": uid, "resourceVersion": resource_version,
            "creationTimestamp": at(self.uid as i64), "deletionTimestamp": gone, "labels": self.labels(), "annotations": self.annotations(),
            "managedFields": self.entries.iter().map(Entry::json).collect::<Vec<_>>(),
        }})
    }

    pub fn fingerprint(&self, kind: Kind, digest_key: &DigestKey) -> Fingerprint {
        let Version { uid, resource_version } = self.version();
        let print = |binary, value: &Vec<u8>| KeyPrint {
            digest: digest_key.value(value),
            size: value.len() as u64,
            binary,
        };
        let keys = self.values.iter().filter_map(|(field, value)| match (kind, field) {
            (Kind::ConfigMap, Field::Data(key)) => Some((key.clone(), print(false, value))),
            (Kind::ConfigMap, Field::Binary(key)) => Some((key.clone(), print(true, value))),
            (Kind::Secret, Field::Data(key)) => {
                Some((key.clone(), print(std::str::from_utf8(value).is_err(), value)))
            }
            (_, Field::Path(path)) => Some((path.clone(), print(false, value))),
            _ => None,
        });
        let mut annotations = self.annotations();
        let owner = self.owned.then(|| Owner { kind: "Pod".into(), name: "none".into(), ..Owner::default() });
        let keeper = keeper(&self.labels(), &annotations, owner.as_slice());
        annotations.retain(|key, _| !never_carried(key));
        let type_ = self.values.get(&Field::Type).map(|value| String::from_utf8(value.clone()).unwrap());
        Fingerprint {
            uid,
            resource_version,
            type_,
            immutable: self.immutable(),
            keys: keys.collect(),
            annotations,
            role: self.cluster_role(),
            keeper,
        }
    }

    /// The ClusterRole that a RoleBinding names.
    fn cluster_role(&self) -> Option<Box<str>> {
        let leaf = |name: &str| -> Option<String> {
            let text = self.values.get(&Field::Path(format!("/roleRef/{name}")))?;
            serde_json::from_slice(text).ok()
        };
        leaf("name").filter(|_| leaf("kind").as_deref() == Some("ClusterRole")).map(Into::into)
    }

    /// Content, labels and annotations but for our marks, for people.
    pub fn text(&self) -> String {
        let mut words = Vec::new();
        for (field, value) in &self.values {
            let value = std::str::from_utf8(value).map_or_else(|_| STANDARD.encode(value), str::to_owned);
            match field {
                Field::Data(key) => words.push(format!("{key}={value}")),
                Field::Binary(key) => words.push(format!("binary {key}={value}")),
                Field::Path(path) => words.push(format!("{path}={value}")),
                Field::Label(key) if !copyrator::marks::is_mark(key) => {
                    words.push(format!("label {key}={value}"))
                }
                Field::Annotation(key) if !key.starts_with("copyrator.dev/") => {
                    words.push(format!("annotation {key}={value}"));
                }
                Field::Type if value != "Opaque" => words.push(format!("type {value}")),
                Field::Immutable if value == "true" => words.push("immutable".into()),
                _ => {}
            }
        }
        if self.owned {
            words.push("owned".into());
        }
        if words.is_empty() { "empty".into() } else { words.join(", ") }
    }
}
