//! Decides which pods run old content, and which old pod is removed next.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::brake::Wait;
use crate::{
    api::{StrategyType, WorkloadKind},
    model::{PodFacts, PodsSeen, WaitReason, WorkloadFacts},
};

/// Maximum time between the write of our label and a later change from which we conclude that we read the old
/// content while pods of the change's second existed.
const JUST_RECORDED: SignedDuration = SignedDuration::from_secs(1);

/// The maximum age of a list of pods for a decision.
const FRESH: SignedDuration = SignedDuration::from_secs(10);

/// When to look again at pods that we wait for and do not watch.
pub(super) const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// How pods are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// By the eviction API, which honours PodDisruptionBudgets.
    Evict,
    /// By deletion, which asks no PodDisruptionBudget.
    Delete,
}

impl Removal {
    /// The removal for a strategy. `Rollout` removes no pods itself; if `Rollout` ever had to, it would
    /// evict.
    pub fn by(strategy: StrategyType) -> Self {
        match strategy {
            StrategyType::Delete => Self::Delete,
            StrategyType::Evict | StrategyType::Rollout => Self::Evict,
        }
    }
}

/// A pod to remove, by UID: never a new pod of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovePod {
    /// `metadata.name`, in the namespace of the pod's workload or monitor.
    pub name: String,
    /// The pod's `metadata.uid`, a precondition of its removal.
    pub uid: String,
}

impl From<&PodFacts> for RemovePod {
    fn from(pod: &PodFacts) -> Self {
        Self { name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// Whether a list of pods is recent enough to decide by. The list must be later than the change. A list of
/// this moment is accepted, too, in case our clock is behind the API server's.
pub(super) fn is_fresh(seen: &PodsSeen, changed_at: Timestamp, now: Timestamp) -> bool {
    let age = now.duration_since(seen.at).abs();
    age <= FRESH && (seen.at >= changed_at || age <= SignedDuration::from_secs(1))
}

/// The second (of Unix time) before which an old pod must have begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Before(i64);

impl Before {
    /// Parses the time in a record.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    /// Whether this pod began before that second.
    pub fn is_before(self, pod: &PodFacts) -> bool {
        pod.created.as_second() < self.0
    }

    /// Waits until new pods are considered new. In the second of the change, new pods would be considered
    /// old, and would be replaced again and again until the second is over.
    ///
    /// # Errors
    /// The wait until the second of the change is over.
    pub fn is_past(self, now: Timestamp) -> Result<(), Wait> {
        let from = self.time();
        if from <= now { Ok(()) } else { Err(Wait::until(WaitReason::QuietPeriod, from)) }
    }

    /// The time before which pods count as old.
    pub fn time(self) -> Timestamp {
        Timestamp::from_second(self.0).unwrap_or(Timestamp::MAX)
    }
}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the time such that pods that began earlier run content older than the change at `changed_at`.
///
/// The time of a change and the start of a pod have a resolution of a second. A pod of the same second is
/// considered younger: `helm upgrade`, and `kubectl apply` of a folder, write configuration and workload
/// within a second. The workload's own rollout then already brings the new content, and our restart would be
/// unnecessary (Reloader rolls two or three times). A pod needs most of a second to start, and reads its
/// content afterwards.
///
/// A pod of the same second is considered older if our own label was written within a second of the change,
/// or after the change: we saw the old content while such pods were starting (a rollout of ours, or an
/// adoption), and the change came later. A Helm upgrade finds a label from long ago.
pub(super) fn before(changed_at: Timestamp, recorded: Option<Timestamp>) -> Before {
    let changed = changed_at.as_second();
    let just_recorded = recorded.is_some_and(|recorded| add(recorded, JUST_RECORDED).as_second() >= changed);
    Before(changed + i64::from(just_recorded))
}

/// The one pod of a workload to remove next, if any may be removed: first a pod that is not ready, else any
/// pod while as many pods are ready as the workload wants. A StatefulSet's highest ordinal is removed first,
/// as by its own controller; otherwise the oldest pod.
pub(super) fn next_of_workload<'a>(
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

/// The ordinal in the name of a StatefulSet's pod.
pub(super) fn ordinal(name: &str) -> i64 {
    name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// Adds a span to a time; saturates at the end of time.
pub(super) fn add(time: Timestamp, span: SignedDuration) -> Timestamp {
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
            // A Helm upgrade finds a label from long ago.
            (100, Some(50), false),
            // We wrote the label for the old content in the second of the change, the second before, or even
            // later.
            (100, Some(100), true),
            (100, Some(99), true),
            (100, Some(98), false),
            (100, Some(103), true),
        ] {
            assert_eq!(
                before(at(100), recorded.map(at)).is_before(&pod(created)),
                older,
                "{created} {recorded:?}"
            );
        }
    }

    #[test]
    fn a_list_from_before_the_change_decides_nothing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (listed, changed, now, expected) in
            [(100, 98, 105, true), (100, 98, 111, false), (100, 102, 104, false), (100, 102, 101, true)]
        {
            let seen = PodsSeen { at: at(listed), resource_version: None, pods: Vec::new() };
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
