//! The view of one object: where it comes from, its copies and users, who may edit it, and what restarts when
//! it changes.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::Path, response::Response};
use copyrator_cli::commands::{
    tree::{Forest, Node},
    why::{Answer, Made, RuleWhy, User, Why},
};
use maud::{Markup, html};

use super::{
    frame::Frame,
    overview::said,
    state::{self, Shape},
    visit::Visit,
};
use crate::{
    explain::{Course, Restartable},
    marks::write_time,
    names::Declarer,
    problem::Problem,
    rest::{self, Call},
};

/// Answers `GET /object/{kind}/{namespace}/{name}` with the answers of `copyrator why` and `copyrator tree`.
pub(super) async fn view(visit: Visit, Path(path): Path<BTreeMap<String, String>>) -> Response {
    let part = |name: &str| path.get(name).cloned().unwrap_or_default();
    let title = format!("{}/{}", part("namespace"), part("name"));
    visit.answer("", &title, |visit| shown(visit, path)).await
}

async fn shown(visit: Arc<Visit>, path: BTreeMap<String, String>) -> Result<Markup, Problem> {
    let call = || Call::new(visit.seat.clone(), visit.asked.clone(), path.clone(), Vec::new());
    let answer = rest::why(call()?).await?;
    // Workloads have no tree.
    let forest = rest::tree(call()?).await.ok();
    Ok(render(&visit.frame, &answer, forest.as_ref()))
}

/// The body of the page; without a tree if `forest` is `None`.
pub(super) fn render(frame: &Frame, answer: &Answer, forest: Option<&Forest>) -> Markup {
    html! {
        @match answer {
            Answer::Object(why) => (of_object(frame, why)),
            Answer::Rule(rule) => (of_rule(rule)),
        }
        @if let Some(forest) = forest.filter(|forest| !forest.roots.is_empty()) {
            section {
                h2 { "From the source to its users" }
                ul .tree { @for root in &forest.roots { (branch(frame, root)) } }
                @if !forest.notes.is_empty() {
                    ol .tree-notes { @for note in &forest.notes { li value=(note.number) { (said(&note.reason, &note.message)) } } }
                }
            }
        }
    }
}

fn of_object(frame: &Frame, why: &Why) -> Markup {
    html! {
        p .eyebrow { (why.object) }
        h1 { (why.namespace) "/" (why.name) }
        @if !why.exists { p .lead { (Shape::Open.with("Not there")) " Copyrator will create it." } }
        dl .facts {
            @for made in &why.made_by { (made_by(frame, made)) }
            @for copied in &why.copied_by {
                dt { "Copied by" } dd { (rule_link(frame, &copied.rule)) ": " (copied.current) " of " (copied.copies) " copies in order" }
            }
            @if let Some(at) = why.changed_at { dt { "Changed" } dd .num { "at " (write_time(at)) " or before" } }
            @if let Some(edit) = &why.edit { dt { "Who may edit" } dd { (edit) } }
            @if let Some(outlook) = &why.restart {
                dt { "State" } dd { (state::restart(outlook)) " " (said(outlook.reason.as_str(), &outlook.message)) }
            }
        }
        @if why.edit.is_some() {
            section {
                h2 { "When it changes" }
                @if why.on_change.is_empty() { p { "Nothing restarts: no visible workload uses this object." } }
                ul .users { @for user in &why.on_change { (used_by(frame, user)) } }
            }
        }
        @if !why.uses.is_empty() {
            section {
                h2 { "Uses" }
                ul .users {
                    @for used in &why.uses {
                        li {
                            @if !used.exists { (Shape::Bad.with("Not there")) }
                            @else if used.restarts { (Shape::Good.with("Restarts for it")) }
                            @else { (Shape::Open.with("Does not restart")) }
                            " " a href=(frame.object(&used.kind, &why.namespace, &used.name)) { (used.kind) " " (used.name) }
                            @if let Some(source) = &used.copy_of { " a copy of " (source) }
                        }
                    }
                }
            }
        }
    }
}

fn made_by(frame: &Frame, made: &Made) -> Markup {
    let (shape, word) = state::of_course(made.action);
    html! {
        @if made.is_declared() {
            dt { @if made.digest.is_some() { "Declared by" } @else { "Wanted by" } }
            dd { @if let Some(rule) = &made.rule { (rule_link(frame, rule)) }
                @if let Some(instance) = &made.instance { ", for " (instance) } }
        } @else {
            dt { @if made.digest.is_some() { "Copy of" } @else { "Wanted as a copy of" } }
            dd {
                @if let Some(source) = &made.source { (source_link(frame, source)) } @else { "an unknown source" }
                ", by " @if let Some(rule) = &made.rule { (rule_link(frame, rule)) } @else { "a deleted rule" }
            }
        }
        dt { "State" }
        dd { (shape.with(word)) @if made.action != Course::Current { " " (said(made.reason.as_str(), &made.message)) }
            @if let Some(at) = made.at { span .num { ", at " (write_time(at)) } } }
        @if let Some(identity) = &made.identity {
            dt { "Rights" } dd { "The " @if made.is_declared() { "template" } @else { "rule" } " has the RBAC rights of \
             " (identity) @if let Some(author) = &made.author { "; its spec was written by " (author) } }
        }
        @if let Some(digest) = &made.digest { dt { "Digest" } dd .digest { (digest) } }
    }
}

fn of_rule(rule: &RuleWhy) -> Markup {
    html! {
        p .eyebrow { (rule.object) }
        h1 { (rule.rule) }
        dl .facts {
            @if let Some(identity) = &rule.identity { dt { "Acts as" } dd { (identity) } }
            @if let Some(author) = &rule.author { dt { "Written by" } dd { (author) } }
            @for (name, text) in &rule.conditions { dt { (name) } dd { (text) } }
            dt { @if rule.object == "CopyratorTemplate" { "Objects" } @else { "Copies" } }
            dd { @if rule.copies.is_empty() { "none" } @for (word, number) in &rule.copies { span .count { (number) " " (word) } " " } }
            @for problem in &rule.problems {
                dt { "Problem" } dd { (Shape::Bad.with(&problem.reason)) " " (problem.place()) ": " (problem.message) }
            }
        }
    }
}

fn used_by(frame: &Frame, user: &User) -> Markup {
    let (shape, word) =
        if user.restarts { (Shape::UnderWay, "Restarts") } else { (Shape::Open, "Does not restart") };
    html! {
        li {
            (shape.with(word)) " "
            @match &user.of {
                Restartable::Pods(monitor) => { "the pods of ConfigMonitor " (monitor) }
                of => { a href=(frame.object(of.kind(), of.namespace(), &of.name())) { (of) } }
            }
            @if let Some(reason) = user.reason.as_ref().filter(|_| !user.restarts) { p { (said(reason.as_str(), &user.message)) } }
        }
    }
}

/// A link to a rule or template, by its text form.
fn rule_link(frame: &Frame, rule: &str) -> Markup {
    let Some(name) = Declarer::parse(rule) else { return html! { (rule) } };
    let (kind, object) = match &name {
        Declarer::Template(object) => ("copyratortemplate", object),
        Declarer::Rule(object) | Declarer::Monitor(object) => ("copyratorrule", object),
        // A rule that an annotation declares has no object, and so no page.
        Declarer::Annotated(_) => return html! { (name.said()) },
    };
    html! { a href=(frame.object(kind, &object.namespace, &object.name)) { (name.said()) } }
}

/// A link to a source that is written as `Kind namespace/name`; any other text unchanged.
fn source_link(frame: &Frame, source: &str) -> Markup {
    let parts = source.split_once(' ').and_then(|(kind, rest)| Some((kind, rest.split_once('/')?)));
    html! {
        @if let Some((kind, (namespace, name))) = parts { a href=(frame.object(kind, namespace, name)) { (source) } } @else { (source) }
    }
}

fn branch(frame: &Frame, node: &Node) -> Markup {
    let name = format!("{} {}/{}", node.kind, node.namespace, node.name);
    let standing = node.state.as_ref().map(state::of_node);
    html! {
        li {
            @if let Some((shape, _)) = &standing { (shape.mark()) }
            @if node.kind == "Pods" { (name) } @else { a href=(frame.object(&node.kind, &node.namespace, &node.name)) { (name) } }
            @if let Some((_, word)) = &standing { span .quiet { " " (word) } }
            @if let Some(rule) = &node.rule { span .quiet { ", by " (rule) } }
            @for number in &node.notes { sup { (number) } }
            @if !node.children.is_empty() { ul { @for child in &node.children { (branch(frame, child)) } } }
        }
    }
}
