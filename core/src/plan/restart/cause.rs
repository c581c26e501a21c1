//! The causes of a restart: the objects that have changed since the record was written.

use jiff::{SignedDuration, Timestamp};

use super::inputs::Inputs;
use crate::{model::World, names::ObjectKey};

/// How many objects a sentence names, and how many keys of each.
const NAMED: usize = 3;

/// The resolution of the times of changes.
const RESOLUTION: SignedDuration = SignedDuration::from_secs(1);

/// An object that has changed since the record was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The ConfigMap or Secret.
    pub object: ObjectKey,
    /// An upper bound of its last change (resolution 1 s).
    pub changed_at: Timestamp,
    /// The input keys that are known to have changed since, in order.
    pub keys: Vec<String>,
}

impl Cause {
    /// ` (key url)`; empty if no changed key is known.
    pub fn keys_said(&self) -> String {
        match self.keys.as_slice() {
            [] => String::new(),
            [one] => format!(" (key {one})"),
            some if some.len() <= NAMED => format!(" (keys {})", some.join(", ")),
            many => format!(" (keys {} and more)", many[..NAMED].join(", ")),
        }
    }
}

/// The objects that explain a difference in content, the latest change first: objects changed after the
/// record or, if no object was, in the same second as the record. Empty if only keys were removed, since no
/// timestamp shows a removal.
pub(super) fn causes(world: &World, inputs: &Inputs<'_>, recorded: Option<Timestamp>) -> Vec<Cause> {
    let known = inputs.objects.iter().filter_map(|(object, uses)| {
        let changed_at = world.object(object)?.changed_at;
        // As for objects, the second of the record is used only if nothing has changed after the record.
        let since = match recorded {
            Some(at) if changed_at > at => at.checked_add(RESOLUTION).unwrap_or(at),
            Some(at) => at,
            None => changed_at,
        };
        let changed = world.changed_keys(object).into_iter().flat_map(|keys| keys.since(since));
        let is_named = |key: &str| uses.iter().any(|one| one.admits(key) && one.may_be_named(object.kind));
        let keys = changed.filter(|key| is_named(key)).map(str::to_owned).collect();
        Some(Cause { object: object.clone(), changed_at, keys })
    });
    let mut all: Vec<Cause> = known.collect();
    all.sort_by(|a, b| (b.changed_at, &a.object).cmp(&(a.changed_at, &b.object)));
    let latest = all.first().map(|cause| cause.changed_at);
    let is_later = |cause: &Cause| match recorded {
        Some(at) if latest > Some(at) => cause.changed_at > at,
        Some(at) => cause.changed_at == at,
        None => Some(cause.changed_at) == latest,
    };
    all.retain(is_later);
    all
}

/// Causes in words: `ConfigMap app and Secret tls have changed`. All causes are in one namespace.
pub fn because(causes: &[Cause]) -> String {
    let names: Vec<String> = causes
        .iter()
        .map(|cause| format!("{} {}{}", cause.object.kind, cause.object.name, cause.keys_said()))
        .collect();
    match names.as_slice() {
        [] => "content that the workload uses has changed (Copyrator no longer knows in which object)".into(),
        [one] => format!("{one} has changed"),
        [most @ .., last] if names.len() <= NAMED => format!("{} and {last} have changed", most.join(", ")),
        _ => format!("{} and {} more have changed", names[..NAMED].join(", "), names.len() - NAMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        digest::{Fingerprint, KeyPrint},
        model::ObjectFacts,
        names::Kind,
        plan::restart::inputs::Use,
    };

    fn world(changes: &[(&str, i64)]) -> World {
        let mut world = World::default();
        for (name, second) in changes {
            let facts = ObjectFacts {
                uid: "u".into(),
                resource_version: "1".into(),
                labels: Default::default(),
                deletion: None,
                created: jiff::Timestamp::UNIX_EPOCH,
                owners: 0,
                changed_at: Timestamp::from_second(*second).unwrap(),
                content_fields: 0,
                restart: None,
                marks: None,
                ownership: None,
                examined: None,
                trace: Default::default(),
                seen: Default::default(),
            };
            world.set_object(ObjectKey::new(Kind::ConfigMap, "shop", *name), Some(facts));
        }
        world
    }

    #[test]
    fn a_restart_names_what_has_changed_since_the_record() {
        for (changes, recorded, expected) in [
            (&[("a", 10), ("b", 60), ("c", 50)][..], Some(20), "ConfigMap b and ConfigMap c have changed"),
            // The objects were adopted in the second of their creation: the cause is the object that has
            // changed since.
            (&[("a", 20), ("b", 60)], Some(20), "ConfigMap b has changed"),
            (&[("a", 20), ("b", 10)], Some(20), "ConfigMap a has changed"),
            (&[("a", 10), ("b", 60)], None, "ConfigMap b has changed"),
            (
                &[("a", 10), ("b", 10)],
                Some(20),
                "content that the workload uses has changed (Copyrator no longer knows in which object)",
            ),
            (
                &[("a", 21), ("b", 22), ("c", 23), ("d", 24), ("e", 25)],
                Some(20),
                "ConfigMap e, ConfigMap d, ConfigMap c and 2 more have changed",
            ),
        ] {
            let world = world(changes);
            let mut inputs = Inputs::default();
            inputs.objects.extend(world.objects().map(|(key, _)| (key.clone(), Vec::new())));
            let recorded = recorded.map(|at| Timestamp::from_second(at).unwrap());
            assert_eq!(because(&causes(&world, &inputs, recorded)), expected, "{changes:?}");
        }
    }

    #[test]
    fn the_keys_that_count_are_named_where_their_change_was_seen() {
        let object = ObjectKey::new(Kind::ConfigMap, "shop", "app");
        let mut world = world(&[("app", 10)]);
        let print = |world: &World, values: &[(&str, u8)]| Fingerprint {
            uid: "u".into(),
            resource_version: world.object(&object).unwrap().resource_version.clone(),
            type_: None,
            immutable: false,
            keys: values
                .iter()
                .map(|(key, value)| {
                    ((*key).to_owned(), KeyPrint { digest: [*value; 16], size: 1, binary: false })
                })
                .collect(),
            annotations: Default::default(),
            role: None,
            keeper: None,
        };
        let said = |world: &World, keys: &'static [&'static str], recorded: i64| {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            let mut inputs = Inputs::default();
            inputs.objects.insert(object.clone(), vec![Use { watched: None, referenced: Some(&keys) }]);
            because(&causes(world, &inputs, Timestamp::from_second(recorded).ok()))
        };
        let whole: &[&str] = &["a", "b", "c", "d", "e"];
        let first = print(&world, &[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]);
        world.set_fingerprint(&object, first);
        assert_eq!(said(&world, whole, 5), "ConfigMap app has changed");
        let mut facts = world.object(&object).unwrap().clone();
        facts.changed_at = Timestamp::from_second(20).unwrap();
        world.set_object(object.clone(), Some(facts.clone()));
        let second = print(&world, &[("a", 2), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]);
        world.set_fingerprint(&object, second);
        assert_eq!(said(&world, whole, 15), "ConfigMap app (key a) has changed");
        assert_eq!(said(&world, &["b"], 15), "ConfigMap app has changed");
        facts.changed_at = Timestamp::from_second(30).unwrap();
        world.set_object(object.clone(), Some(facts));
        let third = print(&world, &[("a", 2), ("b", 2), ("c", 2)]);
        world.set_fingerprint(&object, third);
        assert_eq!(said(&world, whole, 15), "ConfigMap app (keys a, b, c and more) has changed");
        assert_eq!(said(&world, &["b", "d"], 25), "ConfigMap app (keys b, d) has changed");
        // A change that the record already includes is no cause.
        assert_eq!(said(&world, &["a", "b"], 25), "ConfigMap app (key b) has changed");
    }
}
