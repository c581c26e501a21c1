//! The view Restarts: the state of every workload, the worst first, with the reason and the next time.

use std::{collections::BTreeMap, sync::Arc};

use axum::response::Response;
use copyrator_cli::terminal::side_by_side;
use maud::{Markup, html};

use super::{
    frame::{Frame, notes},
    overview::said,
    state,
    visit::Visit,
};
use crate::{
    explain::{RestartOutlook, Restartable},
    marks::write_time,
    paged::Page,
    plan::restart::RestartState,
    problem::Problem,
    rest,
};

/// Answers `GET /restarts`: the workloads that are asked to restart.
pub(super) async fn view(visit: Visit) -> Response {
    visit.answer("/restarts", "Restarts", shown).await
}

async fn shown(visit: Arc<Visit>) -> Result<Markup, Problem> {
    let call = rest::Call::new(visit.seat.clone(), visit.asked.clone(), BTreeMap::new(), Vec::new())?;
    Ok(render(&visit.frame, &rest::restarts(call).await?))
}

/// The body of the page: a table of workloads, or, without workloads, how to request restarts.
pub(super) fn render(frame: &Frame, page: &Page<RestartOutlook>) -> Markup {
    html! {
        h1 { "Restarts" }
        (notes(&page.notes))
        @if page.items.is_empty() {
            div .empty {
                h2 { "No monitor or annotation selects a workload" }
                p { "A monitor names the ConfigMaps and Secrets for which workloads restart: " code { "kind: ConfigMonitor" }
                    ". The annotation " code { "copyrator.dev/restart" } " on a workload does the same for this workload." }
            }
        } @else {
            div .scroll tabindex="0" role="region" aria-label="Workloads" {
                table .rows {
                    thead { tr { th { "State" } th { "Workload" } th { "Why" } th { "Next" } th { "Runs" } th { "By" } } }
                    tbody { @for row in &page.items { (line(frame, row)) } }
                }
            }
            p .quiet { (page.items.len()) " of " (page.total) " workloads." }
            @if let Some(next) = &page.next {
                p { a .more href=(frame.link("/restarts", &[("continue", next)])) { "Next workloads" } }
            }
        }
    }
}

fn line(frame: &Frame, row: &RestartOutlook) -> Markup {
    let (running, wanted) = side_by_side(row.running.as_deref(), row.wanted.as_deref());
    let annotation = row.by_annotation.then(|| "annotation".to_owned());
    let by: Vec<String> =
        row.monitors.iter().map(|one| one.named().name.to_string()).chain(annotation).collect();
    html! {
        tr {
            td data-label="State" { (state::restart(row)) }
            td data-label="Workload" { (workload(frame, &row.of)) }
            td data-label="Why" { @if row.state == RestartState::Current { "–" } @else { (said(row.reason.as_str(), &row.message)) } }
            td data-label="Next" .num { @if let Some(at) = row.at { time datetime=(write_time(at)) { (write_time(at)) } } @else { "–" } }
            td data-label="Runs" .digest { (running) @if running != wanted { " → " (wanted) } }
            td data-label="By" { (by.join(", ")) }
        }
    }
}

/// A workload, with a link if it has a page.
pub(super) fn workload(frame: &Frame, of: &Restartable) -> Markup {
    html! {
        @match of {
            Restartable::Pods(_) => { (of) }
            Restartable::Workload(_) => { a href=(frame.object(of.kind(), of.namespace(), &of.name())) { (of) } }
        }
    }
}
