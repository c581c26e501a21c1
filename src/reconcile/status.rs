//! Statuses: written when they differ from what is there, and at most every two seconds an object.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use kube::Resource;
use serde::Serialize;
use tokio::time::Instant;

use super::{Again, Lane, Reconciler, now};
use crate::{
    act::{
        outcome::Outcome,
        status::{StatusOf, write_status},
    },
    api::{ConfigMonitor, ConfigMonitorStatus, ConfigPolicy, CopyratorRule, CopyratorRuleStatus},
    explain::monitor_report,
    model::{Authority, Declared},
    names::NamespacedName,
    plan::{
        Key,
        copy::{large_spread, rule_report, says_too_many},
        policy::policy_status,
        slots_to_check,
    },
};

const AT_MOST_EVERY: Duration = Duration::from_secs(2);
/// When to see whether the API server has answered what an object may do.
const FOR_AN_ANSWER: Duration = Duration::from_millis(200);

impl Reconciler {
    pub(super) async fn rule_status(&self, key: &Key, rule: &NamespacedName) -> Again {
        if let Some(wait) = self.too_soon(key) {
            return Again::After(wait);
        }
        let (uid, before, after) = {
            let world = self.world();
            let Some(facts) = world.rules().get(rule) else {
                self.tallies.set(rule, None);
                return self.forget_status(key);
            };
            let (status, tally) = rule_report(&world, rule, now()).unzip();
            if tally.is_some() {
                self.tallies.set(rule, tally);
            }
            (facts.uid.clone(), facts.status.clone(), status)
        };
        self.note_room(rule, before.as_ref(), after.as_ref());
        let said = |status: &Option<CopyratorRuleStatus>| large_spread(status.as_ref()?).map(str::to_owned);
        let news = said(&after).filter(|_| said(&before).is_none());
        let of = StatusOf { namespace: Some(&rule.namespace), name: &rule.name, uid: &uid };
        let (again, is_written) = self.write::<CopyratorRule, _>(key, of, before, after).await;
        if let Some(large) = news.filter(|_| is_written) {
            self.reporter.large_spread(rule, large).await;
        }
        again
    }

    /// A rule that came to too many copies and does not any more makes those that are lacking.
    pub(super) fn note_room(
        &self,
        rule: &NamespacedName,
        before: Option<&CopyratorRuleStatus>,
        after: Option<&CopyratorRuleStatus>,
    ) {
        if before.is_some_and(says_too_many) && after.is_some_and(|after| !says_too_many(after)) {
            let slots = slots_to_check(&self.world(), rule);
            slots.into_iter().for_each(|slot| self.queue.add(slot, Lane::Change));
        }
    }

    pub(super) async fn monitor_status(&self, key: &Key, monitor: &NamespacedName) -> Again {
        if let Some(wait) = self.too_soon(key) {
            return Again::After(wait);
        }
        let (uid, before, report) = {
            let world = self.world();
            let Some(facts) = world.monitors().get(monitor) else { return self.forget_status(key) };
            // What its pods run with is written elsewhere, and nothing to compare.
            let before =
                facts.status.clone().map(|status| ConfigMonitorStatus { pods_applied: None, ..status });
            (facts.uid.clone(), before, monitor_report(&world, monitor, now()))
        };
        let of = StatusOf { namespace: Some(&monitor.namespace), name: &monitor.name, uid: &uid };
        let (after, failed) = report.map(|report| (report.status, report.stage_failed)).unzip();
        let (again, is_written) = self.write::<ConfigMonitor, _>(key, of, before.clone(), after).await;
        if let Some(failed) = failed.filter(|_| is_written) {
            self.tell_of_failures(monitor, before.as_ref(), failed).await;
        }
        again
    }

    pub(super) async fn policy_status(&self, key: &Key, name: &Arc<str>) -> Again {
        if let Some(wait) = self.too_soon(key) {
            return Again::After(wait);
        }
        let (uid, before, after) = {
            let world = self.world();
            let Some(facts) = world.policies().get(name) else { return self.forget_status(key) };
            (facts.uid.clone(), facts.status.clone(), policy_status(&world, name, now()))
        };
        let of = StatusOf { namespace: None, name, uid: &uid };
        self.write::<ConfigPolicy, _>(key, of, before, after).await.0
    }

    /// When to look again, and whether a new status was written: what is told once is told with it.
    async fn write<K, S>(
        &self,
        key: &Key,
        of: StatusOf<'_>,
        before: Option<S>,
        after: Option<S>,
    ) -> (Again, bool)
    where
        K: Resource<DynamicType = ()>,
        S: Serialize + PartialEq,
    {
        let Some(after) = after.filter(|after| before.as_ref() != Some(after)) else {
            return (Again::OnChange, false);
        };
        let again = match write_status::<K>(&self.writer, of, &after).await {
            Outcome::Done => {
                self.told(key);
                return (Again::OnChange, true);
            }
            Outcome::NotLeading | Outcome::Stale | Outcome::NamespaceGone => Again::OnChange,
            Outcome::Retry { after, message, .. } => {
                tracing::warn!(name = of.name, %message, "cannot write a status");
                Again::Backoff(after)
            }
            Outcome::Refused { message, .. } | Outcome::NeedsReplacing(message) => {
                tracing::error!(name = of.name, %message, "a status was refused");
                // An admission policy whose parameters the API server has not read yet refuses everything for
                // a moment.
                Again::Backoff(None)
            }
        };
        (again, false)
    }

    /// Something was said about this key: the next word waits.
    pub(super) fn told(&self, key: &Key) {
        let mut written = self.status_written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(key.clone(), Instant::now());
    }

    /// How long a status waits: for two seconds since it was last written, and for the answer where the API
    /// server is being asked what its object may do. Else the status would say for two seconds that nobody
    /// knows, with copies there.
    pub(super) fn too_soon(&self, key: &Key) -> Option<Duration> {
        if self.unanswered(key).is_some_and(|asking| self.queue.is_at(&asking)) {
            return Some(FOR_AN_ANSWER);
        }
        let written = self.status_written.lock().unwrap_or_else(PoisonError::into_inner);
        AT_MOST_EVERY.checked_sub(written.get(key)?.elapsed()).filter(|wait| !wait.is_zero())
    }

    /// The key that asks what the object of a status may do, while that is not known.
    fn unanswered(&self, key: &Key) -> Option<Key> {
        let world = self.world();
        match key {
            Key::RuleStatus(rule) => is_unanswered(world.rules().get(rule)?, world.rule_authority(rule))
                .then(|| Key::Rule(rule.clone())),
            Key::MonitorStatus(of) => is_unanswered(world.monitors().get(of)?, world.monitor_authority(of))
                .then(|| Key::Monitor(of.clone())),
            _ => None,
        }
    }

    pub(super) fn forget_status(&self, key: &Key) -> Again {
        self.status_written.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        Again::OnChange
    }
}

fn is_unanswered<S, C, T>(facts: &Declared<S, C, T>, known: Option<&Authority>) -> bool {
    !known.is_some_and(|known| known.uid == facts.uid && known.generation == facts.generation)
}
