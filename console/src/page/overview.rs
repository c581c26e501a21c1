//! The view Overview: whether everything is in order; if not, the ten worst problems, each with a sentence
//! that says what to do.

use std::{collections::BTreeSet, sync::Arc};

use axum::response::Response;
use maud::{Markup, html};

use super::{
    frame::{Frame, notes},
    state::{Shape, of_copy, of_restart},
    visit::Visit,
};
use crate::{
    explain::{CopyRow, CopyState, RestartOutlook, Restartable},
    names::Declarer,
    plan::restart::Concern,
    problem::Problem,
    rest::{copy_rows, restart_lines},
    scoped_survey::{RequestedSurveys, ScopedSurvey, requested_surveys},
};

/// How many problems are shown.
const WORST: usize = 10;

/// Answers `GET /`: numbers, and the worst copies and workloads.
pub(super) async fn view(visit: Visit) -> Response {
    visit.answer("/", "Overview", shown).await
}

async fn shown(visit: Arc<Visit>) -> Result<Markup, Problem> {
    let requested = requested_surveys(&visit.seat, &visit.asked).await?;
    let (copies, workloads) = (copy_rows(&requested), restart_lines(&requested));
    Ok(render(&visit.frame, &facts(&requested, copies, workloads)))
}

/// The data of the view.
pub(super) struct Facts {
    pub copies: Vec<CopyRow>,
    pub workloads: Vec<RestartOutlook>,
    pub rules: usize,
    pub monitors: usize,
    pub namespaces: usize,
    pub notes: Vec<String>,
}

fn facts(requested: &RequestedSurveys, copies: Vec<CopyRow>, workloads: Vec<RestartOutlook>) -> Facts {
    let (mut rules, mut monitors, mut namespaces) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for ScopedSurvey { namespace, survey, .. } in &requested.surveys {
        let world = &survey.world;
        let is_here = |name: &&Declarer| namespace.as_ref().is_none_or(|own| own == name.namespace());
        let declared = world.rules().keys().chain(world.templates().keys());
        rules.extend(declared.filter(is_here).map(ToString::to_string));
        monitors.extend(world.monitors().keys().filter(is_here).map(ToString::to_string));
        let all = world.namespaces().keys().filter(|name| namespace.as_ref().is_none_or(|own| own == *name));
        namespaces.extend(all.cloned());
    }
    // Rules and templates of other namespaces are included, too, if their copies are in this namespace.
    rules.extend(copies.iter().filter_map(|line| Some(line.rule.as_ref()?.to_string())));
    Facts {
        copies,
        workloads,
        rules: rules.len(),
        monitors: monitors.len(),
        namespaces: namespaces.len(),
        notes: requested.notes.clone(),
    }
}

/// A copy or workload that is not in order.
struct Thing {
    shape: Shape,
    word: &'static str,
    title: String,
    href: String,
    why: String,
}

/// The body of the page, from facts that were read before.
pub(super) fn render(frame: &Frame, facts: &Facts) -> Markup {
    let worrying_copies = facts.copies.iter().filter(|line| line.is_worrying());
    let worrying_workloads = facts.workloads.iter().filter(|row| row.is_worrying());
    let mut things: Vec<Thing> = worrying_copies.map(|line| of_copy_row(frame, line)).collect();
    things.extend(worrying_workloads.map(|row| of_workload(frame, row)));
    let current = facts.copies.iter().filter(|line| line.state == CopyState::Current).count();
    let running = facts.workloads.iter().filter(|row| row.state.concern() == Concern::Settled).count();
    html! {
        (headline(frame, facts, things.len()))
        (notes(&facts.notes))
        @if facts.rules + facts.monitors > 0 {
            dl .figures {
                (figure("Copies in order", current, facts.copies.len(), &frame.link("/where", &[])))
                (figure("Workloads up to date", running, facts.workloads.len(), &frame.link("/restarts", &[])))
                div { dt { "Rules and templates" } dd { (facts.rules) } }
                div { dt { "Monitors" } dd { (facts.monitors) } }
                div { dt { "Namespaces" } dd { (facts.namespaces) } }
            }
        }
        @if !things.is_empty() {
            h2 { @if things.len() > WORST { "The worst " (WORST) } @else { "What needs attention" } }
            ol .things {
                @for thing in things.iter().take(WORST) {
                    li {
                        (thing.shape.with(thing.word))
                        div {
                            a href=(thing.href) { (thing.title) }
                            p { (thing.why) }
                        }
                    }
                }
            }
            @if things.len() > WORST { p { a href=(frame.link("/where", &[])) { "All copies, by namespace and rule" } } }
        }
    }
}

fn headline(frame: &Frame, facts: &Facts, worrying: usize) -> Markup {
    let under_way =
        facts.copies.iter().filter(|line| !line.is_worrying() && line.state != CopyState::Current).count()
            + facts.workloads.iter().filter(|row| row.state.concern() == Concern::UnderWay).count();
    html! {
        div .headline {
            @if facts.rules + facts.monitors == 0 {
                h1 { (Shape::Open.mark()) "Nothing is declared yet" }
                p .lead { "A rule declares which objects to copy to which namespaces. Save this example, change the names, and see what \
                 it would do: "
                    code { "copyrator plan -f rule.yaml" } ", or paste it into " a href=(frame.link("/policies", &[])) { "Policies" } "." }
                pre { code { (EXAMPLE) } }
            } @else if worrying > 0 {
                h1 { (Shape::Bad.mark()) @if worrying == 1 { "1 thing needs attention" } @else { (worrying) " things need attention" } }
            } @else if under_way > 0 {
                h1 { (Shape::UnderWay.mark()) "Under way" }
                p .lead { (under_way) " copies and workloads are in progress; you need to do nothing." }
            } @else {
                h1 { (Shape::Good.mark()) "Everything is as declared" }
            }
        }
    }
}

/// An example rule for a cluster without any.
const EXAMPLE: &str = "apiVersion: copyrator.dev/v1alpha1
kind: CopyratorRule
metadata: {name: registry, namespace: platform}
spec:
  source: {kind: Secret, names: [registry]}
  targets:
  - namespaceSelector: {matchLabels: {team: blue}}";

fn figure(name: &str, part: usize, whole: usize, href: &str) -> Markup {
    html! { div { dt { a href=(href) { (name) } } dd { (part) span .of { " of " (whole) } } } }
}

fn of_copy_row(frame: &Frame, line: &CopyRow) -> Thing {
    let by = line.rule.as_ref().map(|rule| format!(", by {rule}")).unwrap_or_default();
    Thing {
        shape: of_copy(line.state),
        word: line.state.as_str(),
        title: format!("{}{by}", line.slot),
        href: frame.object(&line.slot.kind.to_string(), &line.slot.namespace, &line.slot.name),
        why: said(line.reason.as_str(), &line.message_with_time()),
    }
}

fn of_workload(frame: &Frame, row: &RestartOutlook) -> Thing {
    let of = &row.of;
    let href = match of {
        Restartable::Pods(monitor) => frame.link("/restarts", &[("namespace", &**monitor.namespace())]),
        Restartable::Workload(_) => frame.object(of.kind(), of.namespace(), &of.name()),
    };
    Thing {
        shape: of_restart(&row.state),
        word: row.state.as_str(),
        title: of.to_string(),
        href,
        why: said(row.reason.as_str(), &row.message),
    }
}

/// The message, or the reason if the message is empty.
pub(super) fn said(reason: &str, message: &str) -> String {
    if message.is_empty() { reason.to_owned() } else { message.to_owned() }
}
