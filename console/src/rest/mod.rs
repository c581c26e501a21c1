//! The HTTP API, `/api/v1`: the JSON that commands print with `-o json`, from the same functions. One table
//! defines the routes and the OpenAPI document, so they cannot differ.

mod lists;
mod objects;
mod openapi;
mod operation;
mod posted;
mod templates;
mod told;

use axum::{Router, routing::get};
use serde_json::Value;

use self::operation::{Form, Operation, ROOT, Verb};
pub(super) use self::{
    lists::{ViolationLine, copies, copy_rows, restart_lines, restarts, statuses, violations},
    objects::listed,
    operation::{Call, read},
    posted::{checked, planned},
    told::{doctor, tree, why, why_not},
};
use copyrator_cli::commands::get::What;

use super::{
    feed::{Happening, open},
    site::Site,
    whoami::whoami,
};

/// The operations of the HTTP API. Router and OpenAPI document are made from this list.
fn operations() -> Vec<Operation> {
    let of_rows = &["namespaces", "namespace", "limit", "continue"];
    vec![
        Operation::new(
            (Verb::Get, "/whoami"),
            Form::Document("WhoAmI"),
            "Your user, as the API server sees it",
            &[],
            |call| async move { whoami(&call.seat).await },
        ),
        Operation::new((Verb::Get, "/nodes"), Form::List, "Nodes, as copyrator get", &[], |call| {
            listed(call, What::Nodes)
        }),
        Operation::new((Verb::Get, "/namespaces"), Form::List, "Namespaces, as copyrator get", &[], |call| {
            listed(call, What::Namespaces)
        }),
        Operation::new(
            (Verb::Get, "/namespaces/{namespace}/deployments"),
            Form::List,
            "Deployments of a namespace, as copyrator get",
            &[],
            |call| listed(call, What::Deployments),
        ),
        Operation::new(
            (Verb::Get, "/namespaces/{namespace}/services"),
            Form::List,
            "Services of a namespace, as copyrator get",
            &[],
            |call| listed(call, What::Services),
        ),
        Operation::new(
            (Verb::Get, "/rules"),
            Form::Document("Rules"),
            "Rules with their copies, as copyrator status",
            of_rows,
            |call| statuses(call, "CopyratorRule"),
        ),
        Operation::new(
            (Verb::Get, "/templates"),
            Form::Document("Templates"),
            "Templates with what they declare, as copyrator status",
            of_rows,
            |call| statuses(call, "CopyratorTemplate"),
        ),
        Operation::new(
            (Verb::Get, "/monitors"),
            Form::Document("Monitors"),
            "Monitors with their workloads, as copyrator status",
            of_rows,
            |call| statuses(call, "ConfigMonitor"),
        ),
        Operation::new(
            (Verb::Get, "/policies"),
            Form::Document("Policies"),
            "Policies, as copyrator status",
            of_rows,
            |call| statuses(call, "ConfigPolicy"),
        ),
        Operation::new(
            (Verb::Get, "/copies"),
            Form::Document("Copies"),
            "Copies, one row each, the worst first",
            &["namespaces", "namespace", "rule", "state", "limit", "continue"],
            copies,
        ),
        Operation::new(
            (Verb::Get, "/restarts"),
            Form::Document("Restarts"),
            "Workloads and the state of their restarts, one row each, the worst first",
            &["namespaces", "namespace", "state", "limit", "continue"],
            restarts,
        ),
        Operation::new(
            (Verb::Get, "/violations"),
            Form::Document("Violations"),
            "Violations of policies by existing objects, from the policies' statuses",
            &["namespaces", "namespace", "policy", "limit", "continue"],
            violations,
        ),
        Operation::new(
            (Verb::Get, "/tree"),
            Form::Document("Tree"),
            "Sources, their copies, and the users of the copies",
            &["namespaces"],
            tree,
        ),
        Operation::new(
            (Verb::Get, "/tree/{kind}/{namespace}/{name}"),
            Form::Document("Tree"),
            "The tree of one object, as copyrator tree shows it",
            &[],
            tree,
        ),
        Operation::new(
            (Verb::Get, "/why/{kind}/{namespace}/{name}"),
            Form::Document("Why"),
            "Why an object exists and which workloads depend on it, as copyrator why",
            &[],
            why,
        ),
        Operation::new(
            (Verb::Get, "/why-not/{namespace}"),
            Form::Document("WhyNot"),
            "Why a namespace gets no copies, as copyrator why-not",
            &["rule"],
            why_not,
        ),
        Operation::new(
            (Verb::Get, "/doctor"),
            Form::Document("Diagnosis"),
            "Problems of the installation, as copyrator doctor",
            &[],
            doctor,
        ),
        Operation::new(
            (Verb::Post, "/plan"),
            Form::Document("Plan"),
            "What manifests would do, as copyrator plan -f; nothing is written",
            &["namespaces"],
            planned,
        ),
        Operation::new(
            (Verb::Post, "/check"),
            Form::Document("Check"),
            "The webhook's verdicts on manifests alone, without the cluster's objects, as copyrator check",
            &["namespaces"],
            checked,
        ),
        Operation::responding_with::<Happening, _>(
            (Verb::Get, "/events"),
            Form::Events,
            "Copyrator's Events as a stream, for at most five minutes",
            &["namespaces", "after"],
            |call| async move {
                let after = call.last_event.as_deref().or(call.asked.after.as_deref());
                open(&call.seat, &call.asked, after).await
            },
        ),
        Operation::responding_with::<Value, _>(
            (Verb::Get, "/namespaces/{namespace}/templates/{name}"),
            Form::Template,
            "A CopyratorTemplate, as stored in the API server",
            &[],
            templates::one,
        ),
        Operation::responding_with::<Value, _>(
            (Verb::Put, "/namespaces/{namespace}/templates/{name}"),
            Form::Template,
            "Create or change a CopyratorTemplate: a server-side apply as copyrator-console, without force",
            &["dryRun"],
            templates::put,
        ),
        Operation::responding_with::<Value, _>(
            (Verb::Delete, "/namespaces/{namespace}/templates/{name}"),
            Form::Deleted,
            "Delete a CopyratorTemplate and its objects",
            &["dryRun"],
            templates::delete,
        ),
    ]
}

/// Every route of the API.
pub(super) fn routes(site: &Site) -> Router {
    let document = openapi::document(&operations(), site).to_string();
    let described = get(async move || operation::json(document.clone()));
    let routes = Router::new().route(&format!("{ROOT}/openapi.json"), described);
    operations()
        .into_iter()
        .fold(routes, |routes, operation| routes.route(&format!("{ROOT}{}", operation.path), operation.route))
}
