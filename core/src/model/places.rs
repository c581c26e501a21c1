//! The only namespaces that a process looks at, where it may not look at all of them. A namespace is known to
//! the world only while everything in it is: a list that was refused says nothing, least of all that
//! something has gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{NamespaceFacts, Store, World};

/// What is read in each place, the namespace itself included.
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
/// How many names of places a message lists.
const MOST_NAMED: usize = 8;

/// What came of reading one kind in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// The namespace itself was read.
    Namespace(NamespaceFacts),
    /// A list is through.
    Listed(Store),
    /// The API server refused, or there is no such namespace; in its words.
    Refused(Store, String),
    /// There is no such namespace, and that is no matter of rights.
    Absent,
}

/// The only namespaces that are looked at.
#[derive(Debug, Default)]
pub struct Places {
    places: BTreeMap<Arc<str>, Place>,
    changes: u64,
    /// The caller of a command looks, and not Copyrator: what the caller is refused says nothing of what
    /// Copyrator may.
    is_callers: bool,
    /// Copyrator looks at all namespaces, and the caller's rights end here.
    is_part: bool,
}

#[derive(Debug, Default)]
struct Place {
    facts: Option<NamespaceFacts>,
    read: BTreeSet<Store>,
    refused: BTreeMap<Store, String>,
    is_absent: bool,
    /// It has been known, or refused, once: from then on nobody waits for it.
    settled: bool,
}

impl Place {
    fn is_whole(&self) -> bool {
        self.refused.is_empty() && READ.iter().all(|store| self.read.contains(store))
    }
}

impl Places {
    /// Those of which nothing is known yet.
    pub fn new(names: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        let places = names.into_iter().map(|name| (name.into(), Place::default())).collect();
        Self { places, changes: 0, is_callers: false, is_part: false }
    }

    /// The same, where a person looks with their own rights.
    pub fn of_caller(names: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        Self { is_callers: true, ..Self::new(names) }
    }

    /// The namespace that a person asks about whose rights end there, while Copyrator looks at all of them.
    pub fn of_tenant(name: Arc<str>) -> Self {
        Self { is_part: true, ..Self::of_caller([name]) }
    }

    /// Whether Copyrator looks at these namespaces and no other; not where a person sees no more of what it
    /// sees.
    pub fn is_all(&self) -> bool {
        !self.is_part
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.places.keys()
    }

    /// Those of which it is not known yet whether they can be looked at.
    pub fn unsettled(&self) -> impl Iterator<Item = &Arc<str>> {
        self.places.iter().filter(|(_, place)| !place.settled).map(|(name, _)| name)
    }

    /// How often one of them has come into sight or gone out of it: an answer from before says nothing of it.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What keeps us from looking at one of them, if anything.
    pub fn refusal(&self, name: &str) -> Option<&str> {
        self.places.get(name)?.refused.values().next().map(String::as_str)
    }

    /// The namespaces that Copyrator sees, as far as a person can know who may not see all of them: all that
    /// the person has not found absent. `None`: Copyrator itself looks, and knows.
    pub fn supposed(&self) -> Option<impl Iterator<Item = &Arc<str>>> {
        let there = self.places.iter().filter(|(_, place)| !place.is_absent).map(|(name, _)| name);
        self.is_callers.then_some(there)
    }

    /// Which they are, in words.
    pub fn said(&self) -> String {
        let named: Vec<&str> = self.names().take(MOST_NAMED).map(|name| &**name).collect();
        let word = if self.places.len() == 1 { "namespace" } else { "namespaces" };
        match self.places.len().saturating_sub(MOST_NAMED) {
            0 => format!("{word} {}", named.join(", ")),
            more => format!("{word} {} and {more} more", named.join(", ")),
        }
    }
}

impl World {
    /// Whether everything in a namespace is known: always, where all namespaces are watched.
    pub fn sees(&self, namespace: &str) -> bool {
        self.cluster.places.is_none() || self.cluster.namespaces.contains_key(namespace)
    }

    /// Why a namespace is not seen, as reason and message with the way out; `None` where it is.
    pub fn unseen(&self, namespace: &str) -> Option<(&'static str, String)> {
        let places = self.cluster.places.as_ref().filter(|_| !self.sees(namespace))?;
        let place = places.places.get(namespace);
        Some(match (place, places.refusal(namespace)) {
            (None, _) if places.is_part => (
                "OutOfSight",
                format!("namespace {namespace} is out of sight: your rights show {} only", places.said()),
            ),
            (None, _) => (
                "NotServed",
                format!(
                    "namespace {namespace} is not served: this Copyrator looks at {} only (--namespaces); to have it \
                     served, add it to the chart's value namespaces",
                    places.said()
                ),
            ),
            (Some(Place { is_absent: true, .. }), _) => (
                "OutOfSight",
                format!(
                    "namespace {namespace} does not exist: create it, or take it off the list (--namespaces)"
                ),
            ),
            (Some(_), Some(why)) if places.is_callers => {
                ("OutOfSight", format!("namespace {namespace} cannot be looked at with your rights ({why})"))
            }
            (Some(_), Some(why)) => (
                "OutOfSight",
                format!(
                    "namespace {namespace} cannot be looked at ({why}): does it exist, and are the Role and RoleBinding of \
                     Copyrator in it? What is there stays as it is until it can"
                ),
            ),
            (Some(_), None) => ("OutOfSight", format!("namespace {namespace} has not been read yet")),
        })
    }

    /// Takes in what came of reading one kind in one place; whether the place has come into sight, or gone
    /// out of it.
    pub fn look(&mut self, name: &Arc<str>, look: Look) -> bool {
        let Some(places) = &mut self.cluster.places else { return false };
        let Some(place) = places.places.get_mut(name) else { return false };
        let (store, refusal) = match look {
            Look::Namespace(facts) => {
                place.facts = Some(facts);
                place.is_absent = false;
                (Store::Namespaces, None)
            }
            Look::Listed(store) => (store, None),
            Look::Refused(store, why) => (store, Some(why)),
            Look::Absent => {
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
        let was_seen = self.cluster.namespaces.contains_key(name);
        let facts = place.facts.clone().filter(|_| place.is_whole());
        place.settled |= facts.is_some() || !place.refused.is_empty();
        let is_seen = facts.is_some();
        let uid = |facts: &NamespaceFacts| facts.uid.clone();
        let is_other = self.cluster.namespaces.get(name).map(uid) != facts.as_ref().map(uid);
        if is_other {
            places.changes += 1;
        }
        match facts {
            Some(facts) => drop(self.set_namespace(name.clone(), facts)),
            None => drop(self.cluster.namespaces.remove(name)),
        }
        if is_other {
            // The question of who may copy was asked for the places that were in sight.
            self.cluster.rule_authority.clear();
            self.memory.forget_attempts_in(name);
        }
        was_seen != is_seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> World {
        let mut world = World::default();
        world.set_places(Some(Places::new(["a", "b"])));
        world
    }

    fn read(world: &mut World, name: &str, but: Option<Store>) {
        world.look(&name.into(), Look::Namespace(NamespaceFacts::default()));
        for store in READ.into_iter().filter(|store| *store != Store::Namespaces && Some(*store) != but) {
            world.look(&name.into(), Look::Listed(store));
        }
    }

    #[test]
    fn a_place_is_seen_while_every_kind_in_it_is_read() {
        let mut world = world();
        let unsettled = |world: &World| world.places().unwrap().unsettled().count();
        read(&mut world, "a", Some(Store::Secrets));
        assert!(!world.sees("a"));
        assert_eq!(unsettled(&world), 2);
        assert!(world.look(&"a".into(), Look::Listed(Store::Secrets)), "it has come into sight");
        assert!(world.sees("a") && !world.sees("b") && !world.sees("c"));
        assert_eq!(unsettled(&world), 1);

        let refused = || Look::Refused(Store::Secrets, "secrets is forbidden".into());
        assert!(world.look(&"a".into(), refused()));
        assert!(!world.look(&"a".into(), refused()));
        assert!(!world.sees("a"));
        assert_eq!(unsettled(&world), 1, "whoever has been seen once is not waited for");
        assert_eq!(world.unseen("a").unwrap().0, "OutOfSight");
        assert!(world.unseen("a").unwrap().1.contains("(secrets is forbidden)"));
        assert!(world.look(&"a".into(), Look::Listed(Store::Secrets)));
        assert_eq!(world.unseen("a"), None);
        assert_eq!(world.places().unwrap().changes(), 3);
    }

    /// One namespace that is gone, or whose Role is, must not hold up the others.
    #[test]
    fn a_refused_place_is_not_waited_for() {
        let mut world = world();
        world.settings_mut().stores = [Store::DigestKey].into();
        world.set_all_listed();
        read(&mut world, "a", None);
        assert!(!world.is_complete(), "nothing is known of b yet");
        world.look(&"b".into(), Look::Refused(Store::Namespaces, "not found".into()));
        assert!(world.is_complete());
        assert!(world.sees("a") && !world.sees("b"));
    }

    #[test]
    fn everything_is_seen_where_everything_is_watched() {
        let world = World::default();
        assert!(world.sees("anything"));
        assert_eq!(world.unseen("anything"), None);
        let (reason, message) = self::world().unseen("c").unwrap();
        assert_eq!(reason, "NotServed");
        assert!(message.contains("looks at namespaces a, b only"), "{message}");
        assert!(!message.contains("spec"), "whoever only looks has written none: {message}");
    }

    /// Nothing is known of other namespaces, least of all that Copyrator does not look at them.
    #[test]
    fn where_rights_end_nothing_is_said_to_be_elsewhere() {
        let mut world = World::default();
        world.set_places(Some(Places::of_tenant("a".into())));
        read(&mut world, "a", None);
        assert!(world.sees("a") && !world.sees("b"));
        let told =
            ("OutOfSight", "namespace b is out of sight: your rights show namespace a only".to_owned());
        assert_eq!(world.unseen("b"), Some(told));
    }

    /// What a person may not see Copyrator may.
    #[test]
    fn who_looks_with_rights_of_his_own_is_told_of_those() {
        let mut world = World::default();
        world.set_places(Some(Places::of_caller(["a"])));
        world.look(&"a".into(), Look::Refused(Store::Secrets, "secrets is forbidden".into()));
        let (reason, message) = world.unseen("a").unwrap();
        assert_eq!(reason, "OutOfSight");
        assert_eq!(message, "namespace a cannot be looked at with your rights (secrets is forbidden)");
        world.look(&"a".into(), Look::Absent);
        let (reason, message) = world.unseen("a").unwrap();
        assert_eq!(reason, "OutOfSight");
        assert_eq!(message, "namespace a does not exist: create it, or take it off the list (--namespaces)");
    }
}
