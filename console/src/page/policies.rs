//! The view Policies: violations by existing objects, and a form that judges manifests as if they were
//! written.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::Request,
    response::{IntoResponse as _, Response},
};
use copyrator_cli::commands::{
    check::{self, Level},
    plan,
};
use http::StatusCode;
use maud::{Markup, html};

use super::{
    frame::{Frame, notes},
    state::Shape,
    visit::Visit,
};
use crate::{
    asked::Asked,
    door::whole,
    explain::{Course, RestartCourse},
    paged::Page,
    problem::Problem,
    rest::{self, Call, ViolationLine, read},
    seat::Seat,
};

/// Answers `GET /policies`: the violations, and a form for manifests to judge.
pub(super) async fn view(visit: Visit) -> Response {
    visit.answer("/policies", "Policies", |visit| shown(visit, None)).await
}

/// Answers `POST /policies`: judges the manifests of the form.
pub(super) async fn judge(visit: Visit, request: Request) -> Response {
    let body = match whole(request).await {
        Ok(body) => body,
        Err(problem) => return visit.frame.problem("/policies", &problem),
    };
    let fields: BTreeMap<String, String> = form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let asked = match visit.asked.clone().with_namespaces(&field("namespaces")) {
        Ok(asked) => asked,
        Err(problem) => return problem.into_response(),
    };
    let manifest = field("manifest");
    visit.asking(asked).answer("/policies", "Policies", |visit| shown(visit, Some(manifest))).await
}

/// The verdicts on manifests, and the plan of their effects.
struct Judged {
    report: check::Report,
    plan: Result<plan::Report, Problem>,
}

async fn judged(seat: &Arc<Seat>, asked: &Asked, manifest: &str) -> Result<Judged, Problem> {
    let documents = read(manifest.to_owned()).await?;
    let call = || Call::new(seat.clone(), asked.clone(), BTreeMap::new(), documents.clone());
    Ok(Judged { report: rest::checked(call()?).await?, plan: rest::planned(call()?).await })
}

async fn shown(visit: Arc<Visit>, manifest: Option<String>) -> Result<Markup, Problem> {
    let Visit { seat, asked, frame, .. } = &*visit;
    let judged = match &manifest {
        Some(manifest) => Some(judged(seat, asked, manifest).await),
        None => None,
    };
    let violations = async {
        rest::violations(Call::new(seat.clone(), asked.clone(), BTreeMap::new(), Vec::new())?).await
    };
    let violations = violations.await;
    Ok(html! {
        h1 { "Policies" }
        (box_of(frame, manifest.as_deref().unwrap_or_default(), judged.as_ref()))
        section {
            h2 { "Objects that violate a policy" }
            @match &violations {
                Ok(page) => (table(frame, page)),
                Err(problem) if problem.code() == StatusCode::FORBIDDEN => {
                    p { "Policies are cluster-scoped, and you may not list them. " span .quiet { (problem.message()) } }
                }
                Err(problem) => p { (problem.message()) },
            }
        }
    })
}

/// A table of one page of violations, or a text without any violation.
pub(super) fn table(frame: &Frame, page: &Page<ViolationLine>) -> Markup {
    html! {
        (notes(&page.notes))
        @if page.items.is_empty() {
            div .empty {
                h2 { (Shape::Good.mark()) "None" }
                p { "According to the policies' statuses, no object violates a policy. A policy is a " code { "ConfigPolicy" } "." }
            }
        } @else {
            div .scroll tabindex="0" role="region" aria-label="Violations" {
                table .rows {
                    thead { tr { th { "Object" } th { "Policy" } th { "Rule" } th { "Key" } th { "What is wrong" } } }
                    tbody {
                        @for ViolationLine { policy, found } in &page.items {
                            @let kind = format!("{:?}", found.kind);
                            tr {
                                td data-label="Object" {
                                    @if kind == "Namespace" { "Namespace " (found.name) }
                                    @else { a href=(frame.object(&kind, &found.namespace, &found.name)) { (kind) " " (found.namespace) "/" (found.name) } }
                                }
                                td data-label="Policy" { (policy) }
                                td data-label="Rule" { (found.rule) }
                                td data-label="Key" { @if let Some(key) = &found.key { code { (key) } } @else { "–" } }
                                td data-label="What is wrong" { (found.message) }
                            }
                        }
                    }
                }
            }
            p .quiet { (page.items.len()) " of " (page.total) " violations." }
            @if let Some(next) = &page.next { p { a .more href=(frame.link("/policies", &[("continue", next)])) { "Next violations" } } }
        }
    }
}

fn box_of(frame: &Frame, manifest: &str, judged: Option<&Result<Judged, Problem>>) -> Markup {
    html! {
        section .paste {
            h2 { "What would happen?" }
            p { "Paste manifests: the console checks them as if you wrote them now, but writes nothing." }
            form method="post" action=(frame.at("/policies")) {
                (frame.kept())
                label .v for="manifest" { "Manifests" }
                textarea #manifest name="manifest" rows="8" required spellcheck="false" placeholder="apiVersion: v1\nkind: ConfigMap\n…" { (manifest) }
                button { "Judge" }
            }
            @match judged {
                Some(Ok(judged)) => (verdict(judged)),
                Some(Err(problem)) => p .said role="alert" { (Shape::Bad.mark()) (problem.message()) },
                None => {},
            }
        }
    }
}

fn verdict(judged: &Judged) -> Markup {
    html! {
        div .verdict role="status" {
            @for object in &judged.report.objects {
                div .object {
                    p {
                        @if object.allowed { (Shape::Good.with("Valid")) } @else { (Shape::Bad.with("Refused")) }
                        " " strong { (object.kind) " " (object.namespace) @if !object.namespace.is_empty() { "/" } (object.name) }
                    }
                    ul { @for finding in &object.findings { li { (sign(finding.level)) " " (finding.message) } } }
                }
            }
            @for notice in &judged.report.notices { p .quiet { (notice) } }
            @match &judged.plan {
                Ok(plan) => (would(plan)),
                Err(problem) => p { (Shape::Unknown.with("Not known")) " What it would do: " (problem.message()) },
            }
        }
    }
}

fn sign(level: Level) -> Markup {
    match level {
        Level::Refused => Shape::Bad.with("Refused"),
        Level::Warned => Shape::UnderWay.with("Warned"),
        Level::Noted => Shape::Open.with("Noted"),
        Level::Unknown => Shape::Unknown.with("Not known"),
    }
}

fn course(course: Course) -> Markup {
    match course {
        Course::Refuse => Shape::Blocked.with("Refused"),
        Course::Unknown => Shape::Unknown.with("Not known"),
        Course::Create => Shape::Open.with("Made"),
        Course::Change => Shape::UnderWay.with("Changed"),
        Course::Remove => Shape::Leaving.with("Deleted"),
        Course::Wait => Shape::Waiting.with("Waiting"),
        Course::Current => Shape::Good.with("In order"),
    }
}

/// The effects of manifests on the cluster, from their plan.
fn would(plan: &plan::Report) -> Markup {
    let restarts: Vec<_> =
        plan.restarts.iter().flatten().filter(|row| row.course == RestartCourse::Restart).collect();
    let rules: Vec<_> = plan.rules.iter().chain(&plan.monitors).filter(|row| row.file.is_some()).collect();
    html! {
        h3 { "In the cluster" }
        ul .would {
            @for row in &rules {
                li {
                    @match row.action { Some(action) => (course(action)), None => (Shape::Good.with("Accepted")) }
                    " " (row.namespace) "/" (row.name) @if !row.message.is_empty() { ": " (row.message) }
                    @for warning in &row.warnings { p { (warning) } }
                }
            }
            @for file in plan.policies.iter().chain(&plan.files) {
                li {
                    (course(file.course)) " " (file.of) @if !file.message.is_empty() { ": " (file.message) }
                    @for warning in &file.warnings { p { (warning) } }
                }
            }
            @for copy in plan.copies.iter().take(SHOWN) {
                li { (course(copy.state.action())) " " (copy.slot) @if !copy.message.is_empty() { ": " (copy.message) } }
            }
            @if plan.copies.len() > SHOWN { li { "and " (plan.copies.len() - SHOWN) " more copies" } }
            @for row in restarts.iter().take(SHOWN) { li { (Shape::UnderWay.with("Restarted")) " " (row.of) } }
            @if restarts.len() > SHOWN { li { "and " (restarts.len() - SHOWN) " more workloads" } }
            @if rules.is_empty() && plan.files.is_empty() && plan.policies.is_empty() && plan.copies.is_empty() { li { "Nothing would change." } }
        }
        (notes(&plan.notes))
    }
}

/// How many copies, and how many workloads, are listed.
const SHOWN: usize = 20;
