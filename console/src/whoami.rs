//! `GET whoami`: the caller's user and groups, according to the API server.

use schemars::JsonSchema;
use serde::Serialize;

use super::{problem::Problem, seat::Seat};
use crate::access::CallerAuthorizer;

/// The caller, as the API server has it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WhoAmI {
    pub user: String,
    pub groups: Vec<String>,
    /// The cluster in words: the kubeconfig's context.
    pub cluster: String,
}

/// Asks the API server who the caller is.
///
/// # Errors
/// The API server did not answer who the caller is.
pub(super) async fn whoami(seat: &Seat) -> Result<WhoAmI, Problem> {
    let caller = CallerAuthorizer::new(seat.client.clone()).await.map_err(|error| Problem::of(&error))?;
    let subject = caller.caller();
    Ok(WhoAmI { user: subject.user.clone(), groups: subject.groups.clone(), cluster: seat.cluster.clone() })
}
