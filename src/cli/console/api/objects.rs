//! Lists of Nodes, Namespaces, Deployments and Services, as `copyrator get` returns them.

use serde_json::Value;

use super::Call;
use crate::cli::{
    console::problem::Problem,
    get::{FetchError, What, fetch},
};

/// Returns the objects as a List. A refusal of the API server is passed on unchanged.
pub(in crate::cli::console) async fn listed(call: Call, what: What) -> Result<Value, Problem> {
    let namespace = call.path.get("namespace").map(String::as_str);
    match fetch(&call.seat.client, what.sought(), namespace, None, false).await {
        Ok(listed) => Ok(listed.list()),
        Err(FetchError::Refused { status, .. }) => Err(Problem::answered(&status)),
        Err(error) => Err(Problem::of(&error)),
    }
}
