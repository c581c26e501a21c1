//! The state of the webhook, which the process wires.

use std::sync::{Arc, RwLock};

use super::{metrics::Metrics, shedding::Shedding};
use crate::{access::Authorizer, admit::Parties, model::World};

/// The state that the webhook needs to answer.
pub struct AdmitState {
    /// The webhook's model of the cluster. Watches write the model.
    pub world: Arc<RwLock<World>>,
    /// Answers questions about users' rights. Only reviews of our own kinds and annotations need the answers.
    pub authorizer: Arc<dyn Authorizer>,
    /// Our own accounts, and the trusted foreign accounts.
    pub parties: Arc<Parties>,
    /// The limits of requests in flight.
    pub shedding: Shedding,
    /// The metrics of requests.
    pub metrics: Metrics,
}
