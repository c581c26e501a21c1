//! The namespaces in which all ConfigMaps and Secrets are watched. If few namespaces are needed, each has its
//! own watches, so the API server sends no events of other namespaces; if many are needed, all namespaces are
//! watched. In addition, two watches by label show copies and annotated sources in all namespaces. A plan
//! that reads a namespace waits until the namespace is listed.

use std::{collections::BTreeSet, sync::Arc};

use super::Store;
use crate::{api::DataKind, names::NameKind};

/// Maximum number of namespaces with their own watches: each namespace costs two watches, and beyond this
/// number, watching all namespaces is cheaper.
const MOST: usize = 16;

/// The kinds that a [`DataScope`] watches.
pub const DATA_KINDS: [DataKind; 2] = [DataKind::ConfigMap, DataKind::Secret];

/// A set of namespaces: some, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// Only these namespaces; at most 16.
    Some(BTreeSet<Arc<str>>),
    /// All namespaces, including future ones.
    All,
}

impl Default for Span {
    fn default() -> Self {
        Self::Some(BTreeSet::new())
    }
}

impl Span {
    /// Whether a namespace is in the set.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Some(names) => names.contains(namespace),
            Self::All => true,
        }
    }

    /// Adds a namespace. Ignores a name that no namespace can have, from a wrong spec or a forged mark.
    fn add(&mut self, namespace: &Arc<str>) {
        let Self::Some(names) = self else { return };
        if !names.contains(namespace) && NameKind::Namespace.is_name(namespace) {
            names.insert(namespace.clone());
            if names.len() > MOST {
                *self = Self::All;
            }
        }
    }
}

/// The namespaces whose ConfigMaps and Secrets must be known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataNeed {
    config_maps: Span,
    secrets: Span,
}

impl DataNeed {
    /// ConfigMaps and Secrets in one namespace.
    pub fn in_namespace(name: &str) -> Self {
        let mut need = Self::default();
        need.add_both(&name.into());
        need
    }

    /// The namespaces whose objects of this kind must be known.
    pub fn of(&self, kind: DataKind) -> &Span {
        match kind {
            DataKind::ConfigMap => &self.config_maps,
            DataKind::Secret => &self.secrets,
        }
    }

    fn of_mut(&mut self, kind: DataKind) -> &mut Span {
        match kind {
            DataKind::ConfigMap => &mut self.config_maps,
            DataKind::Secret => &mut self.secrets,
        }
    }

    /// Adds one namespace.
    pub fn add(&mut self, kind: DataKind, namespace: &Arc<str>) {
        self.of_mut(kind).add(namespace);
    }

    /// Adds one namespace, for ConfigMaps and Secrets.
    pub fn add_both(&mut self, namespace: &Arc<str>) {
        DATA_KINDS.into_iter().for_each(|kind| self.add(kind, namespace));
    }

    /// Adds all namespaces.
    pub fn add_all(&mut self, kind: DataKind) {
        *self.of_mut(kind) = Span::All;
    }

    /// Whether this need includes all namespaces of `other`.
    fn covers(&self, other: &Self) -> bool {
        DATA_KINDS.into_iter().all(|kind| match (self.of(kind), other.of(kind)) {
            (Span::All, _) => true,
            (Span::Some(_), Span::All) => false,
            (Span::Some(names), Span::Some(others)) => others.is_subset(names),
        })
    }

    /// Adds all namespaces of `other`.
    pub fn extend(&mut self, other: &Self) {
        for kind in DATA_KINDS {
            match other.of(kind) {
                Span::All => self.add_all(kind),
                Span::Some(names) => names.iter().for_each(|name| self.add(kind, name)),
            }
        }
    }

    /// Whether objects of this kind are needed in all namespaces.
    pub fn is_all(&self, kind: DataKind) -> bool {
        *self.of(kind) == Span::All
    }
}

/// A label of ours that has an effect in every namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OurLabel {
    /// The object is a copy, or a template declares it.
    Copy,
    /// The object's annotations may declare copies or restarts.
    Declares,
}

impl OurLabel {
    /// All variants.
    const ALL: [Self; 2] = [Self::Copy, Self::Declares];
}

/// One watch of ConfigMaps or Secrets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataWatch {
    /// Objects in all namespaces.
    All(DataKind),
    /// Objects in this namespace.
    Namespace(DataKind, Arc<str>),
    /// Objects with this label, in all namespaces.
    Labelled(DataKind, OurLabel),
}

impl DataWatch {
    fn kind(&self) -> DataKind {
        match self {
            Self::All(kind) | Self::Namespace(kind, _) | Self::Labelled(kind, _) => *kind,
        }
    }
}

/// The watches of ConfigMaps and Secrets, and which watches have a complete list.
#[derive(Debug, Default)]
pub struct DataScope {
    wanted: DataNeed,
    /// The watches that `wanted` requires.
    watches: BTreeSet<DataWatch>,
    listed: BTreeSet<DataWatch>,
    /// Whether the lists of all watches are complete.
    is_listed: bool,
}

impl DataScope {
    /// Creates a scope that wants `least`, before the first list.
    pub fn new(least: DataNeed) -> Self {
        let mut scope = Self { wanted: least, ..Self::default() };
        scope.settle();
        scope
    }

    /// Whether any namespace is not watched.
    pub fn can_widen(&self) -> bool {
        DATA_KINDS.into_iter().any(|kind| !self.wanted.is_all(kind))
    }

    /// The namespaces whose objects are wanted.
    pub fn wanted(&self) -> &DataNeed {
        &self.wanted
    }

    /// The watches that must run.
    pub fn watches(&self) -> &BTreeSet<DataWatch> {
        &self.watches
    }

    /// The watches that `needed` does not require. A watch of all namespaces runs until it has listed: before
    /// that, an object that requires it may be unknown. While a watch of all namespaces runs, earlier watches of
    /// single namespaces run, too, so that nothing is unknown when one takes over from the other.
    pub fn superfluous(&self, needed: &DataNeed) -> BTreeSet<DataWatch> {
        let is_over = |watch: &DataWatch| match watch {
            DataWatch::All(_) => self.listed.contains(watch),
            DataWatch::Namespace(kind, _) => !needed.is_all(*kind) && !self.lists_all(*kind),
            DataWatch::Labelled(..) => true,
        };
        self.beyond(needed).filter(is_over).collect()
    }

    /// Whether a watch of all namespaces runs whose list is not complete yet.
    fn lists_all(&self, kind: DataKind) -> bool {
        self.wanted.is_all(kind) && !self.listed.contains(&DataWatch::All(kind))
    }

    fn beyond(&self, needed: &DataNeed) -> impl Iterator<Item = DataWatch> {
        let needed = watches(needed);
        self.watches.iter().filter(move |watch| !needed.contains(watch)).cloned()
    }

    /// The watches whose list is not complete yet.
    pub fn unlisted(&self) -> impl Iterator<Item = &DataWatch> {
        self.watches.difference(&self.listed)
    }

    /// Whether the lists of all wanted watches are complete.
    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Adds `needed` to the wanted objects; returns whether the wanted objects have changed.
    pub(super) fn widen(&mut self, needed: &DataNeed) -> bool {
        let is_more = !self.wanted.covers(needed);
        if is_more {
            self.wanted.extend(needed);
            self.settle();
        }
        is_more
    }

    /// Notes that these watches were stopped, since only `needed` is needed. A stopped watch that is needed
    /// again must list again.
    pub(super) fn leave(&mut self, stopped: &BTreeSet<DataWatch>, needed: DataNeed) {
        self.listed.retain(|watch| !stopped.contains(watch));
        // A watch that became superfluous meanwhile still runs, and is stopped later.
        if self.beyond(&needed).all(|watch| stopped.contains(&watch)) {
            self.wanted = needed;
        }
        self.settle();
    }

    /// Notes that the list of a watch is complete.
    pub(super) fn note_listed(&mut self, watch: &DataWatch) {
        if self.watches.contains(watch) {
            self.listed.insert(watch.clone());
            self.settle();
        }
    }

    /// The stores whose watches all have a complete list.
    pub(super) fn listed_stores(&self) -> Vec<Store> {
        let is_whole = |kind: &DataKind| self.unlisted().all(|watch| watch.kind() != *kind);
        DATA_KINDS.into_iter().filter(is_whole).map(|kind| Store::of(kind.into())).collect()
    }

    /// Whether the objects of a kind in a namespace are listed.
    pub(super) fn knows(&self, kind: DataKind, namespace: &str) -> bool {
        self.listed.iter().any(|watch| match watch {
            DataWatch::All(of) => *of == kind,
            DataWatch::Namespace(of, name) => *of == kind && **name == *namespace,
            DataWatch::Labelled(..) => false,
        })
    }

    /// Whether the objects of a kind in a namespace are wanted, and not listed yet.
    pub(super) fn is_listing(&self, kind: DataKind, namespace: &str) -> bool {
        self.wanted.of(kind).contains(namespace) && !self.knows(kind, namespace)
    }

    /// Whether the list of a watch is complete.
    pub fn has_listed(&self, watch: &DataWatch) -> bool {
        self.listed.contains(watch)
    }

    /// Whether the annotated objects of a kind are listed.
    pub(super) fn has_listed_declaring(&self, kind: DataKind) -> bool {
        self.listed.contains(&DataWatch::Labelled(kind, OurLabel::Declares))
    }

    /// Updates the fields that depend on `wanted`.
    fn settle(&mut self) {
        // Watches of single namespaces stay beside a watch of all: their namespaces stay known while it lists.
        let is_beside_all =
            |watch: &DataWatch| matches!(watch, DataWatch::Namespace(kind, _) if self.wanted.is_all(*kind));
        let beside: Vec<DataWatch> =
            self.watches.iter().filter(|watch| is_beside_all(watch)).cloned().collect();
        self.watches = watches(&self.wanted);
        self.watches.extend(beside);
        self.listed.retain(|watch| self.watches.contains(watch));
        self.is_listed = self.watches == self.listed;
    }
}

/// The watches that `wanted` requires. Objects with our labels are watched in all namespaces.
fn watches(wanted: &DataNeed) -> BTreeSet<DataWatch> {
    let mut watches = BTreeSet::new();
    for kind in DATA_KINDS {
        watches.extend(OurLabel::ALL.map(|label| DataWatch::Labelled(kind, label)));
        match wanted.of(kind) {
            Span::All => drop(watches.insert(DataWatch::All(kind))),
            Span::Some(names) => {
                watches.extend(names.iter().map(|name| DataWatch::Namespace(kind, name.clone())));
            }
        }
    }
    watches
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{
        model::{ObjectFacts, UnreadObject, World},
        names::{Kind, ObjectKey},
    };

    const SECRET: DataKind = DataKind::Secret;

    fn place(name: &str) -> DataWatch {
        DataWatch::Namespace(SECRET, name.into())
    }

    fn need(names: &[&str]) -> DataNeed {
        let mut need = DataNeed::in_namespace("ours");
        names.iter().for_each(|name| need.add(SECRET, &(*name).into()));
        need
    }

    fn list(world: &mut World) {
        let wanted = world.data_scope().unwrap().watches().clone();
        wanted.iter().for_each(|watch| assert!(world.note_data_listed(watch)));
    }

    fn secret(namespace: &str) -> ObjectKey {
        ObjectKey::new(Kind::Secret, namespace, "app")
    }

    fn facts() -> ObjectFacts {
        ObjectFacts {
            uid: "u".into(),
            resource_version: "1".into(),
            labels: Default::default(),
            deletion: None,
            created: jiff::Timestamp::UNIX_EPOCH,
            owners: 0,
            changed_at: Timestamp::UNIX_EPOCH,
            content_fields: 0,
            restart: None,
            marks: None,
            ownership: None,
            examined: None,
            trace: Default::default(),
            seen: Default::default(),
        }
    }

    /// A world with complete lists of all needed objects: Secrets of these namespaces, with one Secret in
    /// each.
    fn world(names: &[&str]) -> World {
        let mut world = World::default();
        world.settings_mut().stores = [Store::ConfigMaps, Store::Secrets].into();
        world.set_data_scope(Some(DataScope::new(need(names))));
        assert!(!world.is_complete());
        list(&mut world);
        for name in names {
            world.set_object(secret(name), Some(facts()));
        }
        assert!(world.is_complete());
        world
    }

    #[test]
    fn what_is_needed_besides_is_unknown_until_it_is_listed() {
        let mut world = world(&["a"]);
        assert!(world.knows(Kind::Secret, "a") && !world.knows(Kind::Secret, "b"));
        assert!(world.knows(Kind::NetworkPolicy, "b"), "others are all known");
        assert!(!world.widen_data(&need(&["a"])), "that is known");
        assert!(world.widen_data(&need(&["b"])));
        assert!(world.is_listing(Kind::Secret, "b") && !world.is_listing(Kind::Secret, "a"));
        assert!(world.is_complete() && world.is_listing_any(), "other plans do not wait");
        assert!(world.note_data_listed(&place("a")));
        assert!(world.is_listing(Kind::Secret, "b"), "another list says nothing of it");
        assert!(world.note_data_listed(&place("b")));
        assert!(!world.is_listing_any() && world.knows(Kind::Secret, "b"));
        assert!(!world.is_listing(Kind::Secret, "c"), "no plan reads it");
    }

    /// The listed namespaces stay usable until all namespaces are listed.
    #[test]
    fn all_are_listed_anew_and_nothing_is_forgotten_for_it() {
        let mut world = world(&["a"]);
        let mut all = DataNeed::default();
        all.add_all(SECRET);
        assert!(world.widen_data(&all) && world.is_listing(Kind::Secret, "b"));
        let of_secrets = |world: &World| {
            let watches = world.data_scope().unwrap().watches().iter();
            watches.filter(|watch| watch.kind() == SECRET).cloned().collect::<Vec<_>>()
        };
        let labelled = OurLabel::ALL.map(|label| DataWatch::Labelled(SECRET, label));
        assert_eq!(
            of_secrets(&world),
            [&[DataWatch::All(SECRET), place("a"), place("ours")][..], &labelled].concat()
        );
        assert!(!world.is_listing(Kind::Secret, "a") && world.object(&secret("a")).is_some());
        let superfluous = || world.data_scope().unwrap().superfluous(&need(&["b"]));
        assert!(
            superfluous().is_empty(),
            "what needs all of them may be among those that are not listed yet"
        );
        list(&mut world);
        assert!(!world.is_listing_any() && world.knows(Kind::Secret, "anything"));
        assert_eq!(of_secrets(&world).len(), 5, "the watches of single namespaces stay until they are left");

        // The scope shrinks again: the watch of all namespaces has ended, and the watches of single
        // namespaces have listed no object yet.
        let stopped = world.data_scope().unwrap().superfluous(&need(&["b"]));
        assert_eq!(stopped.iter().collect::<Vec<_>>(), [&DataWatch::All(SECRET), &place("a")]);
        world.leave_data(&stopped, need(&["b"]));
        assert!(world.is_listing(Kind::Secret, "b"));
        assert!(world.object(&secret("a")).is_none(), "it would never be told that it goes");
        list(&mut world);
        assert!(!world.is_listing_any());
    }

    /// A namespace with a failing list is no longer needed.
    #[test]
    fn what_is_left_need_not_be_listed() {
        let mut world = World::default();
        world.settings_mut().stores = [Store::ConfigMaps, Store::Secrets].into();
        world.set_data_scope(Some(DataScope::new(need(&["a"]))));
        let wanted = world.data_scope().unwrap().watches().clone();
        for watch in wanted.iter().filter(|watch| **watch != place("a")) {
            world.note_data_listed(watch);
        }
        let stopped = world.data_scope().unwrap().superfluous(&need(&[]));
        assert!(!world.is_complete());
        world.leave_data(&stopped, need(&[]));
        assert!(world.is_complete());
    }

    #[test]
    fn what_is_left_is_forgotten_and_the_rest_stays_known() {
        let mut world = world(&["a", "b"]);
        for namespace in ["a", "b"] {
            world.note_unreadable(UnreadObject::Object(secret(namespace)), Some("too deep"));
        }
        let stopped = world.data_scope().unwrap().superfluous(&need(&["a"]));
        assert_eq!(stopped.iter().collect::<Vec<_>>(), [&place("b")]);
        world.leave_data(&stopped, need(&["a"]));
        assert!(
            world.is_complete()
                && world.object(&secret("b")).is_none()
                && world.object(&secret("a")).is_some()
        );
        assert_eq!(
            (world.unreadable().count(), world.unreadable_object(&secret("a"))),
            (1, Some("too deep"))
        );
    }

    /// The world is between the decision to leave a namespace and the end of its watch.
    #[test]
    fn what_is_needed_again_once_its_watch_has_ended_begins_anew() {
        let mut world = world(&["a", "b"]);
        let stopped = world.data_scope().unwrap().superfluous(&need(&["a"]));
        world.leave_data(&stopped, need(&["a", "b"]));
        assert!(world.data_scope().unwrap().watches().contains(&place("b")));
        assert!(world.is_listing(Kind::Secret, "b") && world.object(&secret("b")).is_some());
        // A watch that became superfluous meanwhile still runs, and brings objects.
        list(&mut world);
        world.leave_data(&stopped, need(&[]));
        assert!(world.data_scope().unwrap().watches().contains(&place("a")));
        assert!(world.object(&secret("a")).is_some() && world.is_listing_any());
    }
}
