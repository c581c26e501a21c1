//! Counts the objects that a new spec deletes and creates. A spec declares each of its objects in each of its
//! places.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use crate::names::InstanceName;

/// The objects that a spec declares in each place, by a key that is unique in the place. The value is the set
/// of source namespaces: a source's own namespace gets no copy.
pub(super) type Things = BTreeMap<String, BTreeSet<Arc<str>>>;

/// The objects that a spec declares: each key in each place.
#[derive(Debug, Default)]
pub(super) struct Declared {
    pub(super) places: BTreeSet<InstanceName>,
    pub(super) things: Things,
}

/// A number of objects, and the number of their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beyond {
    pub(super) objects: usize,
    pub(super) places: usize,
}

/// A number of objects, or its upper bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) most: usize,
    pub(super) is_exact: bool,
}

impl Declared {
    /// The objects of this spec that the other spec does not declare.
    pub(super) fn beyond(&self, other: &Self) -> Beyond {
        let homes: BTreeSet<&Arc<str>> =
            self.things.values().chain(other.things.values()).flatten().collect();
        let of_both = self.things.keys().filter(|thing| !other.things.contains_key(*thing)).count();
        let mut beyond = Beyond::default();
        for place in &self.places {
            let objects = match (homes.contains(&place.namespace), other.places.contains(place)) {
                (false, false) => self.things.len(),
                (false, true) => of_both,
                (true, _) => {
                    let there = self.things_at(place);
                    there.filter(|thing| !other.has(thing, place)).count()
                }
            };
            beyond.objects += objects;
            beyond.places += usize::from(objects > 0);
        }
        beyond
    }

    fn things_at(&self, place: &InstanceName) -> impl Iterator<Item = &String> {
        let is_there = |homes: &BTreeSet<Arc<str>>| {
            homes.is_empty() || homes.iter().any(|home| *home != place.namespace)
        };
        self.things.iter().filter(move |(_, homes)| is_there(homes)).map(|(thing, _)| thing)
    }

    fn has(&self, thing: &str, place: &InstanceName) -> bool {
        self.places.contains(place) && self.things_at(place).any(|one| one == thing)
    }
}

impl Amount {
    /// The number with its noun: `1 copy`, `up to 3 copies`.
    pub(super) fn of(self, one: &str, many: &str) -> String {
        format!("{self} {}", if self.most == 1 { one } else { many })
    }

    /// The words for objects that are not deleted.
    pub(super) fn stay(self) -> &'static str {
        if self.most == 1 { "stays as an ordinary object" } else { "stay as ordinary objects" }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_most = if self.is_exact { "" } else { "up to " };
        write!(f, "{at_most}{}", self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(places: &[&str], things: &[(&str, &[&str])]) -> Declared {
        let homes = |homes: &[&str]| homes.iter().copied().map(Arc::from).collect();
        Declared {
            places: places.iter().map(|name| InstanceName::from(*name)).collect(),
            things: things.iter().map(|(name, of)| ((*name).to_owned(), homes(of))).collect(),
        }
    }

    #[test]
    fn objects_are_told_by_place_and_name() {
        let before = declared(&["a", "b", "home"], &[("app", &["home"]), ("ca", &["home", "vault"])]);
        for (after, gone, come, what) in [
            (
                declared(&["a", "b", "home"], &[("app", &["home"]), ("ca", &["home", "vault"])]),
                0,
                0,
                "the same",
            ),
            (declared(&[], &[]), 5, 0, "no copy goes where its only source is"),
            (declared(&["a", "c"], &[("app", &["home"]), ("ca", &["vault"])]), 3, 2, "another place"),
            (declared(&["a", "b", "home"], &[("ca", &["vault"])]), 2, 0, "one source fewer"),
            (
                declared(&["a", "b", "home"], &[("app", &["vault"]), ("ca", &["vault"])]),
                0,
                1,
                "another source of one name",
            ),
            (declared(&["vault", "home"], &[("ca", &["vault"])]), 4, 0, "a target that is the only source's"),
        ] {
            assert_eq!(
                (before.beyond(&after).objects, after.beyond(&before).objects),
                (gone, come),
                "{what}"
            );
        }
        assert_eq!(before.beyond(&Declared::default()), Beyond { objects: 5, places: 3 });
    }

    #[test]
    fn an_upper_bound_says_so() {
        let said = |most, is_exact| Amount { most, is_exact }.of("copy", "copies");
        assert_eq!([said(1, true), said(2, true), said(1, false)], ["1 copy", "2 copies", "up to 1 copy"]);
    }
}
