//! The admission webhook: a router over [`copyrator_core::admit`], which decodes a review, decides about it
//! from memory and responds. This module adds questions to the API server, metrics and limits.

mod body;
mod fault;
mod handler;
mod judge;
mod metrics;
mod shedding;
mod state;

use std::sync::Arc;

use axum::{Router, extract::Path, response::IntoResponse, routing::post};
use http::StatusCode;

pub use metrics::Metrics;
pub(crate) use metrics::{PathLabels, ReviewLabels};
pub use shedding::Shedding;
pub use state::AdmitState;

use crate::admit::{PATHS, Purpose};

/// The path for one policy, which hooks of an earlier version call. The path judges all policies, as the path
/// without a name does.
const ONE_POLICY: &str = "/validate/policies/{name}";

/// Returns the webhook's router. Unknown paths are 404, other methods 405.
pub fn router(state: AdmitState) -> Router {
    let state = Arc::new(state);
    let handle = move |path, purpose, request| handler::handle(state.clone(), path, purpose, request);
    let one_policy = {
        let handle = handle.clone();
        move |Path(name): Path<String>, request| async move {
            match is_policy_name(&name) {
                true => handle(ONE_POLICY, Purpose::Policies, request).await,
                false => StatusCode::NOT_FOUND.into_response(),
            }
        }
    };
    PATHS.into_iter().fold(Router::new().route(ONE_POLICY, post(one_policy)), |router, (path, purpose)| {
        let handle = handle.clone();
        router.route(path, post(move |request| handle(path, purpose, request)))
    })
}

/// Whether Kubernetes accepts the name: dot-separated parts of lower-case letters, digits and dashes.
fn is_policy_name(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
            && bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
    };
    name.len() <= 253 && name.split('.').all(part)
}
