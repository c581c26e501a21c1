//! The queue and the rules in numbers, read when they are asked for.

use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::gauge::ConstGauge,
};

use super::queue::Queue;
use crate::model::World;

/// Shows the queue's depth by lane, what is being looked at, and copies desired, current and problems over all
/// rules. No namespace or name is a label: their number has no bound.
#[derive(Debug)]
pub struct Snapshot {
    /// The queue.
    pub queue: Arc<Queue>,
    /// What is known.
    pub world: Arc<RwLock<World>>,
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (lanes, running) = self.queue.depth();
        let help = "Keys that wait, by lane";
        let mut family =
            encoder.encode_descriptor("queue_depth", help, None, ConstGauge::new(0u64).metric_type())?;
        for (lane, depth) in ["new_namespace", "change", "sweep"].into_iter().zip(lanes) {
            let labels = [("lane", lane)];
            ConstGauge::new(depth as u64).encode(family.encode_family(&labels)?)?;
        }
        gauge(&mut encoder, "in_flight", "Keys that are being looked at", running as i64)?;
        let world = self.world.read().unwrap_or_else(PoisonError::into_inner);
        let statuses = || world.rules.values().filter_map(|facts| facts.status.as_ref());
        gauge(
            &mut encoder,
            "copies_desired",
            "Copies that should exist",
            statuses().map(|s| s.desired).sum(),
        )?;
        gauge(&mut encoder, "copies_current", "Copies in order", statuses().map(|s| s.current).sum())?;
        gauge(
            &mut encoder,
            "copies_problems",
            "Problems of all rules",
            statuses().map(|s| s.problem_count).sum(),
        )
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: i64,
) -> Result<(), std::fmt::Error> {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}
