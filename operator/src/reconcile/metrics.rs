//! Metrics of the queue, the rules, the policies and the restarts, computed when they are scraped.

use std::{
    collections::BTreeMap,
    fmt::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use super::{
    Lane,
    context::{Context, now},
};
use crate::{
    api::FailurePolicy,
    model::PolicyFacts,
    names::Declarer,
    plan::{copy::Tally, policy::is_in_force, restart::under_way},
};

/// Each rule's copies in numbers, as last counted by the process that leads.
#[derive(Debug, Default)]
pub(super) struct Tallies(Mutex<BTreeMap<Declarer, Tally>>);

impl Tallies {
    /// Sets a rule's numbers, or removes them with `None`; returns the previous numbers.
    pub(super) fn set(&self, rule: &Declarer, tally: Option<Tally>) -> Option<Tally> {
        match tally {
            Some(tally) => self.lock().insert(rule.clone(), tally),
            None => self.lock().remove(rule),
        }
    }

    /// Forgets all numbers: a different process leads now.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Declarer, Tally>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Exports the queue's depth and age by lane, the number of running keys and its limit, the watches that have
/// not listed yet, the copies of all rules, the policies that are off, and the restarts that wait or are
/// under way. Namespaces and names are no labels: their number has no bound.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) context: Context,
    pub(super) tallies: Arc<Tallies>,
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let queue = self.context.queue();
        let ((depths, running), ages) = (queue.depth(), queue.ages());
        let ages = ages.map(|age| age.as_secs_f64());
        by_lane(&mut encoder, "queue_depth", "Keys that wait", &depths.map(|depth| depth as f64))?;
        by_lane(&mut encoder, "queue_oldest_seconds", "Seconds that the first key has waited", &ages)?;
        gauge(&mut encoder, "in_flight", "Keys that the reconciler is processing", running)?;
        let throttle = queue.throttle();
        let help = "Maximum number of keys that the reconciler processes at once, without new namespaces";
        gauge(&mut encoder, "in_flight_limit", help, throttle.limit())?;
        let unlisted = self.context.world().data_scope().map_or(0, |scope| scope.unlisted().count());
        let help = "Watches of ConfigMaps and Secrets whose first list is not complete yet";
        gauge(&mut encoder, "watches_unlisted", help, unlisted)?;
        let busy = ConstCounter::new(throttle.times_busy());
        let help = "Requests that the API server rejected because it was too busy, or did not answer in time";
        busy.encode(encoder.encode_descriptor("api_busy", help, None, busy.metric_type())?)?;
        let all = self.tallies.lock();
        let sum = |count: fn(&Tally) -> usize| all.values().map(count).sum();
        for (name, help, number) in [
            (
                "copies_desired",
                "Copies that should exist, for rules and templates that may write",
                sum(|tally| tally.desired),
            ),
            ("copies_current", "Copies that are in order", sum(|tally| tally.current)),
            (
                "copies_conflicting",
                "Copies that Copyrator cannot write because of a foreign object, another rule or another writer",
                sum(|tally| tally.conflicting),
            ),
            (
                "copies_failed",
                "Copies that Copyrator could not write or delete, or that the API server refused",
                sum(|tally| tally.failed),
            ),
        ] {
            gauge(&mut encoder, name, help, number)?;
        }
        self.policies(&mut encoder)?;
        self.restarts(&mut encoder)
    }
}

impl Snapshot {
    /// A process that does not lead checks no hooks, so it counts no policies.
    fn policies(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let world = self.context.world();
        let leads = self.context.queue().is_open();
        let (name, help) = (
            "policies_off",
            "ConfigPolicies that check no writes (invalid, or without a hook), by failurePolicy",
        );
        let mut family = encoder.encode_descriptor(name, help, None, ConstGauge::new(0).metric_type())?;
        for (word, failure) in [("Fail", FailurePolicy::Fail), ("Ignore", FailurePolicy::Ignore)] {
            let is_one = |name: &str, facts: &PolicyFacts| {
                facts.spec.failure_policy == failure && !is_in_force(&world, name, facts)
            };
            let off = world.policies().iter().filter(|(name, facts)| leads && is_one(name, facts)).count();
            ConstGauge::new(off as i64).encode(family.encode_family(&[("failure_policy", word)])?)?;
        }
        Ok(())
    }

    /// A process that does not lead sees rollouts too, but counts none: otherwise each replica would count
    /// each rollout.
    fn restarts(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let world = self.context.world();
        let rolling = if self.context.queue().is_open() { under_way(&world, now()).len() } else { 0 };
        gauge(encoder, "rollouts_under_way", "Restarts in progress, without stuck restarts", rolling)?;
        let open = world.memory().workloads().filter(|(_, memory)| memory.is_circuit_open()).count();
        let help = "Workloads that do not become ready after restarts, so Copyrator restarts them less often";
        gauge(encoder, "circuits_open", help, open)?;
        let taken_back = world.memory().workloads().filter(|(_, memory)| memory.is_taken_back()).count();
        let help = "Workloads with pods that run older content, because another writer undid a restart";
        gauge(encoder, "restarts_taken_back", help, taken_back)?;
        let mut waiting: BTreeMap<&str, i64> = BTreeMap::new();
        for wait in world.memory().waits() {
            *waiting.entry(wait.reason.as_str()).or_default() += 1;
        }
        drop(world);
        let (name, help) = (
            "restarts_waiting",
            "Waiting restarts by reason; counts workloads, and monitors that select pods without a workload",
        );
        let mut family = encoder.encode_descriptor(name, help, None, ConstGauge::new(0).metric_type())?;
        for (reason, count) in waiting {
            ConstGauge::new(count).encode(family.encode_family(&[("reason", reason)])?)?;
        }
        Ok(())
    }
}

fn by_lane(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, values: &[f64]) -> Result<(), Error> {
    let help = format!("{help}, by lane");
    let mut family = encoder.encode_descriptor(name, &help, None, ConstGauge::new(0.0).metric_type())?;
    for ((_, lane), value) in Lane::ALL.into_iter().zip(values) {
        let labels = [("lane", lane)];
        ConstGauge::new(*value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: usize) -> Result<(), Error> {
    let gauge = ConstGauge::new(value as i64);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}
