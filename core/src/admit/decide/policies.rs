//! Decides writes of ConfigMaps, Secrets and Namespaces by the policies that cover them.

use std::sync::Arc;

use jiff::Timestamp;

use super::{DecideError, Denial, Verdict, WriteCase, in_use, verdict::LONGEST_MESSAGE, warnings::reached};
use crate::{
    admit::decode::{Operation, Review},
    api::{Action, WhileInUse},
    marks::Proof,
    model::World,
    names::ObjectKey,
    validate::{
        Candidate, CompiledPolicy, Finding, Judgement, RequestFacts, RequestKind, RequestResource,
        RequestUser, Violation, Write, printable,
    },
};

/// The maximum number of covering policies to reserve memory for in advance.
const MOST_RESERVED: usize = 64;
/// The maximum number of violations that a refusal names.
const MOST_NAMED: usize = 10;
/// The longest list of violations in the audit log, in bytes.
const LONGEST_AUDIT: usize = 1024;
/// The longest warning about a write's reach, in bytes: kubectl shows this much of a warning.
const LONGEST_WARNING: usize = 120;
/// The rule name in a finding about a write's reach, which breaks no rule of a policy.
const REACH: &str = "warnAbove";

/// A policy that covers the object after or before the write.
pub(super) struct Covering {
    name: Arc<str>,
    policy: Arc<CompiledPolicy>,
    before: bool,
    /// The consequences; `None` for nearly every write. The field is boxed to be small, since many policies
    /// may cover a write.
    consequences: Option<Box<Consequences>>,
}

/// The consequences of a write that a policy refuses or warns about.
struct Consequences {
    /// The violation if the write removes data that workloads use, and the policy forbids that.
    in_use: Option<Violation>,
    /// The warning about a write that reaches more copies or workloads than `warnAbove` allows.
    far: Option<String>,
}

/// Returns the policies that judge a write.
pub(super) fn look(case: &WriteCase<'_>, world: &World) -> Result<Vec<Covering>, DecideError> {
    let (new, old) = match (case.review.operation, &case.versions.new, &case.versions.old) {
        (Operation::Create, Some(new), _) => (Some(new), None),
        (Operation::Update, Some(new), Some(old)) => (Some(new), Some(old)),
        (Operation::Delete, _, Some(old)) => (None, Some(old)),
        _ => return Ok(Vec::new()),
    };
    let Some(object) = new.or(old) else { return Ok(Vec::new()) };
    let is_bookkeeping = new.zip(old).is_some_and(|(new, old)| new.same_but_for_bookkeeping(old));
    if is_our_write(object, case) || is_bookkeeping {
        return Ok(Vec::new());
    }
    let namespace = world.namespaces().get(&*object.namespace).map(|facts| &facts.labels);
    // The vector has room for all policies: most policies cover the object, and a growing vector would move
    // its content four times for two dozen policies.
    let mut covering = Vec::with_capacity(world.policies().len().min(MOST_RESERVED));
    // The reach is computed only once: it is the same for each policy, and the most expensive step under the
    // world's lock.
    let mut reach = None;
    for (name, facts) in world.policies() {
        let Ok(policy) = &facts.compiled else { continue };
        let covers =
            |object: &Candidate<'_>| policy.covers(object, namespace).ok_or(DecideError::UnknownNamespace);
        let before = old.map(covers).transpose()?.unwrap_or(false);
        let after = new.map(covers).transpose()?.unwrap_or(false);
        if !before && !after {
            continue;
        }
        let keeps = facts.spec.while_in_use == WhileInUse::Refuse;
        // Not every hook can verify marks. Only Copyrator can set marks, so the API server's policy on copies
        // decides whether an account may delete a copy.
        let is_marked_deletion = new.is_none() && object.marks().is_some();
        let in_use = match (case.kind.content(), old.filter(|_| keeps && before && !is_marked_deletion)) {
            (Some(kind), Some(old)) => in_use::look(world, kind, old, new)?,
            _ => None,
        };
        let above_what = facts.spec.warn_above.as_ref().zip(new).zip(case.kind.content());
        let far = above_what.and_then(|((limits, new), kind)| {
            let reached = reach.get_or_insert_with(|| reached(world, kind, old, new));
            reached.above(limits).map(|far| format!("copyrator: {far}, policy {name}"))
        });
        let is_any = in_use.is_some() || far.is_some();
        let consequences = is_any.then(|| Box::new(Consequences { in_use, far }));
        covering.push(Covering { name: name.clone(), policy: policy.clone(), before, consequences });
    }
    Ok(covering)
}

/// Whether judging by one of these policies may need many times the review's size in memory.
pub(super) fn is_heavy(covering: &[Covering]) -> bool {
    covering.iter().any(|one| one.policy.is_heavy())
}

/// One way in which a write breaks a policy, and the effect of the violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The name of the broken policy.
    pub policy: Arc<str>,
    /// The fault, the rule of the policy and the key.
    pub violation: Violation,
    /// The effect, by the policy's `validationActions`.
    pub effect: Effect,
    /// The sentence that the writer reads.
    pub message: String,
}

/// The effect of a violation, from the policy's `validationActions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The API server refuses the write.
    Refused,
    /// The API server allows the write, and the writer gets a warning.
    Warned,
    /// The API server allows the write, and the audit log gets an annotation.
    Noted,
}

/// Judges the write by each of the given policies.
pub(super) fn breaches(case: &WriteCase<'_>, covering: &[Covering]) -> Vec<Breach> {
    judged(case, covering, Judgement::new).0
}

/// Like [`breaches`], but `None` if judging would delay other requests for too long.
pub(super) fn breaches_briefly(case: &WriteCase<'_>, covering: &[Covering]) -> Option<Vec<Breach>> {
    let (breaches, fell_short) = judged(case, covering, Judgement::brief);
    (!fell_short).then_some(breaches)
}

fn judged<'w>(
    case: &'w WriteCase<'_>,
    covering: &[Covering],
    judgement: impl Fn(&'w Candidate<'w>, Timestamp) -> Judgement<'w>,
) -> (Vec<Breach>, bool) {
    let old = case.versions.old.as_ref();
    let new = case.versions.new.as_ref().filter(|_| case.review.operation != Operation::Delete);
    let (Some(object), [_, ..]) = (new.or(old), covering) else { return (Vec::new(), false) };
    let request = &|| facts(case.review);
    let judgement = |object| judgement(object, case.now);
    let mut write =
        new.map(|new| Write { new: judgement(new), old: old.map(judgement), request: Some(request) });
    let mut breaches = Vec::new();
    for Covering { name, policy, before, consequences } in covering {
        let in_use = consequences.as_deref().and_then(|those| those.in_use.as_ref());
        let far = consequences.as_deref().and_then(|those| those.far.as_ref());
        let judged = write.as_mut().map(|write| policy.judge_write(write, *before));
        let taken = in_use
            .into_iter()
            .map(|violation| Finding { violation: violation.clone(), stands_already: false });
        for Finding { violation, stands_already } in judged.into_iter().flatten().chain(taken) {
            let effect = if policy.actions().contains(&Action::Deny) && !stands_already {
                Effect::Refused
            } else {
                told(policy)
            };
            let message = violation.message(name, object);
            breaches.push(Breach { policy: name.clone(), violation, effect, message });
        }
        breaches.extend(far.map(|far| Breach {
            policy: name.clone(),
            violation: Violation::by_change(
                REACH,
                None,
                "reaches far".into(),
                "change fewer objects at once",
            ),
            effect: told(policy),
            message: printable(far, LONGEST_WARNING),
        }));
    }
    (breaches, write.is_some_and(|write| write.fell_short()))
}

/// The effect of a violation that does not refuse the write.
fn told(policy: &CompiledPolicy) -> Effect {
    match policy.actions().iter().any(|action| *action != Action::Audit) {
        true => Effect::Warned,
        false => Effect::Noted,
    }
}

/// Combines all violations into one verdict.
pub fn verdict(breaches: &[Breach]) -> Verdict {
    let mut verdict = Verdict::allow();
    let with = |effect: Effect| breaches.iter().filter(move |breach| breach.effect == effect);
    with(Effect::Warned).for_each(|breach| verdict.warn(breach.message.clone()));
    let refusals: Vec<&str> = with(Effect::Refused).map(|breach| breach.message.as_str()).collect();
    if !refusals.is_empty() {
        let warnings = std::mem::take(&mut verdict.warnings);
        verdict = Verdict { warnings, ..Verdict::refuse(Denial::Forbidden, &listed(&refusals)) };
    }
    if !breaches.is_empty() {
        verdict
            .audit
            .insert("verdict".into(), if verdict.is_allowed() { "allowed" } else { "refused" }.into());
    }
    let (far, broken): (Vec<&Breach>, _) = breaches.iter().partition(|breach| breach.violation.rule == REACH);
    let mut broken: Vec<String> = broken
        .iter()
        .map(|breach: &&Breach| format!("{}/{}", breach.policy, breach.violation.rule))
        .collect();
    broken.dedup();
    let far: Vec<String> = far.iter().map(|breach| breach.policy.to_string()).collect();
    for (key, all) in [("violations", broken), ("reach", far)] {
        if !all.is_empty() {
            verdict.audit.insert(key.into(), printable(all.join(","), LONGEST_AUDIT));
        }
    }
    verdict
}

/// Whether one of our own accounts writes a copy, which Copyrator has judged already. Other accounts are not
/// exempt, even if their object carries the marks.
fn is_our_write(object: &Candidate<'_>, case: &WriteCase<'_>) -> bool {
    case.parties.own.contains(&case.review.user_info.username) && object.marks().is_some()
}

/// Whether the object is a copy of ours, to which no defaults are added: the copy's proof verifies, or one of
/// our own accounts writes the copy. Marks without a valid proof do not exempt an object.
pub(super) fn is_copy(object: &Candidate<'_>, case: &WriteCase<'_>, world: &World) -> bool {
    if is_our_write(object, case) {
        return true;
    }
    let Some(marks) = object.marks() else { return false };
    let Some(kind) = object.kind.content() else { return false };
    let slot = ObjectKey::new(kind, &*object.namespace, &*object.name);
    world.key().is_some_and(|key| marks.proof(&slot, key) == Proof::Ours)
}

/// Joins as many refusals as fit into a message, ten at most, and the number of omitted refusals.
fn listed(refusals: &[&str]) -> String {
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
        match refusal.len() <= room {
            true => text += refusal,
            false => text += &printable(*refusal, room),
        }
    }
    text
}

fn facts(review: &Review<'_>) -> RequestFacts {
    let (group, version) = (review.kind.group.to_string(), review.kind.version.to_string());
    let plural = review.kind.kind.to_ascii_lowercase() + "s";
    let resource = RequestResource { group: group.clone(), version: version.clone(), resource: plural };
    let kind = RequestKind { group, version, kind: review.kind.kind.to_string() };
    RequestFacts {
        operation: review.operation.name().into(),
        request_kind: kind.clone(),
        request_resource: resource.clone(),
        kind,
        resource,
        name: review.name.clone().into_owned(),
        namespace: review.namespace.clone().into_owned(),
        dry_run: review.is_dry_run(),
        user_info: RequestUser {
            username: review.user_info.username.clone(),
            groups: review.user_info.groups.clone(),
        },
    }
}
