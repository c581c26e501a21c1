//! Metrics of unreadable objects, and of failing lists and watches.

use std::{
    fmt::Error,
    sync::{Arc, PoisonError, RwLock},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::gauge::ConstGauge,
};

use crate::model::World;

/// Collects how many objects cannot be read, and how many lists and watches have failed for a minute. No
/// label of these metrics holds a name, since the number of names has no bound.
#[derive(Debug)]
pub(crate) struct Reads(pub(crate) Arc<RwLock<World>>);

impl Collector for Reads {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let (objects, lists) = {
            let world = self.0.read().unwrap_or_else(PoisonError::into_inner);
            (world.unreadable().count(), world.failing_lists().count())
        };
        for (name, help, number) in [
            ("objects_unreadable", "Objects that Copyrator cannot read and does not change", objects),
            ("lists_failing", "Lists and watches that have failed for a minute", lists),
        ] {
            let gauge = ConstGauge::new(number as i64);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
