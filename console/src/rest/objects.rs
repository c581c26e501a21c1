//! Lists of Nodes, Namespaces, Deployments and Services, as `copyrator get` returns them.

use copyrator_cli::commands::get::{FetchError, What, fetch};
use serde_json::Value;

use super::Call;
use crate::problem::Problem;

/// Returns the objects as a List. A refusal of the API server is passed on unchanged.
pub(crate) async fn listed(call: Call, what: What) -> Result<Value, Problem> {
    let namespace = call.path.get("namespace").map(String::as_str);
    match fetch(&call.seat.client, what.sought(), namespace, None, false).await {
        Ok(listed) => Ok(listed.list()),
        Err(FetchError::Refused { status, .. }) => Err(Problem::answered(&status)),
        Err(error) => Err(Problem::of(&error)),
    }
}
