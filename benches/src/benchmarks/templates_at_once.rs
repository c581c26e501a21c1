//! The largest template that there may be, to many namespaces at once, and its removal.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::Role;

use crate::Outcome;
use crate::arena::{Arena, PATIENCE};
use crate::audit::Request;
use crate::figures::{Budget, Figures};
use crate::objects::{HOME, TEMPLATES, namespace};
use crate::processes::{cpu, forget_peak, memory};
use crate::program::Program;
use crate::sizes::Sizes;
use crate::writes::{create, remove, send};

/// As many as a template declares at most.
const OBJECTS: usize = 32;
const NAME: &str = "large";
/// How often the status is looked at.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    let namespaces = (0..sizes.namespaces).map(|number| namespace(&format!("large-{number:05}"), &[NAME]));
    arena.create("/api/v1/namespaces", namespaces).await?;
    let about = format!("{OBJECTS} × {}", sizes.namespaces);
    let wanted = OBJECTS * sizes.namespaces;
    let mut figures = Figures::default();
    for round in 0..sizes.rounds {
        eprintln!("  round {} of {}: {about} objects", round + 1, sizes.rounds);
        arena.settle().await?;
        let pid = arena.process(Role::Reconciler)?.pid();
        forget_peak(pid)?;
        let (begun, used) = (Timestamp::now(), cpu(pid)?);
        send(&arena.admin, create(TEMPLATES, &template())?).await?;
        let (ours, status) = until_told(&mut arena, wanted).await?;
        let used = cpu(pid)?.saturating_sub(used);
        let writes: Vec<&Request> = ours.iter().filter(|it| is_write(it)).collect();
        let objects: BTreeSet<_> = writes.iter().map(|it| (&it.namespace, &it.name)).collect();
        let last = writes.iter().map(|it| it.finished).max().unwrap_or(begun);
        let mut note = |what: &str, unit, budget, value| {
            figures.add_with(format!("{about}: {what}"), unit, budget, value);
        };
        note("until the last is written", "s", None, last.duration_since(begun).as_secs_f64());
        note("objects written", "", None, objects.len() as f64);
        note("objects not written", "", Budget::every(0.0), wanted as f64 - objects.len() as f64);
        note("writes of objects", "", None, writes.len() as f64);
        note("requests of all kinds", "", None, ours.len() as f64);
        note("our CPU", "s", None, used.as_secs_f64());
        note("reconciler, peak", "MB", None, memory(pid)?.peak);
        let in_order = status["current"].as_f64().unwrap_or_default();
        note("objects in order, as the status says", "", None, in_order);
        note("objects not in order, as the status says", "", Budget::every(0.0), wanted as f64 - in_order);
        let problems = status["problemCount"].as_f64().unwrap_or_default();
        let again = writes.len() as f64 - objects.len() as f64;
        note("problems in the status", "", Budget::every(0.0), problems);
        note("writes beside the first of each", "", Budget::every(0.0), again);
        arena.settle().await?;
        note("reconciler, resident afterwards", "MB", None, memory(pid)?.resident);

        let begun = Timestamp::now();
        send(&arena.admin, remove(&format!("{TEMPLATES}/{NAME}"))?).await?;
        let is_removal = |it: &Request| is_write(it) && it.verb == "delete";
        let removed = arena.collect("removal", objects.len(), is_removal).await?;
        let last = removed.iter().map(|it| it.finished).max().unwrap_or(begun);
        note("until the last is deleted", "s", None, last.duration_since(begun).as_secs_f64());
    }
    Ok(figures)
}

/// Waits until the template's status has counted all objects and none is about to be written: what our account has asked for by
/// then, and the status.
async fn until_told(arena: &mut Arena, wanted: usize) -> Outcome<(Vec<Request>, Value)> {
    let mut ours: Vec<Request> = Vec::new();
    let mut deadline = Instant::now() + PATIENCE;
    loop {
        let news = arena.audit.news()?.into_iter();
        let news: Vec<Request> = news.filter(|it| Arena::is_ours(it) && it.resource != "leases").collect();
        if news.iter().any(is_write) {
            deadline = Instant::now() + PATIENCE;
        }
        ours.extend(news);
        let get = http::Request::get(format!("{TEMPLATES}/{NAME}")).body(Vec::new())?;
        let template: Value = arena.admin.request(get).await?;
        let status = &template["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let reason = conditions.filter(|it| it["type"] == "Ready").find_map(|it| it["reason"].as_str());
        let is_settled = reason.is_some_and(|reason| !["Rendering", "AuthorityUnknown"].contains(&reason));
        if is_settled && status["desired"].as_u64() == Some(wanted as u64) {
            return Ok((ours, status.clone()));
        }
        if Instant::now() > deadline {
            return Err(format!("nothing was written for {PATIENCE:?}; the status is {status}").into());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether an object of the template was written.
fn is_write(request: &Request) -> bool {
    Arena::is_ours(request)
        && request.is_done_write()
        && request.resource == "configmaps"
        && request.name.starts_with("object-")
}

fn template() -> Value {
    let object = |number: usize| {
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("object-{number:02}") },
            "data": { "text": "some text", "in": "${namespaceObject.metadata.name}" } });
        json!({ "id": format!("o{number}"), "template": object })
    };
    let for_each = json!({ "namespaces": [{ "namespaceSelector": { "matchLabels": { NAME: "yes" } } }] });
    json!({ "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate",
        "metadata": { "name": NAME, "namespace": HOME },
        "spec": { "forEach": for_each, "objects": (0..OBJECTS).map(object).collect::<Vec<_>>(), "deletionGrace": "0s" } })
}
