//! The namespaces that a process reads, if the process does not read all namespaces. A namespace is in the
//! world only while all its lists are complete: a refused list does not mean that objects were deleted.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use super::{NamespaceFacts, Store};
use crate::names::Kind;

/// The stores that are always read in each namespace, including the namespace itself.
const READ: [Store; 8] = [
    Store::Namespaces,
    Store::ConfigMaps,
    Store::Secrets,
    Store::Deployments,
    Store::StatefulSets,
    Store::DaemonSets,
    Store::CopyratorRules,
    Store::ConfigMonitors,
];
/// How many namespaces a message lists by name.
const MOST_NAMED: usize = 8;

/// Why a namespace is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// This Copyrator does not read the namespace.
    NotServed,
    /// The namespace should be read, but cannot be now, or not with the caller's rights.
    OutOfSight,
}

impl Unseen {
    /// The word for statuses and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotServed => "NotServed",
            Self::OutOfSight => "OutOfSight",
        }
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of reading one kind in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceRead {
    /// The namespace itself was read.
    Namespace(NamespaceFacts),
    /// The list of this store is complete.
    Listed(Store),
    /// The API server's message when it refused, or did not find the namespace.
    Refused(Store, String),
    /// The namespace does not exist, and missing rights are not the reason.
    Absent,
}

/// The only namespaces that are read (`--namespaces`), and the state of each namespace.
#[derive(Debug, Default)]
pub struct NamespaceScope {
    namespaces: BTreeMap<Arc<str>, ScopedNamespace>,
    /// The stores of the kinds that are copied beside ConfigMaps and Secrets.
    further: Vec<Store>,
    pub(super) changes: u64,
    /// Whether the caller of a command reads the namespaces, and not Copyrator. A refusal to the caller is no
    /// evidence about Copyrator's rights.
    is_callers: bool,
    /// Whether Copyrator reads all namespaces, and only the caller's rights are limited to these namespaces.
    is_part: bool,
}

#[derive(Debug, Default)]
struct ScopedNamespace {
    facts: Option<NamespaceFacts>,
    read: BTreeSet<Store>,
    refused: BTreeMap<Store, String>,
    is_absent: bool,
    /// Whether the namespace was read completely or refused once. After the first result, no decision waits
    /// for the namespace.
    settled: bool,
}

impl ScopedNamespace {
    fn is_whole(&self, further: &[Store]) -> bool {
        self.refused.is_empty() && READ.iter().chain(further).all(|store| self.read.contains(store))
    }
}

impl NamespaceScope {
    /// Creates a scope of these namespaces, before any list of them was read.
    pub fn new(names: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        let places = names.into_iter().map(|name| (name.into(), ScopedNamespace::default())).collect();
        Self { namespaces: places, further: Vec::new(), changes: 0, is_callers: false, is_part: false }
    }

    /// Adds these kinds to the kinds that are read.
    pub fn with_kinds(mut self, kinds: impl IntoIterator<Item = Kind>) -> Self {
        let further: BTreeSet<Kind> = kinds.into_iter().filter(|kind| kind.data().is_none()).collect();
        self.further = Store::needed(&further).collect();
        self
    }

    /// Like [`Self::new`], for the caller of a command, who reads with their own rights.
    pub fn of_caller(names: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        Self { is_callers: true, ..Self::new(names) }
    }

    /// Creates a scope of the one namespace that the caller of a command may read, while Copyrator reads all
    /// namespaces.
    pub fn of_tenant(name: Arc<str>) -> Self {
        Self { is_part: true, ..Self::of_caller([name]) }
    }

    /// Whether Copyrator itself reads these namespaces only; `false` if only the caller's rights are limited.
    pub fn is_all(&self) -> bool {
        !self.is_part
    }

    /// The names of these namespaces, in order.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.namespaces.keys()
    }

    /// The namespaces that have not been read or refused yet.
    pub fn unsettled(&self) -> impl Iterator<Item = &Arc<str>> {
        self.namespaces.iter().filter(|(_, place)| !place.settled).map(|(name, _)| name)
    }

    /// How often a namespace became readable or unreadable. Answers about rights before such a change do not
    /// cover the changed namespace.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The API server's refusal to read a namespace, if it refused.
    pub fn refusal(&self, name: &str) -> Option<&str> {
        self.namespaces.get(name)?.refused.values().next().map(String::as_str)
    }

    /// The namespaces that Copyrator presumably reads, as far as the caller of a command can know: all
    /// namespaces that the caller has not found absent. `None` if Copyrator itself reads.
    pub fn supposed(&self) -> Option<impl Iterator<Item = &Arc<str>>> {
        let there = self.namespaces.iter().filter(|(_, place)| !place.is_absent).map(|(name, _)| name);
        self.is_callers.then_some(there)
    }

    /// Notes the result of reading one kind in a namespace. Returns `None` if the namespace is not in this
    /// scope; otherwise the facts of the namespace, once all its lists were read.
    pub(super) fn note(&mut self, name: &str, read: NamespaceRead) -> Option<Option<NamespaceFacts>> {
        let place = self.namespaces.get_mut(name)?;
        let (store, refusal) = match read {
            NamespaceRead::Namespace(facts) => {
                place.facts = Some(facts);
                place.is_absent = false;
                (Store::Namespaces, None)
            }
            NamespaceRead::Listed(store) => (store, None),
            NamespaceRead::Refused(store, why) => (store, Some(why)),
            NamespaceRead::Absent => {
                place.is_absent = true;
                (Store::Namespaces, Some(format!("namespaces {name:?} not found")))
            }
        };
        match refusal {
            Some(why) => drop(place.refused.insert(store, why)),
            None => {
                place.refused.remove(&store);
                place.read.insert(store);
            }
        }
        let facts = place.facts.clone().filter(|_| place.is_whole(&self.further));
        place.settled |= facts.is_some() || !place.refused.is_empty();
        Some(facts)
    }

    /// Why a namespace is not read: the reason, and a message with the fix.
    pub(super) fn why_unseen(&self, namespace: &str) -> (Unseen, String) {
        match (self.namespaces.get(namespace), self.refusal(namespace)) {
            (None, _) if self.is_part => (
                Unseen::OutOfSight,
                format!("you may not read namespace {namespace}: your rights cover only {}", self.said()),
            ),
            (None, _) => (
                Unseen::NotServed,
                format!(
                    "namespace {namespace} is not listed: this Copyrator reads only {} (--namespaces); to add the namespace, list it in \
                     the chart's value namespaces",
                    self.said()
                ),
            ),
            (Some(ScopedNamespace { is_absent: true, .. }), _) => (
                Unseen::OutOfSight,
                format!(
                    "namespace {namespace} does not exist: create the namespace, or remove it from --namespaces"
                ),
            ),
            (Some(_), Some(why)) if self.is_callers => (
                Unseen::OutOfSight,
                format!("your rights do not allow reading namespace {namespace} ({why})"),
            ),
            (Some(_), Some(why)) => (
                Unseen::OutOfSight,
                format!(
                    "Copyrator cannot read namespace {namespace} ({why}): check that the namespace exists and has Copyrator's Role and \
                     RoleBinding. Until then, Copyrator changes nothing there"
                ),
            ),
            (Some(_), None) => {
                (Unseen::OutOfSight, format!("Copyrator has not read namespace {namespace} yet"))
            }
        }
    }

    /// The names of the namespaces, for a message.
    pub fn said(&self) -> String {
        let named: Vec<&str> = self.names().take(MOST_NAMED).map(|name| &**name).collect();
        let word = if self.namespaces.len() == 1 { "namespace" } else { "namespaces" };
        match self.namespaces.len().saturating_sub(MOST_NAMED) {
            0 => format!("{word} {}", named.join(", ")),
            more => format!("{word} {} and {more} more", named.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::World;

    fn world() -> World {
        let mut world = World::default();
        world.set_namespace_scope(Some(NamespaceScope::new(["a", "b"])));
        world
    }

    fn read(world: &mut World, name: &str, but: Option<Store>) {
        world.note_read(&name.into(), NamespaceRead::Namespace(NamespaceFacts::default()));
        for store in READ.into_iter().filter(|store| *store != Store::Namespaces && Some(*store) != but) {
            world.note_read(&name.into(), NamespaceRead::Listed(store));
        }
    }

    #[test]
    fn a_place_is_seen_while_every_kind_in_it_is_read() {
        let mut world = world();
        let unsettled = |world: &World| world.namespace_scope().unwrap().unsettled().count();
        read(&mut world, "a", Some(Store::Secrets));
        assert!(!world.sees("a"));
        assert_eq!(unsettled(&world), 2);
        assert!(
            world.note_read(&"a".into(), NamespaceRead::Listed(Store::Secrets)),
            "it has come into sight"
        );
        assert!(world.sees("a") && !world.sees("b") && !world.sees("c"));
        assert_eq!(unsettled(&world), 1);

        let refused = || NamespaceRead::Refused(Store::Secrets, "secrets is forbidden".into());
        assert!(world.note_read(&"a".into(), refused()));
        assert!(!world.note_read(&"a".into(), refused()));
        assert!(!world.sees("a"));
        assert_eq!(unsettled(&world), 1, "a namespace that was read once is not waited for");
        assert_eq!(world.unseen("a").unwrap().0, Unseen::OutOfSight);
        assert!(world.unseen("a").unwrap().1.contains("(secrets is forbidden)"));
        assert!(world.note_read(&"a".into(), NamespaceRead::Listed(Store::Secrets)));
        assert_eq!(world.unseen("a"), None);
        assert_eq!(world.namespace_scope().unwrap().changes(), 3);
    }

    /// A deleted namespace, or a namespace without Copyrator's Role, does not delay other namespaces.
    #[test]
    fn a_refused_place_is_not_waited_for() {
        let mut world = world();
        world.settings_mut().stores = [Store::DigestKey].into();
        world.set_all_listed();
        read(&mut world, "a", None);
        assert!(!world.is_complete(), "nothing is known of b yet");
        world.note_read(&"b".into(), NamespaceRead::Refused(Store::Namespaces, "not found".into()));
        assert!(world.is_complete());
        assert!(world.sees("a") && !world.sees("b"));
    }

    #[test]
    fn everything_is_seen_where_everything_is_watched() {
        let world = World::default();
        assert!(world.sees("anything"));
        assert_eq!(world.unseen("anything"), None);
        let (reason, message) = self::world().unseen("c").unwrap();
        assert_eq!(reason, Unseen::NotServed);
        assert!(message.contains("reads only namespaces a, b (--namespaces)"), "{message}");
        assert!(!message.contains("spec"), "a caller who only looks has written none: {message}");
    }

    /// Other namespaces are unknown, and the message must not claim that Copyrator ignores them.
    #[test]
    fn where_rights_end_nothing_is_said_to_be_elsewhere() {
        let mut world = World::default();
        world.set_namespace_scope(Some(NamespaceScope::of_tenant("a".into())));
        read(&mut world, "a", None);
        assert!(world.sees("a") && !world.sees("b"));
        let told = (
            Unseen::OutOfSight,
            "you may not read namespace b: your rights cover only namespace a".to_owned(),
        );
        assert_eq!(world.unseen("b"), Some(told));
    }

    /// Copyrator may read namespaces that the caller may not read.
    #[test]
    fn a_user_with_rights_in_some_namespaces_is_told_of_those() {
        let mut world = World::default();
        world.set_namespace_scope(Some(NamespaceScope::of_caller(["a"])));
        world.note_read(&"a".into(), NamespaceRead::Refused(Store::Secrets, "secrets is forbidden".into()));
        let (reason, message) = world.unseen("a").unwrap();
        assert_eq!(reason, Unseen::OutOfSight);
        assert_eq!(message, "your rights do not allow reading namespace a (secrets is forbidden)");
        world.note_read(&"a".into(), NamespaceRead::Absent);
        let (reason, message) = world.unseen("a").unwrap();
        assert_eq!(reason, Unseen::OutOfSight);
        assert_eq!(
            message,
            "namespace a does not exist: create the namespace, or remove it from --namespaces"
        );
    }
}
