//! Admission: `decode` a review, `decide` it from memory, `respond`.

pub mod decide;
pub mod decode;
mod handler;
mod inquiry;
mod metrics;
pub mod respond;
mod shedding;

use std::sync::{Arc, RwLock};

use axum::{Router, routing::post};

pub use decide::{Parties, Purpose};
pub use decode::UserInfo;
pub use metrics::{Metrics, PathLabels, ReviewLabels};
pub use shedding::Shedding;

use crate::{authority::Authorizer, model::World};

/// What the webhook answers from.
#[derive(Clone)]
pub struct AdmitState {
    /// What is known of the cluster; watches write it.
    pub world: Arc<RwLock<World>>,
    /// Who knows what is allowed. Asked for our own kinds only.
    pub authorizer: Arc<dyn Authorizer>,
    /// Who we are and whom we trust.
    pub parties: Arc<Parties>,
    /// How many requests may be under way.
    pub shedding: Shedding,
    /// What is counted.
    pub metrics: Metrics,
}

/// The paths, one a hook, and what is decided there.
pub const PATHS: [(&str, Purpose); 6] = [
    ("/validate", Purpose::All),
    ("/validate/own-kinds", Purpose::OwnKinds),
    ("/validate/policies", Purpose::Policies),
    ("/validate/warnings", Purpose::Warnings),
    ("/mutate", Purpose::Defaults),
    ("/mutate/defaults", Purpose::Defaults),
];

/// The webhook. Unknown paths are 404, other methods 405.
pub fn router(state: AdmitState) -> Router {
    PATHS.into_iter().fold(Router::new(), |router, (path, purpose)| {
        let state = state.clone();
        router.route(path, post(move |request| handler::handle(state.clone(), path, purpose, request)))
    })
}
