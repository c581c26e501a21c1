//! The object that a policy judges, decoded from its JSON.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;

use crate::{api::PolicyKind, marks::CopyMarks};

/// An object as a policy sees it. It holds values and therefore has no `Debug`, `Display` or `Serialize`.
pub struct Candidate<'a> {
    /// ConfigMap, Secret or Namespace.
    pub kind: PolicyKind,
    /// Its namespace; for a Namespace its own name.
    pub namespace: Cow<'a, str>,
    /// Its name, or the prefix it will be generated from.
    pub name: Cow<'a, str>,
    /// Its labels; `None` where it has no map of them.
    pub labels: Option<BTreeMap<String, String>>,
    /// Its annotations; `None` where it has no map of them.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Marked for deletion.
    pub deleting: bool,
    /// A Secret's type.
    pub type_: Option<Cow<'a, str>>,
    /// Whether it is immutable.
    pub immutable: bool,
    pub(super) data: BTreeMap<Cow<'a, str>, Cow<'a, [u8]>>,
    pub(super) raw: &'a str,
}

/// Why an object could not be read. Never quotes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CandidateError {
    /// The JSON is not that of such an object.
    #[error("the object cannot be read at line {line} column {column}")]
    Unreadable {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A value that should be base64 is not.
    #[error("key {key:?} of the object is not base64")]
    NotBase64 {
        /// The key.
        key: String,
    },
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    generate_name: Option<Text<'a>>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    labels: Option<BTreeMap<String, Option<String>>>,
    annotations: Option<BTreeMap<String, Option<String>>>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

type Values<'a> = Option<BTreeMap<Text<'a>, Option<Text<'a>>>>;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Wire<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    data: Values<'a>,
    #[serde(borrow)]
    binary_data: Values<'a>,
    #[serde(borrow)]
    string_data: Values<'a>,
    #[serde(borrow, rename = "type")]
    type_: Option<Text<'a>>,
    immutable: Option<bool>,
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<'a> Candidate<'a> {
    /// Reads an object of a kind known from elsewhere (the review, or a manifest's own `kind`).
    ///
    /// # Errors
    /// The JSON is not that of such an object.
    pub fn decode(kind: PolicyKind, raw: &'a str) -> Result<Self, CandidateError> {
        let wire: Wire<'a> = serde_json::from_str(raw)
            .map_err(|error| CandidateError::Unreadable { line: error.line(), column: error.column() })?;
        let mut data = BTreeMap::new();
        let encoded = kind == PolicyKind::Secret;
        take(&mut data, wire.data, encoded)?;
        take(&mut data, wire.binary_data, true)?;
        take(&mut data, wire.string_data, false)?;
        let meta = wire.metadata;
        let name = meta
            .name
            .filter(|name| !name.0.is_empty())
            .or(meta.generate_name)
            .map_or_else(Default::default, |t| t.0);
        let namespace = match kind {
            PolicyKind::Namespace => name.clone(),
            _ => meta.namespace.map_or_else(Default::default, |text| text.0),
        };
        Ok(Self {
            kind,
            namespace,
            name,
            labels: meta.labels.map(present),
            annotations: meta.annotations.map(present),
            deleting: meta.deletion_timestamp.is_some(),
            type_: wire.type_.map(|text| text.0),
            immutable: wire.immutable.unwrap_or(false),
            data,
            raw,
        })
    }

    /// An object of which kind, name and labels are all that is known: whether a policy speaks of it hangs on nothing else.
    pub fn of_metadata(
        kind: PolicyKind,
        namespace: &'a str,
        name: &'a str,
        labels: BTreeMap<String, String>,
    ) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            labels: Some(labels),
            annotations: None,
            deleting: false,
            type_: None,
            immutable: false,
            data: BTreeMap::new(),
            raw: "{}",
        }
    }

    /// The same object without its content, to try other labels on.
    pub fn without_data(&self) -> Candidate<'_> {
        Candidate {
            kind: self.kind,
            namespace: Cow::Borrowed(&self.namespace),
            name: Cow::Borrowed(&self.name),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            deleting: self.deleting,
            type_: self.type_.as_deref().map(Cow::Borrowed),
            immutable: self.immutable,
            data: BTreeMap::new(),
            raw: "{}",
        }
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Our marks, where all of them are there; whether they verify is the caller's to say.
    pub fn marks(&self) -> Option<CopyMarks> {
        CopyMarks::read(|key| self.annotation(key).map(Into::into))
            .filter(|marks| marks.is_labelled(|key| self.label(key).map(Into::into)))
    }

    /// The keys of its data.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.data.keys().map(|key| &**key)
    }

    /// The keys whose value differs from `other`'s, those of either side alone included.
    pub fn changed_keys(&self, other: &Self) -> Vec<String> {
        let keys: std::collections::BTreeSet<_> = self.data.keys().chain(other.data.keys()).collect();
        keys.into_iter()
            .filter(|key| self.data.get(*key) != other.data.get(*key))
            .map(|key| key.clone().into_owned())
            .collect()
    }

    /// Content and what policies can see of the metadata are the same: at most finalizers, owners, the
    /// deletion or the bookkeeping of the API server differ.
    pub fn same_but_for_bookkeeping(&self, other: &Self) -> bool {
        self.data == other.data
            && self.labels.iter().flatten().eq(other.labels.iter().flatten())
            && self.annotations.iter().flatten().eq(other.annotations.iter().flatten())
            && self.type_ == other.type_
            && self.immutable == other.immutable
    }

    /// Bytes of all keys and values.
    pub(super) fn size(&self) -> u64 {
        self.size_of(|_| true)
    }

    /// Bytes of those keys that count, and of their values.
    pub fn size_of(&self, counts: impl Fn(&str) -> bool) -> u64 {
        let counted = self.data.iter().filter(|(key, _)| counts(key));
        counted.map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }
}

fn present(map: BTreeMap<String, Option<String>>) -> BTreeMap<String, String> {
    map.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect()
}

fn take<'a>(
    data: &mut BTreeMap<Cow<'a, str>, Cow<'a, [u8]>>,
    values: Values<'a>,
    encoded: bool,
) -> Result<(), CandidateError> {
    for (Text(key), value) in values.into_iter().flatten() {
        let text = value.map_or(Cow::Borrowed(""), |value| value.0);
        let bytes = if encoded {
            let clean: Cow<'_, str> = match text.contains(['\n', '\r']) {
                true => text.replace(['\n', '\r'], "").into(),
                false => text,
            };
            let decoded = STANDARD.decode(clean.as_bytes());
            Cow::Owned(decoded.map_err(|_| CandidateError::NotBase64 { key: key.clone().into_owned() })?)
        } else {
            match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            }
        };
        data.insert(key, bytes);
    }
    Ok(())
}
