//! The memory of reports about restarts: metrics, and the messages not to repeat.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use super::{dedup::Dedup, restart::RestartOutcome};
use crate::{
    dry_run::outcome::Outcome,
    names::{ObjectKey, WorkloadKey},
};

/// Histogram buckets in seconds: from within a quiet period to the downtime of a weekend.
const SECONDS: [f64; 14] =
    [1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0, 86400.0, 259_200.0];

/// Labels of the counter of restarts; each label has a closed list of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RestartLabels {
    strategy: &'static str,
    outcome: &'static str,
}

/// The metrics of restarts, and the past reports, so that each change is reported once.
#[derive(Clone, Debug)]
pub(super) struct Restarts {
    counts: Family<RestartLabels, Counter>,
    lag: Histogram,
    /// The last reported change of each object.
    pub(super) told: Arc<Mutex<HashMap<ObjectKey, Timestamp>>>,
    /// The last remark about each workload.
    pub(super) remarks_of_workloads: Dedup<WorkloadKey>,
    /// The last remark about each other object.
    pub(super) remarks: Dedup<ObjectKey>,
}

impl Default for Restarts {
    fn default() -> Self {
        Self {
            counts: Family::default(),
            lag: Histogram::new(SECONDS),
            told: Arc::default(),
            remarks_of_workloads: Dedup::default(),
            remarks: Dedup::default(),
        }
    }
}

impl Restarts {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Restarts of workloads, or of single pods, by strategy and outcome";
        registry.register("restarts", help, self.counts.clone());
        let help = "Seconds from the last change of content until Copyrator wrote the restart, for each workload or single pod; the time \
         of a change has a resolution of one second";
        registry.register("restart_lag_seconds", help, self.lag.clone());
    }

    pub(super) fn count(&self, strategy: &'static str, outcome: &RestartOutcome, lag: Option<f64>) {
        self.counts.get_or_create(&RestartLabels { strategy, outcome: outcome.label() }).inc();
        if let Some(lag) = lag.filter(|_| is_done(outcome)) {
            self.lag.observe(lag);
        }
    }
}

/// Whether the action restarted a workload or removed pods.
pub(super) fn is_done(outcome: &RestartOutcome) -> bool {
    *outcome == RestartOutcome::Write(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_counted_and_only_those_that_were_written_are_timed() {
        let restarts = Restarts::default();
        let mut registry = Registry::with_prefix("copyrator");
        restarts.register(&mut registry);
        restarts.count("rollout", &RestartOutcome::Write(Outcome::Done), Some(3.0));
        restarts.count("rollout", &RestartOutcome::Write(Outcome::Stale), Some(3.0));
        restarts.count("evict", &RestartOutcome::Budget { after: None }, Some(3.0));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"copyrator_restarts_total{strategy="rollout",outcome="done"} 1"#,
            r#"copyrator_restarts_total{strategy="rollout",outcome="stale"} 1"#,
            r#"copyrator_restarts_total{strategy="evict",outcome="budget"} 1"#,
            "copyrator_restart_lag_seconds_count 1",
            r#"copyrator_restart_lag_seconds_bucket{le="5.0"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }
}
