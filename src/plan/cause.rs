//! What a restart is for: the objects that have changed since what runs was recorded, and from their side, whom that
//! restarts.

use jiff::Timestamp;

use super::{
    inputs::Inputs, reach::workloads_using, restarts::plan_in_line, stage::Lines,
    workload_plan::WorkloadState,
};
use crate::model::{ObjectKey, WorkloadKey, World};

/// How many objects a sentence names.
const NAMED: usize = 3;

/// An object that has changed since what runs was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The object.
    pub object: ObjectKey,
    /// An upper bound of its last change (resolution 1 s).
    pub changed_at: Timestamp,
}

/// The objects behind a difference in content, the latest change first. Those that have changed after the record or,
/// where none has, in its very second; none where only keys have gone, of which no time tells.
pub(super) fn causes(world: &World, inputs: &Inputs<'_>, recorded: Option<Timestamp>) -> Vec<Cause> {
    let known = inputs.objects.keys().filter_map(|object| {
        Some(Cause { object: object.clone(), changed_at: world.object(object)?.changed_at })
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

/// Causes in words: `ConfigMap app and Secret tls have changed`. They are all of one namespace.
pub fn because(causes: &[Cause]) -> String {
    let names: Vec<String> =
        causes.iter().map(|cause| format!("{} {}", cause.object.kind, cause.object.name)).collect();
    match names.as_slice() {
        [] => {
            "content that it uses has changed (a key was removed, and no time tells of which object)".into()
        }
        [one] => format!("{one} has changed"),
        [most @ .., last] if names.len() <= NAMED => format!("{} and {last} have changed", most.join(", ")),
        _ => format!("{} and {} more have changed", names[..NAMED].join(", "), names.len() - NAMED),
    }
}

/// The workloads that restart for this object's latest change, now or after a wait, as far as their content is known: not
/// those that a person has to do something about first.
pub fn restarting_for(world: &World, object: &ObjectKey, now: Timestamp) -> Vec<WorkloadKey> {
    let mut using: Vec<WorkloadKey> = workloads_using(world, object).into_iter().collect();
    let lines = Lines::default();
    using.retain(|key| {
        let plan = plan_in_line(world, &lines, key, now);
        let restarts = matches!(plan.state, WorkloadState::Waiting(_) | WorkloadState::Restarting);
        restarts && plan.causes.iter().any(|cause| cause.object == *object)
    });
    using
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Kind, ObjectFacts};

    fn world(changes: &[(&str, i64)]) -> World {
        let mut world = World::default();
        for (name, second) in changes {
            let facts = ObjectFacts {
                uid: "u".into(),
                resource_version: "1".into(),
                labels: Default::default(),
                deleting: false,
                changed_at: Timestamp::from_second(*second).unwrap(),
                content_fields: 0,
                restart: None,
                marks: None,
                ownership: None,
            };
            world.set_object(ObjectKey::new(Kind::ConfigMap, "shop", *name), Some(facts));
        }
        world
    }

    #[test]
    fn a_restart_names_what_has_changed_since_the_record() {
        for (changes, recorded, expected) in [
            (&[("a", 10), ("b", 60), ("c", 50)][..], Some(20), "ConfigMap b and ConfigMap c have changed"),
            // Adopted in the second in which they were made: the one that has changed since is meant.
            (&[("a", 20), ("b", 60)], Some(20), "ConfigMap b has changed"),
            (&[("a", 20), ("b", 10)], Some(20), "ConfigMap a has changed"),
            (&[("a", 10), ("b", 60)], None, "ConfigMap b has changed"),
            (
                &[("a", 10), ("b", 10)],
                Some(20),
                "content that it uses has changed (a key was removed, and no time tells of which object)",
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
}
