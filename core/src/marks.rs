//! Every annotation, label and field manager of Copyrator, and the names of its Secrets. Only this file reads
//! and writes the annotations and labels.

mod foreign;
mod on_removal;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use jiff::Timestamp;

pub(crate) use self::foreign::is_below;
pub use self::{
    foreign::{is_of_keeper, never_carried},
    on_removal::OnRemoval,
};
use crate::{
    digest::DigestKey,
    names::{Declarer, Kind, NamespacedName, ObjectKey},
};

/// Field manager of copies.
pub const COPY_MANAGER: &str = "copyrator-copy";
/// Field manager of the removal mark.
pub const REMOVAL_MANAGER: &str = "copyrator-removal";
/// Field manager of restarts: the applied label together with the pod template's annotation.
pub const RESTART_MANAGER: &str = "copyrator-restart";
/// Field manager of the applied label when it is written without a restart.
pub const ADOPT_MANAGER: &str = "copyrator-adopt";
/// Field manager of the record of the content that the selected pods run. The record has its own field
/// manager beside that of statuses, since two applies under one manager delete each other's fields.
pub const PODS_MANAGER: &str = "copyrator-pods";
/// Field manager of [`AUTHORIZED`].
pub const GRANT_MANAGER: &str = "copyrator-grant";
/// Field manager of statuses.
pub const STATUS_MANAGER: &str = "copyrator-status";
/// Field manager of [`SOURCE_INDEX`].
pub const INDEX_MANAGER: &str = "copyrator-index";
/// Field manager of templates that a user writes through `copyrator console`.
pub const CONSOLE_MANAGER: &str = "copyrator-console";
/// Field manager of the webhook configurations.
pub const HOOKS_MANAGER: &str = "copyrator-hooks";

/// Label of every copy, with the value [`MANAGED_BY_VALUE`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] on every copy.
pub const MANAGED_BY_VALUE: &str = "copyrator";
/// Label of a copy: hash of the rule's namespace and name, since names can exceed a label's 63 characters.
pub const RULE_LABEL: &str = "copyrator.dev/rule";
/// Label selector of copies and rendered objects.
pub const OF_COPIES: &str = "app.kubernetes.io/managed-by=copyrator,copyrator.dev/rule";
/// Annotation of a copy: the rule's `namespace/name`.
pub const RULE: &str = "copyrator.dev/rule";
/// Annotation of a copy: the source's `namespace/name`.
pub const SOURCE: &str = "copyrator.dev/source";
/// Annotation of a copy: the source's UID.
pub const SOURCE_UID: &str = "copyrator.dev/source-uid";
/// Annotation of a copy: digest of the copy's intended state.
pub const DIGEST: &str = "copyrator.dev/digest";
/// Annotation of a copy: what happens to the copy when it is orphaned: `Delete/5m`, `Retain` or `Adopted`.
/// The suffix `/object` means that the policy is for this one object of its template.
pub const ON_REMOVAL: &str = "copyrator.dev/on-removal";
/// Annotation of a copy: keyed proof that the other marks are ours.
pub const MARK: &str = "copyrator.dev/mark";
/// Annotation of a copy: the copy itself, in clear text ([`in_clear`]). A tool that copies the copy's
/// annotations to a second object, or restores the copy elsewhere, copies this annotation too. On the second
/// object, the annotation shows that the marks belong to the first object.
pub const OBJECT: &str = "copyrator.dev/object";
/// Annotation of an orphaned copy: when it will be deleted.
pub const REMOVE_AFTER: &str = "copyrator.dev/remove-after";
/// Annotation of a copy: the UID of the CustomResourceDefinition under which its rule was last seen. The
/// annotation is written with the copy, and alone when the rule is created again under another definition.
pub const DEFINITION: &str = "copyrator.dev/definition";
/// Annotation of a source: the namespaces that get a copy, names and globs.
pub const COPY_TO: &str = "copyrator.dev/copy-to";
/// Annotation of a source: the labels of the namespaces that get a copy.
pub const COPY_TO_SELECTOR: &str = "copyrator.dev/copy-to-selector";
/// Annotation of a ConfigMap or Secret: the labels of the pods that are deleted when its content changes.
pub const RESTART_PODS: &str = "copyrator.dev/restart-pods";
/// The annotations by which an object declares copies or restarts, with the rights of the annotations'
/// author.
pub const ASKING: [&str; 3] = [COPY_TO, COPY_TO_SELECTOR, RESTART_PODS];
/// Label of a ConfigMap or Secret without which its annotations of [`ASKING`] have no effect. The policies
/// that guard the author annotations select objects by this label, so writes of other objects cost nothing.
pub const DECLARES: &str = "copyrator.dev/declares";
/// The only value of [`DECLARES`] that has an effect.
pub const DECLARES_VALUE: &str = "true";
/// Annotation of an object with [`RESTART_PODS`]: the content that the selected pods run; written by us.
pub const PODS_APPLIED: &str = "copyrator.dev/pods-applied";
/// Annotation of an object with one of [`ASKING`]: keyed proofs that its author had the rights, one for
/// copies and one for restarts, separated by a comma; written by us.
pub const AUTHORIZED: &str = "copyrator.dev/authorized";
/// Annotation of a workload, ConfigMap or Secret: whether it takes part in restarts.
pub const RESTART: &str = "copyrator.dev/restart";
/// Annotation of a pod template: the content for which we restarted the workload.
pub const RESTARTED_FOR: &str = "copyrator.dev/restarted-for";
/// Label of a workload: the content that the workload runs, and a short digest of its inputs without their
/// content: `<key id>.<digest>.<scope>`.
pub const APPLIED: &str = "copyrator.dev/applied";
/// Label of a workload: `<streak>.<failures>` of its restarts ([`crate::model::TrackRecord`]).
pub const BRAKE: &str = "copyrator.dev/brake";
/// Label of a workload: the content with which the workload was last ready, as of our last write: `<key
/// id>.<digest>`.
pub const LAST_GOOD: &str = "copyrator.dev/last-good";
/// Label of a namespace: with the value `refuse`, Copyrator makes no copies in the namespace.
pub const COPIES: &str = "copyrator.dev/copies";
/// Annotation of our own kinds, and of objects that declare copies or restarts: the user who wrote the spec.
pub const AUTHOR: &str = "copyrator.dev/author";
/// Annotation of our own kinds: the groups of the user who wrote the spec, as a JSON list.
pub const AUTHOR_GROUPS: &str = "copyrator.dev/author-groups";
/// Annotation of a monitor: restart once, without waiting for window and interval.
pub const RESTART_NOW: &str = "copyrator.dev/restart-now";
/// Annotation of a webhook configuration, for emergencies: the operator does not change the configuration.
pub const HANDS_OFF: &str = "copyrator.dev/hands-off";

/// The prefix of every label and annotation of ours.
pub const PREFIX: &str = "copyrator.dev/";
/// The annotations that are read from ConfigMaps and Secrets; other annotations are not kept in memory.
const READ: [&str; 17] = [
    RULE,
    SOURCE,
    SOURCE_UID,
    DIGEST,
    ON_REMOVAL,
    MARK,
    OBJECT,
    REMOVE_AFTER,
    DEFINITION,
    COPY_TO,
    COPY_TO_SELECTOR,
    RESTART_PODS,
    PODS_APPLIED,
    AUTHORIZED,
    RESTART,
    AUTHOR,
    AUTHOR_GROUPS,
];
/// Longest value of an annotation that is read, in bytes; longer values are ignored.
pub const LONGEST: usize = 16 << 10;
/// Longest list of groups, in bytes. The API server writes the list, so a user cannot choose its length.
const LONGEST_GROUPS: usize = 64 << 10;
/// Longest mark of a copy, in bytes; a longer mark is not ours. Any user may put marks on an object, and the
/// marks of every object stay in memory.
const LONGEST_MARK: usize = 1 << 10;

/// How many bytes of a ConfigMap's or Secret's annotation are kept: one more than the limit, to recognise a
/// value that is too long. `None` for an annotation that is not read.
pub(crate) fn kept_bytes(annotation: &str) -> Option<usize> {
    let longest = match annotation {
        AUTHOR_GROUPS => LONGEST_GROUPS,
        REMOVE_AFTER | DEFINITION => LONGEST_MARK,
        mark if is_mark(mark) => LONGEST_MARK,
        _ => LONGEST,
    };
    READ.contains(&annotation).then_some(longest + 1)
}

/// Annotation of [`CA_SECRET`], with any value: rotate the CA now, in steps during which no webhook call
/// fails.
pub const ROTATE: &str = "copyrator.dev/rotate";
/// Annotation of [`CA_SECRET`]: since when every webhook configuration has contained the next CA beside the
/// current one; written by us.
pub const CA_PUBLISHED: &str = "copyrator.dev/ca-published";
/// Annotation of [`CA_SECRET`]: when the current CA began to sign; written by us.
pub const CA_SWITCHED: &str = "copyrator.dev/ca-switched";

/// The Secret of ours that holds the key of digests, marks and grants.
pub const KEY_SECRET: &str = "copyrator-digest-key";
/// The Secret of ours that holds the webhook's CA.
pub const CA_SECRET: &str = "copyrator-webhook-ca";
/// Our ConfigMap that lists, for the webhook, the sources that annotations declare.
pub const SOURCE_INDEX: &str = "copyrator-annotated-sources";

/// The marks on a copy, as its annotations carry them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyMarks {
    /// The marks that are the same on all copies of one source by one rule, shared in memory.
    pub shared: Arc<SharedMarks>,
    /// Keyed proof that these marks are ours: `<key id>.<mac>`.
    pub mark: Box<str>,
    /// When the orphaned copy will be deleted.
    pub remove_after: Option<Timestamp>,
}

/// The marks that are the same on all copies of one source by one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedMarks {
    /// The rule that the copy belongs to.
    pub rule: Declarer,
    /// The object that the content was copied from.
    pub source: NamespacedName,
    /// The UID of the source object.
    pub source_uid: String,
    /// Digest of the copy's intended state.
    pub digest: String,
    /// What happens when the copy is orphaned; `None` for an annotation that cannot be read.
    pub on_removal: Option<OnRemoval>,
    /// Whether `on_removal` holds for this object only: the template sets a `deletionPolicy` for the object,
    /// or the object holds data.
    pub own_removal: bool,
    /// UID of the CustomResourceDefinition under which the rule was last seen; `None` if we did not write it.
    pub definition: Option<Box<str>>,
    /// Whether each copy has the annotation [`OBJECT`].
    pub names_itself: bool,
}

/// The result of verifying marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The proof verifies: we made the copy.
    Ours,
    /// The marks were made with a key that we do not have: we never change or delete the object.
    UnknownKey,
    /// The proof is wrong, for example because the marks come from another object: the object is not ours.
    Forged,
}

impl Deref for CopyMarks {
    type Target = SharedMarks;

    fn deref(&self) -> &SharedMarks {
        &self.shared
    }
}

impl CopyMarks {
    /// The template that declares the object, or else the object's source.
    pub fn origin(&self) -> NamespacedName {
        if self.rule.as_template().is_some() { self.rule.named() } else { self.source.clone() }
    }

    /// Reads the marks of the object of this kind, namespace and name. `None` if rule, source or proof are
    /// missing, or if [`OBJECT`] names a different object: an object without these marks is not ours. The
    /// next write restores every other mark that was lost or changed by hand. Until the next write, an
    /// orphaned copy stays if its [`ON_REMOVAL`] cannot be read.
    pub fn read(
        kind: Kind,
        namespace: &str,
        name: &str,
        annotation: impl Fn(&str) -> Option<String>,
    ) -> Option<Self> {
        let mark = annotation(MARK)?;
        let object = annotation(OBJECT);
        if object.as_deref().is_some_and(|object| object != in_clear(kind, namespace, name)) {
            return None;
        }
        let (on_removal, own_removal) = OnRemoval::read(&annotation(ON_REMOVAL).unwrap_or_default());
        Some(Self {
            mark: mark.into(),
            remove_after: annotation(REMOVE_AFTER).and_then(|text| text.parse().ok()),
            shared: Arc::new(SharedMarks {
                rule: Declarer::parse(&annotation(RULE)?)?,
                source: NamespacedName::parse(&annotation(SOURCE)?)?,
                source_uid: annotation(SOURCE_UID).unwrap_or_default(),
                digest: annotation(DIGEST).unwrap_or_default(),
                on_removal,
                own_removal,
                definition: annotation(DEFINITION).map(Into::into),
                names_itself: object.is_some(),
            }),
        })
    }

    /// Whether an object has the labels of these marks, which the admission policy for copies guards.
    pub fn is_labelled(&self, label: impl Fn(&str) -> Option<String>) -> bool {
        self.labels().into_iter().all(|(key, value)| label(&key) == Some(value))
    }

    /// The labels that carry these marks.
    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (MANAGED_BY.to_owned(), MANAGED_BY_VALUE.to_owned()),
            (RULE_LABEL.to_owned(), rule_label(&self.rule)),
        ])
    }

    /// The annotations that carry these marks in a slot. [`REMOVE_AFTER`] and [`DEFINITION`] are written
    /// separately.
    pub fn annotations(&self, slot: &ObjectKey) -> BTreeMap<String, String> {
        let itself = || (OBJECT, in_clear(slot.kind, &slot.namespace, &slot.name));
        let object = self.names_itself.then(itself);
        let on_removal = self.on_removal.map(|word| (ON_REMOVAL, word.written(self.own_removal)));
        let others = [
            (RULE, self.rule.to_string()),
            (SOURCE, self.source.to_string()),
            (SOURCE_UID, self.source_uid.clone()),
            (DIGEST, self.digest.clone()),
            (MARK, self.mark.to_string()),
        ];
        others
            .into_iter()
            .chain(object)
            .chain(on_removal)
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// Verifies that these marks, found on `slot`, are ours.
    pub fn proof(&self, slot: &ObjectKey, key: &DigestKey) -> Proof {
        match self.mark.split_once('.') {
            Some((id, _)) if id != key.id() => Proof::UnknownKey,
            Some(_) if *self.mark == key.mark(slot, &self.rule) => Proof::Ours,
            _ => Proof::Forged,
        }
    }

    /// Whether these marks equal the wanted marks, apart from removal time, definition and [`OBJECT`].
    pub fn same_but_for_removal(&self, wanted: &Self) -> bool {
        self.mark == wanted.mark && self.same_but_for_place(wanted)
    }

    /// Like [`Self::same_but_for_removal`], but also ignores the proof, which differs for each copy.
    pub fn same_but_for_place(&self, wanted: &Self) -> bool {
        let SharedMarks {
            rule,
            source,
            source_uid,
            digest,
            on_removal,
            own_removal,
            definition: _,
            names_itself: _,
        } = &**self;
        (rule, source, source_uid, digest)
            == (&wanted.rule, &wanted.source, &wanted.source_uid, &wanted.digest)
            && (on_removal, own_removal) == (&wanted.on_removal, &wanted.own_removal)
    }
}

/// The value of [`OBJECT`] for an object: `<resource>.<group>/<namespace>/<name>`, such as
/// `deployments.apps/shop/web` or `services/shop/web`. The admission policy for copies builds the same text.
pub fn in_clear(kind: Kind, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", kind.resource().qualified())
}

/// Whether these labels give an object's annotations of [`ASKING`] an effect.
pub fn declares<'l>(label: impl Fn(&str) -> Option<&'l str>) -> bool {
    label(DECLARES) == Some(DECLARES_VALUE)
}

/// The label value that identifies a rule: a hash, since names can exceed 63 characters
/// (config-syncer#423, kyverno#8447).
pub fn rule_label(rule: &Declarer) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, rule.to_string().as_bytes());
    crate::digest::hex(&digest.as_ref()[..16])
}

/// The field manager of a template that writes a status.
pub fn status_manager(template: &Declarer) -> String {
    format!("{STATUS_MANAGER}-{}", rule_label(template))
}

/// A time in the format of our annotations.
pub fn write_time(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Hash of a set of field paths that an apply of ours owns; the order does not matter.
pub fn field_set<S: AsRef<str>>(paths: impl IntoIterator<Item = S>) -> u64 {
    let mut paths: Vec<S> = paths.into_iter().collect();
    paths.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
    let mut hasher = DefaultHasher::new();
    for path in &paths {
        path.as_ref().hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether a label or annotation is one of a copy's marks. [`REMOVE_AFTER`] and [`DEFINITION`] are not: they
/// are written separately.
pub fn is_mark(key: &str) -> bool {
    [MANAGED_BY, RULE_LABEL, RULE, SOURCE, SOURCE_UID, DIGEST, ON_REMOVAL, MARK, OBJECT].contains(&key)
}

/// Whether the planner reads this label of ours. The label is kept however many labels an object has.
pub(crate) fn is_label(key: &str) -> bool {
    [MANAGED_BY, RULE_LABEL, DECLARES, APPLIED, BRAKE, LAST_GOOD].contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(names_itself: bool) -> CopyMarks {
        let rule = Declarer::rule("home", "rule");
        let shared = SharedMarks {
            source: rule.named(),
            rule,
            source_uid: "u".into(),
            digest: "d".into(),
            on_removal: Some(OnRemoval::Retain),
            own_removal: false,
            definition: None,
            names_itself,
        };
        CopyMarks { shared: shared.into(), mark: "k.m".into(), remove_after: None }
    }

    #[test]
    fn marks_that_name_another_object_are_none() {
        let slot = ObjectKey::new(Kind::Deployment, "shop", "web");
        let unnamed = marks(false).annotations(&slot);
        assert!(!unnamed.contains_key(OBJECT), "{unnamed:?}");
        let named = marks(true).annotations(&slot);
        assert_eq!(named[OBJECT], "deployments.apps/shop/web");
        assert!(named.keys().all(|key| is_mark(key)));
        let read = |object: &ObjectKey, all: &BTreeMap<String, String>| {
            CopyMarks::read(object.kind, &object.namespace, &object.name, |key| all.get(key).cloned())
        };
        assert_eq!((read(&slot, &named), read(&slot, &unnamed)), (Some(marks(true)), Some(marks(false))));
        for (kind, namespace, name) in [
            (Kind::Deployment, "shop", "other"),
            (Kind::Deployment, "other", "web"),
            (Kind::Service, "shop", "web"),
        ] {
            let other = ObjectKey::new(kind, namespace, name);
            assert_eq!(read(&other, &named), None, "{other:?}");
            assert!(read(&other, &unnamed).is_some(), "the proof tells, where it can be verified");
        }
    }
}
