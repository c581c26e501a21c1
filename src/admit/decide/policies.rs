//! Policies on ConfigMaps, Secrets and Namespaces.

use std::sync::Arc;

use super::{DecideError, Purpose, Verdict, WriteCase, in_use, verdict::LONGEST_MESSAGE, warnings::above};
use crate::{
    admit::decode::{Operation, Review},
    api::{Action, PolicyKind, WhileInUse},
    marks::Proof,
    model::{Kind, ObjectKey, World},
    validate::{
        Budget, Candidate, CompiledPolicy, Finding, RequestFacts, RequestUser, Violation, Write, printable,
    },
};

/// How many violations a refusal names.
const MOST_NAMED: usize = 10;
/// The longest list of violations in the audit log, in bytes.
const LONGEST_AUDIT: usize = 1024;
/// The longest warning of a reach, in bytes: kubectl shows so much of one.
const LONGEST_WARNING: usize = 120;

/// A policy that speaks of the object as it would be, or as it is.
pub(super) struct Covering {
    name: Arc<str>,
    policy: Arc<CompiledPolicy>,
    before: bool,
    /// What the write would take from workloads that use it, where the policy keeps that.
    in_use: Option<Violation>,
    /// What is said of a write that reaches further than the policy likes.
    far: Option<String>,
}

/// The policies that are to judge a write.
pub(super) fn look(case: &WriteCase<'_>, world: &World) -> Result<Vec<Covering>, DecideError> {
    let (new, old) = match (case.review.operation, &case.versions.new, &case.versions.old) {
        (Operation::Create, Some(new), _) => (Some(new), None),
        (Operation::Update, Some(new), Some(old)) => (Some(new), Some(old)),
        (Operation::Delete, _, Some(old)) => (None, Some(old)),
        _ => return Ok(Vec::new()),
    };
    let Some(object) = new.or(old) else { return Ok(Vec::new()) };
    let is_bookkeeping = new.zip(old).is_some_and(|(new, old)| new.same_but_for_bookkeeping(old));
    if is_copy(object, case, world) || is_bookkeeping {
        return Ok(Vec::new());
    }
    let namespace = world.namespaces.get(&*object.namespace).map(|facts| &facts.labels);
    let asked = world.policies.iter().filter(|(name, _)| match case.purpose {
        Purpose::Policy(only) => ***name == **only,
        _ => true,
    });
    let mut covering = Vec::new();
    for (name, facts) in asked {
        let Ok(policy) = &facts.compiled else { continue };
        let covers =
            |object: &Candidate<'_>| policy.covers(object, namespace).ok_or(DecideError::UnknownNamespace);
        let before = old.map(covers).transpose()?.unwrap_or(false);
        let after = new.map(covers).transpose()?.unwrap_or(false);
        if !before && !after {
            continue;
        }
        let keeps = facts.spec.while_in_use == WhileInUse::Refuse;
        let in_use = match (content_kind(case.kind), old.filter(|_| keeps && before)) {
            (Some(kind), Some(old)) => in_use::look(world, kind, old, new)?,
            _ => None,
        };
        let above_what = facts.spec.warn_above.as_ref().zip(new).zip(content_kind(case.kind));
        let far = above_what.and_then(|((limits, new), kind)| {
            above(world, kind, old, new, limits, &case.parties.trusted)
                .map(|far| format!("copyrator: {far}, policy {name}"))
        });
        covering.push(Covering { name: name.clone(), policy: policy.clone(), before, in_use, far });
    }
    Ok(covering)
}

/// Has each of them judge the write.
pub(super) fn judge(case: &WriteCase<'_>, covering: &[Covering]) -> Verdict {
    let mut verdict = Verdict::allow();
    let old = case.versions.old.as_ref();
    let new = case.versions.new.as_ref().filter(|_| case.review.operation != Operation::Delete);
    let (Some(object), [_, ..]) = (new.or(old), covering) else { return verdict };
    let (request, mut budget) = (facts(case.review), Budget::default());
    let mut refusals = Vec::new();
    let mut broken = Vec::new();
    for Covering { name, policy, before, in_use, far } in covering {
        let judged = new.map(|new| {
            let write = Write { new, old, covered_before: *before, request: Some(&request) };
            policy.judge_write(&write, &mut budget)
        });
        let taken =
            in_use.iter().map(|violation| Finding { violation: violation.clone(), stands_already: false });
        for Finding { violation, stands_already } in judged.into_iter().flatten().chain(taken) {
            let message = violation.message(name, object);
            broken.push(format!("{name}/{}", violation.rule));
            if policy.actions().contains(&Action::Deny) && !stands_already {
                refusals.push(message);
            } else if policy.actions().iter().any(|action| *action != Action::Audit) {
                verdict.warn(message);
            }
        }
        if let Some(far) = far {
            broken.push(format!("{name}/warnAbove"));
            verdict.warn(printable(far, LONGEST_WARNING));
        }
    }
    if !refusals.is_empty() {
        let warnings = std::mem::take(&mut verdict.warnings);
        verdict = Verdict { warnings, ..Verdict::refuse(403, "Forbidden", &listed(&refusals)) };
    }
    if !broken.is_empty() {
        broken.dedup();
        verdict.audit.insert("verdict".into(), if verdict.allowed { "allowed" } else { "refused" }.into());
        verdict.audit.insert("violations".into(), printable(&broken.join(","), LONGEST_AUDIT));
    }
    verdict
}

/// What can be used and copied.
fn content_kind(kind: PolicyKind) -> Option<Kind> {
    match kind {
        PolicyKind::ConfigMap => Some(Kind::ConfigMap),
        PolicyKind::Secret => Some(Kind::Secret),
        PolicyKind::Namespace => None,
    }
}

/// Whether the object is a copy of ours, which is judged at its source: its proof verifies, or one of our own
/// accounts writes it. Marks alone prove nothing.
pub(super) fn is_copy(object: &Candidate<'_>, case: &WriteCase<'_>, world: &World) -> bool {
    let Some(marks) = object.marks() else { return false };
    if case.parties.own.contains(&case.review.user_info.username) {
        return true;
    }
    let Some(kind) = content_kind(object.kind) else { return false };
    let slot = ObjectKey::new(kind, &*object.namespace, &*object.name);
    world.key.as_ref().is_some_and(|key| marks.proof(&slot, key) == Proof::Ours)
}

/// As many as fit into a message, ten at most; the rest are counted.
fn listed(refusals: &[String]) -> String {
    let mut text = String::new();
    for (index, refusal) in refusals.iter().enumerate() {
        let left = refusals.len() - index;
        let others = format!(" | and {left} more");
        let fits = text.len() + " | ".len() + refusal.len() + others.len() <= LONGEST_MESSAGE;
        if index > 0 && (index == MOST_NAMED || !fits) {
            return text + &others;
        }
        if index > 0 {
            text += " | ";
        }
        let room = LONGEST_MESSAGE - text.len() - if left > 1 { others.len() } else { 0 };
        text += &printable(refusal, room);
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
