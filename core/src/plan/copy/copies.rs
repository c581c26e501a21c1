//! Plans one slot: create the copy, update it, leave it, or delete it.

use jiff::Timestamp;

use super::{
    claims::{Claim, RemovalPolicy, Wants, claims_on, is_anothers, proof},
    copy_cache::CopyCache,
    hold::{AGAIN, last_attempt},
    inert::{Inert, inert_template},
    intent::{Intent, fields_of},
    not_kept::{altered, loses_labels},
    possible_sources::copied_by,
    problem::CopyProblem,
    removal::{plan_unwanted, unseen_under},
    rights::is_refused,
    slot_plan::{CopyAction, CopyWrite, SlotPlan, SlotState, Version},
    spread::follows,
    successor::predecessor_of,
    templates::is_rendered,
    terminating::plan_terminating,
    unreadable::unread_of_claim,
    unshown::{asked_again, is_unasked, unlisted},
    winner::winner,
    write_gates::{DueWrite, first_shut, unmark},
};
use crate::{
    api::ConflictPolicy,
    digest::Fingerprint,
    marks::{OnRemoval, Proof},
    model::{Drift, ForeignField, ObjectFacts, Owner, World, WriteFault, is_left_out},
    names::{Declarer, ObjectKey},
    plan::{Need, at_after},
};

/// Plans one slot: its state, and the one write to make.
pub fn plan_slot(world: &World, slot: &ObjectKey, now: Timestamp) -> SlotPlan {
    plan_claimed(world, slot, &claims_on(world, slot), &mut CopyCache::default(), now)
}

/// Plans these slots. The part that copies have in common is computed once, so planning many slots together
/// is cheaper.
pub fn plan_slots<'s>(
    world: &World,
    slots: impl IntoIterator<Item = &'s ObjectKey>,
    now: Timestamp,
) -> impl Iterator<Item = (&'s ObjectKey, SlotPlan)> {
    let mut alike = CopyCache::default();
    slots
        .into_iter()
        .map(move |slot| (slot, plan_claimed(world, slot, &claims_on(world, slot), &mut alike, now)))
}

/// Plans one slot, given the claims on the slot and a cache of the common parts of copies.
pub(super) fn plan_claimed(
    world: &World,
    slot: &ObjectKey,
    claims: &[Claim<'_>],
    alike: &mut CopyCache,
    now: Timestamp,
) -> SlotPlan {
    plan_as(world, slot, world.object(slot), claims, alike, now)
}

/// The write that would be made if the object differed from its declaration, for a dry run. `None` if the
/// plan would not write now.
pub fn as_declared(world: &World, slot: &ObjectKey, now: Timestamp) -> Option<Box<CopyWrite>> {
    let mut facts = world.object(slot)?.clone();
    facts.set_drift(Drift::Certain);
    let plan = plan_as(world, slot, Some(&facts), &claims_on(world, slot), &mut CopyCache::default(), now);
    match plan.action {
        Some(CopyAction::Write(write)) => Some(write),
        _ => None,
    }
}

fn plan_as(
    world: &World,
    slot: &ObjectKey,
    existing: Option<&ObjectFacts>,
    claims: &[Claim<'_>],
    alike: &mut CopyCache,
    now: Timestamp,
) -> SlotPlan {
    let proof = existing.and_then(|facts| proof(world, slot, facts));
    // The rule that the marks of an existing copy name.
    let holder = existing
        .filter(|_| proof.is_some_and(|proof| proof != Proof::Forged))
        .and_then(|facts| Some(&facts.marks.as_deref()?.rule));
    if let Some(need) = unlisted(world, slot, holder) {
        return SlotPlan { needs: vec![need], ..SlotPlan::rest(holder, SlotState::Kept) };
    }
    let is_contested =
        |rule: &&Declarer| !claims.is_empty() && claims.iter().all(|claim| claim.rule != *rule);
    let out_of_reach =
        holder.filter(|_| !claims.is_empty()).and_then(|rule| out_of_reach(world, rule)).or_else(|| {
            let contested = holder.filter(is_contested).filter(|rule| !is_refused(world, rule));
            contested.and_then(|rule| unrendered(world, rule, slot))
        });
    let mut plan = match (out_of_reach, winner(world, claims, holder)) {
        (Some((rule, state)), _) => SlotPlan::rest(Some(rule), state),
        (None, Some(claim)) => plan_wanted(world, slot, claim, existing, proof, alike, now),
        (None, None) => plan_unwanted(world, slot, existing, now),
    };
    if let (SlotState::Current, Some(facts)) = (&plan.state, existing)
        && let Some(problem) = altered(world, slot, facts)
    {
        plan.state = SlotState::Altered(problem);
    }
    if plan.action.is_none() && plan.needs.is_empty() && proof == Some(Proof::Ours) {
        plan.action = existing.and_then(|facts| vouch(world, slot, facts));
    }
    asked_again(world, slot, existing, plan, now)
}

/// Notes the current CustomResourceDefinition on a copy that does not name it yet, whether or not the copy's
/// rule may write: otherwise the copy would stay after the rule is deleted.
fn vouch(world: &World, slot: &ObjectKey, facts: &ObjectFacts) -> Option<CopyAction> {
    let rule = &facts.marks.as_deref()?.rule;
    let is_there = world.declaration(rule).is_some() && !is_anothers(world, rule);
    let stays = facts.deletion.is_none()
        && world.namespaces().get(&slot.namespace).is_some_and(|namespace| !namespace.terminating);
    // A missing rule may have been deleted together with its CustomResourceDefinition, and the list that
    // shows this may be under way, although the new definition is known already from rules of another
    // namespace.
    let is_sure = !world.is_in_doubt();
    let definition = unseen_under(world, rule, facts).filter(|_| is_there && stays && is_sure)?;
    Some(CopyAction::Vouch(Version::of(facts), definition.uid.clone()))
}

/// The CustomResourceDefinition under which the rule of a copy was seen; in doubt, the definition that the
/// copy already names.
fn seen_under(world: &World, rule: &Declarer, existing: Option<&ObjectFacts>) -> Option<Box<str>> {
    let before = existing.and_then(|facts| facts.marks.as_deref()?.definition.clone());
    let now = world.definition_of(rule).filter(|_| rule.as_annotated().is_none());
    match world.is_in_doubt() {
        true => before.or_else(|| now.map(|definition| definition.uid.clone())),
        false => now.map(|definition| definition.uid.clone()),
    }
}

/// A copy stays with its rule while this process cannot tell whether the rule claims it: the spec is invalid
/// (a mistake must not hand its copies to another rule), or this process does not serve the rule.
fn out_of_reach<'r>(world: &World, rule: &'r Declarer) -> Option<(&'r Declarer, SlotState)> {
    if world.declaration(rule).is_some_and(|declared| !declared.is_valid()) {
        return Some((rule, SlotState::Inert(Inert::Invalid)));
    }
    is_anothers(world, rule).then_some((rule, SlotState::Kept))
}

/// An object stays with its template while the template's current version is not rendered in the slot: the
/// template does not act at present, was changed a moment ago, or has an expression without a value. Without
/// this rule, a second claim would get the slot meanwhile.
fn unrendered<'r>(world: &World, rule: &'r Declarer, slot: &ObjectKey) -> Option<(&'r Declarer, SlotState)> {
    let facts = world.templates().get(rule)?;
    let state = inert_template(world, rule, facts).map_or(SlotState::Kept, SlotState::Inert);
    (!is_rendered(world, rule, facts, slot)).then_some((rule, state))
}

fn plan_wanted(
    world: &World,
    slot: &ObjectKey,
    claim: &Claim<'_>,
    existing: Option<&ObjectFacts>,
    proof: Option<Proof>,
    alike: &mut CopyCache,
    now: Timestamp,
) -> SlotPlan {
    let plan = |state| SlotPlan::rest(Some(claim.rule), state);
    if let Some(why) = claim.inert(world) {
        // An orphaned copy of a different rule waits for the API server's answer about this rule. If this
        // rule is suspended before the answer arrives, no event plans the slot again.
        let marks = existing.and_then(|facts| facts.marks.as_deref()).filter(|_| proof == Some(Proof::Ours));
        let waits = marks.filter(|marks| marks.rule != *claim.rule);
        return SlotPlan { recheck: waits.map(|_| at_after(now, AGAIN)), ..plan(SlotState::Inert(why)) };
    }
    if let Some(deletion) = existing.and_then(|facts| facts.deletion.as_deref()) {
        let then = "Copyrator creates the copy again after the object is deleted";
        return plan_terminating(claim.rule, slot, deletion, SlotState::Outdated, then, now);
    }
    let ours = existing.filter(|_| proof == Some(Proof::Ours));
    if let Some(problem) = unread_of_claim(world, slot, claim, ours) {
        return plan(SlotState::Blocked(problem));
    }
    let (Some(key), Some(source_version)) = (world.key(), source_version(world, claim)) else {
        return plan(SlotState::Outdated);
    };
    let Some(print) = claim.print(world) else {
        return SlotPlan {
            needs: vec![Need::Fingerprint(claim.source.clone())],
            ..plan(SlotState::Outdated)
        };
    };
    let owners = Owner::hash(claim.owner());
    let is_ours = existing.filter(|facts| {
        let is_doubted = facts.drift().is_doubt() || world.fingerprint(slot).is_some();
        facts.owners == owners
            && proof == Some(Proof::Ours)
            && !is_doubted
            && names_itself(world, slot, facts)
    });
    if is_ours.is_some_and(|facts| alike.is_in_order(claim, facts)) {
        return SlotPlan { action: unmark(existing), ..plan(SlotState::Current) };
    }
    let removal = match existing.is_some_and(|facts| is_adopted(claim, facts, proof)) {
        true => RemovalPolicy { on_removal: OnRemoval::Adopted, is_own: false },
        false => claim.removal(world.settings().default_grace),
    };
    let intent = Intent::new(world, claim, slot, print, key, removal);
    alike.learn(claim, slot, &intent);
    let verdict = match existing {
        None if is_unasked(world, slot, claim) => Verdict::Unknown(Need::Existing(slot.clone())),
        None => Verdict::Write { surplus: Vec::new(), take_over: None, anew: false },
        Some(facts) => match judge(world, slot, claim, facts, proof, &intent) {
            Verdict::InOrder if facts.owners != owners => {
                Verdict::Write { surplus: Vec::new(), take_over: None, anew: false }
            }
            verdict => verdict,
        },
    };
    let disown = existing.is_some_and(|facts| ![Owner::NONE, owners].contains(&facts.owners));
    match verdict {
        Verdict::Unknown(need) => SlotPlan { needs: vec![need], ..plan(SlotState::Outdated) },
        Verdict::InDoubt => plan(SlotState::Outdated),
        Verdict::InOrder => SlotPlan { action: unmark(existing), ..plan(SlotState::Current) },
        // Remove a removal mark from an earlier moment in which no rule wanted the copy: with it, the next
        // such moment would delete the copy without a grace period.
        Verdict::Blocked(problem) => SlotPlan { action: unmark(ours), ..plan(SlotState::Blocked(problem)) },
        Verdict::Write { surplus, take_over, anew } => {
            let follows = follows(existing.filter(|_| take_over.is_none() && !disown), &intent.marks);
            let due = DueWrite {
                world,
                slot,
                claim,
                existing,
                ours,
                print,
                intent: &intent,
                takes_over: take_over.is_some(),
                anew,
                follows,
                now,
            };
            if let Some(plan) = first_shut(&due) {
                return plan;
            }
            let state = due.state();
            let refused = last_attempt(world, slot, existing, &intent);
            let predecessor = refused.filter(|last| existing.is_none() && last.reason.lacks_room());
            let predecessor = predecessor.and_then(|_| predecessor_of(world, slot, claim));
            let anew = anew || (existing.is_some() && refused.is_some_and(|last| last.replace));
            let write = CopyWrite {
                source: claim.source.clone(),
                source_version,
                rendered: match &claim.wants {
                    Wants::Copy { .. } => None,
                    Wants::Object { object, .. } => Some(object.body.clone()),
                },
                intent,
                replaces: existing.map(Version::of),
                disown,
                predecessor,
                surplus,
                take_over,
                anew,
                follows,
                definition: seen_under(world, claim.rule, existing),
            };
            SlotPlan { action: Some(CopyAction::Write(Box::new(write))), ..plan(state) }
        }
    }
}

/// Whether the copy is an object that existed before its rule, and that the rule has adopted or will adopt.
/// With `Overwrite`, an object belongs to the rule from the first write on.
fn is_adopted(claim: &Claim<'_>, facts: &ObjectFacts, proof: Option<Proof>) -> bool {
    let said = facts.marks.as_deref().and_then(|marks| marks.on_removal);
    match proof.filter(|proof| *proof != Proof::Forged) {
        Some(_) => claim.conflict() != ConflictPolicy::Overwrite && said == Some(OnRemoval::Adopted),
        None => claim.conflict() == ConflictPolicy::Adopt,
    }
}

/// The version of the object's source; `None` if the source is gone, or if the namespace is not known: rights
/// in an earlier namespace of the same name do not hold in this namespace.
fn source_version(world: &World, claim: &Claim<'_>) -> Option<Version> {
    match &claim.wants {
        Wants::Copy { .. } => {
            let source = world.object(&claim.source);
            source.filter(|_| world.namespaces().contains_key(&claim.source.namespace)).map(Version::of)
        }
        Wants::Object { object, .. } => Some(Version {
            uid: object.print.uid.clone(),
            resource_version: object.print.resource_version.clone(),
        }),
    }
}

enum Verdict {
    InOrder,
    Write {
        surplus: Vec<ForeignField>,
        take_over: Option<Vec<ForeignField>>,
        anew: bool,
    },
    Blocked(CopyProblem),
    Unknown(Need),
    /// A rule that copies the object may be missing until rules are listed again.
    InDoubt,
}

/// Whether a copy's marks name the copy itself. Copies of ConfigMaps and Secrets by an earlier version lack
/// this mark, and may wait for it until the sweep, which reads each copy.
fn names_itself(world: &World, slot: &ObjectKey, facts: &ObjectFacts) -> bool {
    let Some(marks) = facts.marks.as_deref() else { return false };
    let may_wait = slot.kind.data().is_some() && marks.rule.as_template().is_none();
    marks.names_itself || (may_wait && world.fingerprint(slot).is_none())
}

/// Whether an existing object is the intended copy: compared by metadata if possible, and by content in
/// doubt, or if the content is known anyway.
fn judge(
    world: &World,
    slot: &ObjectKey,
    claim: &Claim<'_>,
    facts: &ObjectFacts,
    proof: Option<Proof>,
    intent: &Intent,
) -> Verdict {
    if proof.is_none_or(|proof| proof == Proof::Forged) {
        return judge_foreign(world, slot, claim.conflict(), facts, intent);
    }
    let same_marks = facts.marks.as_ref().is_some_and(|marks| marks.same_but_for_removal(&intent.marks))
        && names_itself(world, slot, facts)
        && (intent.same_labels(facts) || loses_labels(world, slot, intent));
    let ownership = facts.ownership.as_deref();
    // If our entry is missing, managedFields were emptied, and do not say who wrote what.
    let untouched = ownership.is_some_and(|owned| owned.ours.is_some() && owned.foreign.is_empty());
    let covered = ownership
        .and_then(|owned| owned.ours.as_ref())
        .is_some_and(|owned| owned.are(&intent.own_fields(slot.kind)));
    let print = world.fingerprint(slot);
    if facts.is_declared() {
        let is_suspect = slot.kind.is_whole() && !(untouched && covered);
        let is_ours = same_marks && ownership.is_some_and(|owned| owned.ours.is_some());
        return match facts.drift() {
            Drift::Unexamined if is_ours && !is_suspect => Verdict::InOrder,
            Drift::None if is_ours => Verdict::InOrder,
            drift => judge_declared(slot, is_ours && drift != Drift::Certain, intent, print),
        };
    }
    let anew = print.is_some_and(|print| intent.needs_replacing(slot.kind, print));
    // A tenant may edit managedFields, and an apply prunes only fields that managedFields call ours. So for a
    // kind without `data`, the whole object is read before each write: a field that is left behind could keep
    // a NetworkPolicy open.
    if untouched && !same_marks && slot.kind.data().is_some() {
        return Verdict::Write { surplus: Vec::new(), take_over: None, anew };
    }
    let seems_ours = untouched && covered && same_marks && facts.drift() != Drift::Certain;
    let is_traced = !facts.trace.is_untraced;
    // A dry run has shown that a write changes nothing.
    let is_settled = same_marks && facts.examined.is_some() && facts.drift() == Drift::None;
    match print {
        None if (seems_ours && is_traced) || is_settled => Verdict::InOrder,
        // Metadata does not decide the comparison, so the content must be read.
        None => Verdict::Unknown(Need::Fingerprint(slot.clone())),
        Some(print) if same_marks && intent.same_content(print) && intent.same_meta(facts, print) => {
            Verdict::InOrder
        }
        // The API server may have changed our write to this content: a dry run shows whether the same write
        // would give the same content again.
        Some(_) if facts.examined.is_some() && (seems_ours || is_settled) => {
            Verdict::Unknown(Need::Drift(slot.clone()))
        }
        Some(print) => Verdict::Write { surplus: intent.surplus(slot.kind, print), take_over: None, anew },
    }
}

/// For an object that a template declares and that somebody may have changed, the API server tells whether
/// the object differs. For a kind that is kept whole, the undeclared fields have to be known first, since the
/// write removes these fields.
fn judge_declared(
    slot: &ObjectKey,
    is_examined_first: bool,
    intent: &Intent,
    print: Option<&Fingerprint>,
) -> Verdict {
    let surplus = match (slot.kind.is_whole(), print) {
        (true, None) => return Verdict::Unknown(Need::Fingerprint(slot.clone())),
        (true, Some(print)) => intent.surplus(slot.kind, print),
        (false, _) => Vec::new(),
    };
    match is_examined_first {
        true => Verdict::Unknown(Need::Drift(slot.clone())),
        false => Verdict::Write { surplus, take_over: None, anew: false },
    }
}

fn judge_foreign(
    world: &World,
    slot: &ObjectKey,
    policy: ConflictPolicy,
    facts: &ObjectFacts,
    intent: &Intent,
) -> Verdict {
    let blocked = |message: &str| Verdict::Blocked(CopyProblem::fault(slot, WriteFault::Conflict, message));
    if policy == ConflictPolicy::Refuse {
        return blocked(
            "an object that Copyrator did not make is in the way: remove or rename the object, exclude the namespace, or set \
             conflictPolicy; Copyrator checks again within a minute",
        );
    }
    // If two sources overwrote each other, both would be copies without a source, and be deleted. A tenant
    // must not protect another tenant's object by a rule that may not read it.
    let counts = |rule: &Declarer| *rule.namespace() == slot.namespace || !is_refused(world, rule);
    if let Some(rule) = copied_by(world, slot, facts, counts) {
        if world.rules().get(rule).is_some_and(|facts| facts.compiled.is_err()) {
            return blocked(&format!(
                "the object in the way may be a source of the invalid rule {rule}, and Copyrator never overwrites a source, whatever \
                 conflictPolicy says: correct or delete that rule, or exclude the namespace"
            ));
        }
        return blocked(&format!(
            "the object in the way is itself a source of rule {rule}, and Copyrator never overwrites a source, whatever conflictPolicy \
             says: exclude the namespace, or remove the object from that rule's sources"
        ));
    }
    if world.is_in_doubt() {
        return Verdict::InDoubt;
    }
    let Some(print) = world.fingerprint(slot) else {
        return Verdict::Unknown(Need::Fingerprint(slot.clone()));
    };
    if is_left_out(slot, print.type_.as_deref()) {
        return blocked(
            "Copyrator never overwrites the object in the way (a token, a Helm release or kube-root-ca.crt), whatever conflictPolicy \
             says: remove or rename the object, exclude the namespace, or set copy.name",
        );
    }
    if let (ConflictPolicy::Adopt, Some(keeper)) = (policy, &print.keeper) {
        return blocked(&format!(
            "the object in the way belongs to {keeper}, so Copyrator does not adopt it: exclude the namespace, remove the object from its \
             owner, or set conflictPolicy: Overwrite"
        ));
    }
    if policy == ConflictPolicy::Adopt && !intent.same_content(print) {
        return blocked(
            "an object that Copyrator did not make is in the way, and its content differs, so Copyrator does not adopt it: make the \
             contents equal, or set conflictPolicy: Overwrite",
        );
    }
    let anew = intent.needs_replacing(slot.kind, print);
    Verdict::Write { surplus: Vec::new(), take_over: Some(fields_of(slot.kind, print)), anew }
}
