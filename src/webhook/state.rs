//! What the webhook needs to answer, as the process wires it.

use std::sync::{Arc, RwLock};

use super::{metrics::Metrics, shedding::Shedding};
use crate::{access::Authorizer, admit::Parties, model::World};

/// What the webhook needs to answer.
pub struct AdmitState {
    /// What is known of the cluster; watches write it.
    pub world: Arc<RwLock<World>>,
    /// Answers what users may do. Only asked about our own kinds and annotations.
    pub authorizer: Arc<dyn Authorizer>,
    /// Our own accounts, and the accounts that we trust.
    pub parties: Arc<Parties>,
    /// How many requests may be in flight.
    pub shedding: Shedding,
    /// The metrics that requests are counted in.
    pub metrics: Metrics,
}
