//! The webhook's metrics. No label names an object or a namespace.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

/// Histogram buckets in seconds, from 5 µs to 5 s.
const BUCKETS: [f64; 17] = [
    5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 0.25, 0.5, 1.0, 5.0,
];

/// Labels of an answered review.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReviewLabels {
    /// The path of the request.
    pub path: &'static str,
    /// One of CREATE, UPDATE, DELETE and none.
    pub operation: &'static str,
    /// The object's kind if the webhook knows the kind, or else `other`.
    pub kind: &'static str,
    /// One of allowed, warned, patched, refused, malformed, fault, shed, panic and deadline.
    pub verdict: &'static str,
}

/// Labels of a path's metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PathLabels {
    /// The path of the request.
    pub path: &'static str,
}

/// The webhook's metrics. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Answered reviews, by path, operation, kind and verdict.
    pub reviews: Family<ReviewLabels, Counter>,
    /// Time to an answer, including receiving the body.
    pub duration: Family<PathLabels, Histogram, fn() -> Histogram>,
    /// Number of requests in flight.
    pub in_flight: Gauge,
    /// Requests refused because too many were in flight.
    pub shed: Counter,
    /// Panics caught in a request.
    pub panics: Counter,
    /// When policies last gave no verdict about a write, in seconds since 1970; 0: never. The answer to a
    /// canary reports this time.
    pub last_unjudged: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            reviews: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            in_flight: Gauge::default(),
            shed: Counter::default(),
            panics: Counter::default(),
            last_unjudged: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Registers the metrics as `copyrator_admission_…`, if the registry has the prefix `copyrator`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("admission");
        registry.register("reviews", "Admission reviews answered", self.reviews.clone());
        registry.register_with_unit(
            "duration",
            "Time from a review's headers to its answer",
            Unit::Seconds,
            self.duration.clone(),
        );
        registry.register("in_flight", "Admission reviews in progress", self.in_flight.clone());
        registry.register("shed", "Admission reviews rejected because of load", self.shed.clone());
        registry.register_with_unit(
            "last_unjudged_timestamp",
            "Time of the last write that the policies could not check and that failurePolicy Ignore allowed",
            Unit::Seconds,
            self.last_unjudged.clone(),
        );
        registry.register("panics", "Panics contained while answering", self.panics.clone());
    }
}
