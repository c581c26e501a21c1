//! What a copy is meant to be, from its source's fingerprint and its rule's shape. No content.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    digest::{DigestKey, Fingerprint, KeyPrint},
    marks::{CopyMarks, OnRemoval, field_set},
    model::{ForeignField, ObjectFacts},
    names::{Kind, ObjectKey},
    plan::copy::claims::Claim,
    validate::CompiledKeys,
};

/// What a copy is meant to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The key of the copy for each key of the source that is carried over.
    pub keys: BTreeMap<String, String>,
    /// Content as it will be, by the copy's keys.
    pub content: BTreeMap<String, KeyPrint>,
    /// A Secret's type.
    pub type_: Option<String>,
    /// Immutable like its source.
    pub immutable: bool,
    /// Labels, our marks among them.
    pub labels: BTreeMap<String, String>,
    /// Annotations, our marks among them.
    pub annotations: BTreeMap<String, String>,
    /// Our marks.
    pub marks: CopyMarks,
}

impl Intent {
    /// What the claim makes of its source.
    pub fn new(
        claim: &Claim<'_>,
        slot: &ObjectKey,
        source: &ObjectFacts,
        print: &Fingerprint,
        key: &DigestKey,
        default_grace: Duration,
    ) -> Self {
        let shape = &claim.compiled.shape;
        let keys = carried_keys(&shape.keys, print);
        let content: BTreeMap<String, KeyPrint> =
            keys.iter().filter_map(|(from, to)| Some((to.clone(), print.keys.get(from)?.clone()))).collect();
        let mut labels = shape.labels.carried(source.labels.iter().map(|(key, value)| (&**key, &**value)));
        let mut annotations = shape
            .annotations
            .carried(print.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let type_ = print.type_.clone().filter(|_| shape.kind == Kind::Secret);
        let shaped = Fingerprint { type_: type_.clone(), keys: content.clone(), ..print.clone() };
        let rule = claim.rule.clone();
        let marks = CopyMarks {
            source: claim.source.named(),
            source_uid: source.uid.to_string(),
            digest: key.content(&shaped, &labels, &annotations),
            on_removal: Some(OnRemoval::new(
                claim.compiled.deletion,
                claim.compiled.grace.unwrap_or(default_grace),
            )),
            mark: key.mark(slot, &rule),
            remove_after: None,
            definition: None,
            rule,
        };
        labels.extend(marks.labels());
        annotations.extend(marks.annotations());
        Self { keys, content, type_, immutable: print.immutable, labels, annotations, marks }
    }

    /// The set of fields that our apply of this copy owns.
    pub fn field_set(&self, kind: Kind) -> u64 {
        let data = self.content.iter().map(|(key, print)| match (kind, print.binary) {
            (Kind::ConfigMap, true) => format!("binaryData/{key}"),
            _ => format!("data/{key}"),
        });
        let labels = self.labels.keys().map(|key| format!("label/{key}"));
        let annotations = self.annotations.keys().map(|key| format!("annotation/{key}"));
        let type_ = self.type_.iter().map(|_| "type".to_owned());
        let immutable = self.immutable.then(|| "immutable".to_owned());
        field_set(data.chain(labels).chain(annotations).chain(type_).chain(immutable))
    }

    /// Whether an existing object's content is exactly this one's, key for key and each in its place: the
    /// environment of a pod takes nothing from `binaryData`.
    pub fn same_content(&self, print: &Fingerprint) -> bool {
        self.type_ == print.type_ && self.immutable == print.immutable && self.content == print.keys
    }

    /// Whether no update makes an existing object this one: what is immutable stays so, and a Secret's type
    /// is.
    pub fn needs_replacing(&self, print: &Fingerprint) -> bool {
        self.type_ != print.type_ || (print.immutable && !self.same_content(print))
    }

    /// Whether an existing object carries every label of this one, no matter who wrote them.
    pub fn same_labels(&self, facts: &ObjectFacts) -> bool {
        let label = |key: &str| facts.labels.get(key).map(|value| &**value);
        self.labels.iter().all(|(key, value)| label(key) == Some(value.as_str()))
    }

    /// Whether an existing object carries every label and annotation of this one, no matter who wrote them.
    pub fn same_meta(&self, facts: &ObjectFacts, print: &Fingerprint) -> bool {
        let ours = self.marks.annotations();
        let mut others = self.annotations.iter().filter(|(key, _)| !ours.contains_key(*key));
        self.same_labels(facts) && others.all(|(key, value)| print.annotations.get(key) == Some(value))
    }

    /// The keys of an existing object that this one lacks: they are nulled before an apply, which alone would
    /// leave another manager's keys where they are (server-side apply, KEP-555).
    pub fn surplus(&self, kind: Kind, print: &Fingerprint) -> Vec<ForeignField> {
        let wanted = |key: &str, print: &KeyPrint| {
            self.content.get(key).is_some_and(|wanted| kind == Kind::Secret || wanted.binary == print.binary)
        };
        let surplus = print.keys.iter().filter(|(key, print)| !wanted(key, print));
        surplus.map(|(key, print)| field(kind, key, print)).collect()
    }
}

/// Bytes of what is carried over, keys and values.
pub(super) fn carried_bytes(shape: &CompiledKeys, print: &Fingerprint) -> u64 {
    let keys = carried_keys(shape, print);
    let carried = keys.iter().filter_map(|(from, to)| Some(to.len() as u64 + print.keys.get(from)?.size));
    carried.sum()
}

/// The copy's key for each key of the source that is carried over. Where a key is renamed to one that the
/// source has too, the renamed one is meant.
fn carried_keys(shape: &CompiledKeys, print: &Fingerprint) -> BTreeMap<String, String> {
    let carried = print.keys.keys().filter_map(|from| Some((from, shape.carried(from)?)));
    let (renamed, kept): (Vec<_>, Vec<_>) = carried.partition(|(from, to)| from != to);
    let taken: BTreeSet<&str> = renamed.iter().map(|(_, to)| *to).collect();
    let kept = kept.into_iter().filter(|(_, to)| !taken.contains(to));
    let keys = renamed.iter().copied().chain(kept);
    keys.map(|(from, to)| (from.clone(), to.to_owned())).collect()
}

/// The fields of an object's content.
pub(super) fn fields_of(kind: Kind, print: &Fingerprint) -> Vec<ForeignField> {
    print.keys.iter().map(|(key, print)| field(kind, key, print)).collect()
}

fn field(kind: Kind, key: &str, print: &KeyPrint) -> ForeignField {
    match (kind, print.binary) {
        (Kind::ConfigMap, true) => ForeignField::BinaryData(key.to_owned()),
        _ => ForeignField::Data(key.to_owned()),
    }
}
