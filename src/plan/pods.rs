//! Which pods run old content, and which of them goes next.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::StrategyType,
    model::{PodFacts, PodsSeen, WorkloadFacts, WorkloadKind},
};

/// A label of ours that was written this shortly before a change shows that we knew the old content while pods of
/// that second were there.
const JUST_RECORDED: SignedDuration = SignedDuration::from_secs(1);

/// How old a list of pods may be to decide by it.
const FRESH: SignedDuration = SignedDuration::from_secs(10);

/// How pods are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// By the eviction API, which honours PodDisruptionBudgets.
    Evict,
    /// By deletion.
    Delete,
}

impl Removal {
    /// The way of a strategy; `Rollout` removes nothing by itself, and evicts if it ever had to.
    pub fn by(strategy: StrategyType) -> Self {
        match strategy {
            StrategyType::Delete => Self::Delete,
            StrategyType::Evict | StrategyType::Rollout => Self::Evict,
        }
    }
}

/// A pod to remove: this very one, not another under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovePod {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl From<&PodFacts> for RemovePod {
    fn from(pod: &PodFacts) -> Self {
        Self { name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// Whether one can decide by a list of pods: it is later than the change (or made just now, should our clock be behind
/// the API server's), and not from long ago.
pub fn is_fresh(seen: &PodsSeen, changed_at: Timestamp, now: Timestamp) -> bool {
    let age = now.duration_since(seen.at).abs();
    age <= FRESH && (seen.at >= changed_at || age <= SignedDuration::from_secs(1))
}

/// Whether a pod began before the content changed.
///
/// Both times have a resolution of a second. In the same second the pod counts as younger: `helm upgrade`, and
/// `kubectl apply` of a folder, write configuration and workload within it, the workload's own rollout brings the
/// new content, and a restart of ours on top would be for nothing (Reloader rolls two or three times there).
/// A pod needs most of a second to start, and reads its content then.
///
/// Unless our own label was written within a second of the change, or after it: then we saw the old content while
/// pods of that second were coming up (a rollout of ours, or an adoption), and the change came on top. A Helm
/// upgrade finds a label from long ago.
pub fn is_older(pod: &PodFacts, changed_at: Timestamp, recorded: Option<Timestamp>) -> bool {
    let (created, changed) = (pod.created.as_second(), changed_at.as_second());
    let just_recorded =
        || recorded.is_some_and(|recorded| add(recorded, JUST_RECORDED).as_second() >= changed);
    created < changed || (created == changed && just_recorded())
}

/// The one pod of a workload that goes next, if any may: first one that does not serve anyway, else one while as
/// many serve as the workload wants. Highest ordinal first for a StatefulSet, as its own controller does, else
/// the oldest.
pub fn next_of_workload<'a>(
    facts: &WorkloadFacts,
    kind: WorkloadKind,
    seen: &PodsSeen,
    stale: &[&'a PodFacts],
) -> Option<&'a PodFacts> {
    let serving = seen.pods.iter().filter(|pod| pod.is_staying() && pod.ready).count();
    let is_full = i32::try_from(serving).unwrap_or(i32::MAX) >= facts.desired;
    let order = |pod: &&PodFacts| match kind {
        WorkloadKind::StatefulSet => (i64::MAX - ordinal(&pod.name), pod.name.clone()),
        WorkloadKind::Deployment | WorkloadKind::DaemonSet => (pod.created.as_second(), pod.name.clone()),
    };
    let first = |ready: bool| stale.iter().copied().filter(|pod| pod.ready == ready).min_by_key(order);
    first(false).or_else(|| first(true).filter(|_| is_full))
}

/// A StatefulSet's pod's number.
fn ordinal(name: &str) -> i64 {
    name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// A time a little later; the end of time stays where it is.
pub fn add(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_told_by_seconds_and_by_our_own_label() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let pod = |created| PodFacts {
            name: "web-1".into(),
            uid: "u".into(),
            created: at(created),
            leaving: false,
            finished: false,
            ready: true,
            ready_since: None,
            crashing: false,
            workload: None,
            controlled: true,
            untouchable: false,
        };
        for (created, recorded, older) in [
            (99, None, true),
            (101, Some(101), false),
            (100, None, false),
            // Helm: the label is from long ago.
            (100, Some(50), false),
            // We wrote the label for the old content in that very second, the second before, or even later.
            (100, Some(100), true),
            (100, Some(99), true),
            (100, Some(98), false),
            (100, Some(103), true),
        ] {
            assert_eq!(is_older(&pod(created), at(100), recorded.map(at)), older, "{created} {recorded:?}");
        }
    }

    #[test]
    fn a_list_from_before_the_change_decides_nothing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (listed, changed, now, expected) in
            [(100, 98, 105, true), (100, 98, 111, false), (100, 102, 104, false), (100, 102, 101, true)]
        {
            let seen = PodsSeen { at: at(listed), resource_version: "1".into(), pods: Vec::new() };
            assert_eq!(is_fresh(&seen, at(changed), at(now)), expected, "{listed} {changed} {now}");
        }
    }

    #[test]
    fn ordinals_are_numbers() {
        for (name, expected) in [("db-10", 10), ("db-2", 2), ("db", 0), ("db-x", 0)] {
            assert_eq!(ordinal(name), expected, "{name}");
        }
    }
}
