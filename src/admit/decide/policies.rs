//! Policies on ConfigMaps, Secrets and Namespaces.

use super::{DecideError, Parties, Verdict, Versions};
use crate::{
    admit::decode::{Operation, Review},
    api::{Action, PolicyKind},
    marks::Proof,
    model::{Kind, ObjectKey, World},
    validate::{Budget, Candidate, RequestFacts, RequestUser, Write},
};

/// How many violations a refusal names.
const MOST_NAMED: usize = 10;

pub(super) fn decide(
    kind: PolicyKind,
    review: &Review<'_>,
    world: &World,
    parties: &Parties,
) -> Result<Verdict, DecideError> {
    if !matches!(review.operation, Operation::Create | Operation::Update) {
        return Ok(Verdict::allow());
    }
    let versions = Versions::of(kind, review)?;
    let Some(mut new) = versions.new else { return Err(DecideError::Missing("object")) };
    if new.namespace.is_empty() {
        new.namespace = review.namespace.clone();
    }
    let old = versions.old.as_ref();
    if is_copy(&new, review, world, parties) || old.is_some_and(|old| new.same_but_for_bookkeeping(old)) {
        return Ok(Verdict::allow());
    }
    let (request, mut budget) = (facts(review), Budget::default());
    let namespace = world.namespaces.get(&*new.namespace).map(|facts| &facts.labels);
    let mut refusals = Vec::new();
    let mut broken = Vec::new();
    let mut verdict = Verdict::allow();
    for (name, policy) in &world.policies {
        let Ok(compiled) = &policy.compiled else { continue };
        let covers =
            |object: &Candidate<'_>| compiled.covers(object, namespace).ok_or(DecideError::UnknownNamespace);
        let covered_before = old.map(covers).transpose()?.unwrap_or(false);
        if !covers(&new)? && !covered_before {
            continue;
        }
        let write = Write { new: &new, old, covered_before, request: Some(&request) };
        for finding in compiled.judge_write(&write, &mut budget) {
            let message = finding.violation.message(name, &new);
            broken.push(format!("{name}/{}", finding.violation.rule));
            if compiled.actions().contains(&Action::Deny) && !finding.stands_already {
                refusals.push(message);
            } else if compiled.actions().iter().any(|action| *action != Action::Audit) {
                verdict.warn(message);
            }
        }
    }
    if !refusals.is_empty() {
        let warnings = std::mem::take(&mut verdict.warnings);
        verdict = Verdict { warnings, ..Verdict::refuse(403, "Forbidden", &listed(&refusals)) };
    }
    if !broken.is_empty() {
        broken.dedup();
        verdict.audit.insert("verdict".into(), if verdict.allowed { "allowed" } else { "refused" }.into());
        verdict.audit.insert("violations".into(), crate::validate::printable(&broken.join(","), 1024));
    }
    Ok(verdict)
}

/// Whether the object is a copy of ours, which is judged at its source: its proof verifies, or one of our own
/// accounts writes it. Marks alone prove nothing.
pub(super) fn is_copy(object: &Candidate<'_>, review: &Review<'_>, world: &World, parties: &Parties) -> bool {
    let Some(marks) = object.marks() else { return false };
    if parties.own.contains(&review.user_info.username) {
        return true;
    }
    let kind = match object.kind {
        PolicyKind::ConfigMap => Kind::ConfigMap,
        PolicyKind::Secret => Kind::Secret,
        PolicyKind::Namespace => return false,
    };
    let slot = ObjectKey::new(kind, &*object.namespace, &*object.name);
    world.key.as_ref().is_some_and(|key| marks.proof(&slot, key) == Proof::Ours)
}

fn listed(refusals: &[String]) -> String {
    let mut text = refusals.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(" | ");
    if let Some(more) = refusals.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        text += &format!(" | and {more} more");
    }
    text
}

fn facts(review: &Review<'_>) -> RequestFacts {
    RequestFacts {
        operation: review.operation.name().into(),
        kind: review.kind.kind.clone().into_owned(),
        name: review.name.clone().into_owned(),
        namespace: review.namespace.clone().into_owned(),
        dry_run: review.is_dry_run(),
        user_info: RequestUser {
            username: review.user_info.username.clone(),
            groups: review.user_info.groups.clone(),
        },
    }
}
