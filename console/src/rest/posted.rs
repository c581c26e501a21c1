//! The operations `plan` and `check` on manifests in a body, which write nothing.

use copyrator_cli::{
    commands::{check, plan},
    installed::ReadScope,
    survey::read_scope,
};
use http::StatusCode;

use super::Call;
use crate::{
    problem::Problem,
    surveying::{refused, take, turn},
};

/// Plans the effects of the manifests.
pub(crate) async fn planned(call: Call) -> Result<plan::Report, Problem> {
    let one = one(&call)?;
    let (client, installed) = (&call.seat.client, &call.seat.installed);
    let about = one.as_deref().unwrap_or(client.default_namespace());
    let read_scope = read_scope(client, installed, Some(about)).await.map_err(refused)?;
    let place = match &read_scope {
        ReadScope::One(place) => Some(place.to_string()),
        _ => one,
    };
    let home = place.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let (files, others) = plan::files(call.documents, &home);
    let (seen, _) =
        take(&call.seat, turn(&call.seat).await?, &read_scope, Some((files, place.clone()))).await?;
    let mut report = plan::Report::new(&seen.about(place.as_deref()), place.as_deref(), false);
    report.notes.extend(others);
    Ok(report)
}

/// Returns the webhook's verdicts on the manifests alone, without the cluster.
pub(crate) async fn checked(call: Call) -> Result<check::Report, Problem> {
    let one = one(&call)?;
    let home = one.as_deref().unwrap_or(call.seat.client.default_namespace());
    let judged = check::verdicts(call.documents, home, &call.seat.installed.namespace);
    judged.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.to_string()))
}

/// The one namespace that the request or the command line names.
fn one(call: &Call) -> Result<Option<String>, Problem> {
    let named = if call.asked.namespaces.is_empty() { &call.seat.named } else { &call.asked.namespaces };
    match named.len() {
        0 | 1 => Ok(named.first().map(|name| name.to_string())),
        _ => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "namespaces: name the namespace for objects without one",
        )),
    }
}
