//! The intended state of a copy, from the source's fingerprint and the rule's `spec.copy`, without the
//! content.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    api::DataKind,
    digest::{DigestKey, Fingerprint, KeyPrint},
    marks::{CopyMarks, OBJECT, SharedMarks, field_set, is_mark},
    model::{ForeignField, ObjectFacts, OwnFields, Owner, World},
    names::{Kind, ObjectKey},
    paths::is_within,
    plan::copy::claims::{Claim, RemovalPolicy, Wants},
    validate::{CompiledKeys, CompiledRule},
};

/// The path of the role that a RoleBinding names. The API server refuses every change of this field.
const ROLE_REF: &str = "/roleRef";

/// The intended state of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The copy's key for each key of the source that is copied.
    pub keys: BTreeMap<String, String>,
    /// Digests of the content, by the copy's keys; for kinds without data by paths ([`crate::paths`]).
    pub content: BTreeMap<String, KeyPrint>,
    /// The Secret's `type`; `None` for a ConfigMap.
    pub type_: Option<String>,
    /// Whether the copy is immutable, like its source.
    pub immutable: bool,
    /// The copy's labels, including our marks.
    pub labels: BTreeMap<String, String>,
    /// The copy's annotations, including our marks.
    pub annotations: BTreeMap<String, String>,
    /// The marks, which `labels` and `annotations` contain, too.
    pub marks: CopyMarks,
    /// The only owner that the copy should have.
    pub owner: Option<Owner>,
}

impl Intent {
    /// The intended copy of the claim's source in this slot.
    pub(super) fn new(
        world: &World,
        claim: &Claim<'_>,
        slot: &ObjectKey,
        print: &Fingerprint,
        key: &DigestKey,
        removal: RemovalPolicy,
    ) -> Self {
        let type_ = print.type_.as_deref().filter(|_| slot.kind == Kind::Secret);
        let (keys, type_, mut labels, mut annotations) = match &claim.wants {
            Wants::Copy { compiled: CompiledRule { shape, .. }, .. } => {
                let source = world.object(&claim.source).into_iter().flat_map(|source| source.labels.iter());
                let labels = shape.labels.carried(source);
                let all = print.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                let type_ = type_.map(|type_| shape.keys.copied_type(type_));
                (carried_keys(&shape.keys, print), type_, labels, shape.annotations.carried(all))
            }
            Wants::Object { object, .. } => {
                let keys = print.keys.keys().map(|key| (key.clone(), key.clone())).collect();
                (keys, type_, object.labels.clone(), print.annotations.clone())
            }
        };
        let content: BTreeMap<String, KeyPrint> =
            keys.iter().filter_map(|(from, to)| Some((to.clone(), print.keys.get(from)?.clone()))).collect();
        let type_ = type_.map(str::to_owned);
        let shaped = Fingerprint { type_: type_.clone(), keys: content.clone(), ..print.clone() };
        let rule = claim.rule.clone();
        let marks = CopyMarks {
            mark: key.mark(slot, &rule).into(),
            remove_after: None,
            shared: Arc::new(SharedMarks {
                source: claim.source.named(),
                source_uid: print.uid.to_string(),
                digest: key.content(&shaped, &labels, &annotations),
                on_removal: Some(removal.on_removal),
                own_removal: removal.is_own,
                definition: None,
                names_itself: true,
                rule,
            }),
        };
        labels.extend(marks.labels());
        annotations.extend(marks.annotations(slot));
        Self {
            keys,
            content,
            type_,
            immutable: print.immutable,
            labels,
            annotations,
            marks,
            owner: claim.owner().cloned(),
        }
    }

    /// The fields that our apply of this copy owns, but for [`OBJECT`].
    pub fn own_fields(&self, kind: Kind) -> OwnFields {
        let labels = self.labels.keys().map(|key| format!("label/{key}"));
        let annotations = self.annotations.keys().filter(|key| *key != OBJECT);
        let annotations = annotations.map(|key| format!("annotation/{key}"));
        if !kind.is_whole() {
            return OwnFields::Names(field_set(labels.chain(annotations)));
        }
        if kind.data().is_none() {
            let paths = self.content.keys().cloned().collect();
            return OwnFields::Paths(Box::new((field_set(labels.chain(annotations)), paths)));
        }
        let data = self.content.iter().map(|(key, print)| match (kind, print.binary) {
            (Kind::ConfigMap, true) => format!("binaryData/{key}"),
            _ => format!("data/{key}"),
        });
        let type_ = self.type_.iter().map(|_| "type".to_owned());
        let immutable = self.immutable.then(|| "immutable".to_owned());
        OwnFields::Names(field_set(data.chain(labels).chain(annotations).chain(type_).chain(immutable)))
    }

    /// Whether an existing object has exactly this content, with each key in the same map: a pod's
    /// environment gets no value from `binaryData`.
    pub fn same_content(&self, print: &Fingerprint) -> bool {
        self.type_ == print.type_ && self.immutable == print.immutable && self.content == print.keys
    }

    /// Whether no update can turn an existing object into the intended copy: the object is immutable, or its
    /// Secret type or RoleBinding role differs.
    pub fn needs_replacing(&self, kind: Kind, print: &Fingerprint) -> bool {
        let is_of_role = |(leaf, _): &(&String, &KeyPrint)| is_within(leaf, ROLE_REF);
        let other_role = || !self.content.iter().filter(is_of_role).eq(print.keys.iter().filter(is_of_role));
        self.type_ != print.type_
            || (print.immutable && !self.same_content(print))
            || (kind == Kind::RoleBinding && other_role())
    }

    /// Whether an existing object has every label of the intended copy, no matter which manager wrote the
    /// labels.
    pub fn same_labels(&self, facts: &ObjectFacts) -> bool {
        facts.labels.may_have_all(&self.labels)
    }

    /// Whether an existing object has every label and annotation of the intended copy, no matter which
    /// manager wrote them.
    pub fn same_meta(&self, facts: &ObjectFacts, print: &Fingerprint) -> bool {
        let mut others = self.annotations.iter().filter(|(key, _)| !is_mark(key));
        self.same_labels(facts) && others.all(|(key, value)| print.annotations.get(key) == Some(value))
    }

    /// The keys of an existing object that this intent lacks. Surplus keys are nulled before the apply: the
    /// apply alone would leave keys that another manager owns (server-side apply, KEP-555).
    pub fn surplus(&self, kind: Kind, print: &Fingerprint) -> Vec<ForeignField> {
        let Some(data) = kind.data() else {
            let surplus: BTreeSet<&str> = print.keys.keys().filter_map(|leaf| self.unwanted(leaf)).collect();
            return surplus.into_iter().map(|path| ForeignField::Path(path.to_owned())).collect();
        };
        let wanted = |key: &str, print: &KeyPrint| {
            self.content
                .get(key)
                .is_some_and(|wanted| data == DataKind::Secret || wanted.binary == print.binary)
        };
        let surplus = print.keys.iter().filter(|(key, print)| !wanted(key, print));
        surplus.map(|(key, print)| field(kind, key, print)).collect()
    }

    /// The shortest path to an unwanted leaf of an existing object below which there is no wanted leaf: a map
    /// that would become empty is removed as a whole, since an empty selector selects everything.
    fn unwanted<'l>(&self, leaf: &'l str) -> Option<&'l str> {
        let ends = leaf.match_indices('/').map(|(at, _)| at).skip(1).chain([leaf.len()]);
        ends.map(|end| &leaf[..end]).find(|path| !self.content.keys().any(|wanted| is_within(wanted, path)))
    }
}

/// Bytes of the keys and values that are copied.
pub(super) fn carried_bytes(shape: &CompiledKeys, print: &Fingerprint) -> u64 {
    let keys = carried_keys(shape, print);
    let carried = keys.iter().filter_map(|(from, to)| Some(to.len() as u64 + print.keys.get(from)?.size));
    carried.sum()
}

/// The copy's key for each key of the source that is copied. A renamed key wins over a source key of that
/// name.
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
    match (kind.data(), print.binary) {
        (Some(DataKind::ConfigMap), true) => ForeignField::BinaryData(key.to_owned()),
        (Some(DataKind::ConfigMap | DataKind::Secret), _) => ForeignField::Data(key.to_owned()),
        (None, _) => ForeignField::Path(key.to_owned()),
    }
}
