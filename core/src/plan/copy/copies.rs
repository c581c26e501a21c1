//! What to do about one slot: make the copy, bring it in order, leave it, or let it go.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    alike::Alike,
    claims::{Claim, Inert, authority, claims_on, copied_by, inert, proof},
    demand::{too_many, too_many_said},
    hold::{AGAIN, held, last_attempt, refused_problem},
    intent::{Intent, fields_of},
    removal::{plan_unwanted, unseen_under},
    spread::{braked, follows, too_large},
};
use crate::{
    api::{ConflictPolicy, Problem},
    marks::Proof,
    model::{Deletion, ForeignField, ObjectFacts, World},
    names::{NamespacedName, ObjectKey},
    plan::{Need, at_after},
};

/// What is deleted is gone within this, unless a finalizer keeps it.
const GOES_WITHIN: Duration = Duration::from_secs(60);

/// What one slot comes down to.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotPlan {
    /// How the slot stands before the action.
    pub state: SlotState,
    /// The rule that the slot belongs to.
    pub rule: Option<NamespacedName>,
    /// The one write to make.
    pub action: Option<CopyAction>,
    /// What must be fetched before the decision can be made.
    pub needs: Vec<Need>,
    /// When to look again though nothing happens.
    pub recheck: Option<Timestamp>,
}

/// How a slot stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Nobody wants a copy here, and none of ours is.
    Nothing,
    /// The copy is in order.
    Current,
    /// The copy is about to be written.
    Outdated,
    /// The copy carries what its source was a moment ago, and takes what it is now not before this time: a
    /// source that keeps changing spreads more and more slowly.
    Braked(Timestamp),
    /// Something that we do not touch is in the way, or the last attempt was refused.
    Blocked(Problem),
    /// Wanted by a rule that writes nothing at present.
    Inert(Inert),
    /// A copy that nobody wants, and when it goes.
    Leaving(Option<Timestamp>),
    /// A copy that nobody wants and that stays.
    Kept,
}

/// The version of an object that a decision was made on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// UID.
    pub uid: Box<str>,
    /// Resource version.
    pub resource_version: Box<str>,
}

impl Version {
    /// The version that is known.
    pub fn of(facts: &ObjectFacts) -> Self {
        Self { uid: facts.uid.clone(), resource_version: facts.resource_version.clone() }
    }
}

/// One write to one slot.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyAction {
    /// Make the copy, or bring it in order.
    Write(Box<CopyWrite>),
    /// Nobody wants it: say when it goes.
    MarkRemoval(Version, Timestamp),
    /// Wanted again: take the removal mark off.
    Unmark(Version),
    /// Its rule is there under this definition, and the copy names another one: say so on the copy.
    Vouch(Version, Box<str>),
    /// It goes.
    Delete(Version),
    /// It stays, as an ordinary object: our marks go.
    Release(Version),
}

impl CopyAction {
    /// The action takes something away: it is not done while a CRD of ours is going
    /// (`kubectl delete crd` looks like every rule being deleted).
    pub fn removes(&self) -> bool {
        matches!(self, Self::MarkRemoval(..) | Self::Delete(_) | Self::Release(_))
    }
}

/// A copy to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyWrite {
    /// The object to copy.
    pub source: ObjectKey,
    /// The version of it that the intent was made from.
    pub source_version: Version,
    /// What to write.
    pub intent: Intent,
    /// What is there now; `None`: nothing, and the write must create.
    pub replaces: Option<Version>,
    /// It has owners, with whom it would go: they are taken off first.
    pub disown: bool,
    /// Keys to be nulled first.
    pub surplus: Vec<ForeignField>,
    /// The object is foreign: make these fields of its content ours first, so that the apply decides all of
    /// them.
    pub take_over: Option<Vec<ForeignField>>,
    /// Delete and create anew, because an update was refused as impossible.
    pub anew: bool,
    /// What the copy carries until now, where all it does is follow its source: that is a spread, and counts
    /// ([`super::spread`]).
    pub follows: Option<String>,
    /// The UID of the definition that the rule is there under.
    pub definition: Option<Box<str>>,
}

/// What to do about one slot.
pub fn plan_slot(world: &World, slot: &ObjectKey, now: Timestamp) -> SlotPlan {
    plan_claimed(world, slot, &claims_on(world, slot), &mut Alike::default(), now)
}

/// The same, where the claims on the slot are known, and perhaps what its copy has in common with others.
pub(super) fn plan_claimed(
    world: &World,
    slot: &ObjectKey,
    claims: &[Claim<'_>],
    alike: &mut Alike,
    now: Timestamp,
) -> SlotPlan {
    let existing = world.object(slot);
    let proof = existing.and_then(|facts| proof(world, slot, facts));
    // The rule that the mark of an existing copy names.
    let holder = existing
        .filter(|_| proof.is_some_and(|proof| proof != Proof::Forged))
        .and_then(|facts| Some(&facts.marks.as_deref()?.rule));
    let out_of_reach = holder.filter(|_| !claims.is_empty()).and_then(|rule| out_of_reach(world, rule));
    let mut plan = match (out_of_reach, winner(world, claims, holder)) {
        (Some((rule, state)), _) => {
            SlotPlan { state, rule: Some(rule.clone()), action: None, needs: Vec::new(), recheck: None }
        }
        (None, Some(claim)) => plan_wanted(world, slot, claim, existing, proof, alike, now),
        (None, None) => plan_unwanted(world, slot, existing, now),
    };
    if plan.action.is_none() && plan.needs.is_empty() && proof == Some(Proof::Ours) {
        plan.action = existing.and_then(|facts| vouch(world, slot, facts));
    }
    plan
}

/// A copy that its rule has not been seen with under this definition is told that it has, whether the rule
/// may write or not: else the copy would be held once the rule is deleted.
fn vouch(world: &World, slot: &ObjectKey, facts: &ObjectFacts) -> Option<CopyAction> {
    let rule = &facts.marks.as_deref()?.rule;
    let is_there = world.rules().get(rule).is_some() && !is_anothers(world, rule);
    let stays = facts.deletion.is_none()
        && world.namespaces().get(&slot.namespace).is_some_and(|namespace| !namespace.terminating);
    let definition = unseen_under(world, rule, facts).filter(|_| is_there && stays)?;
    Some(CopyAction::Vouch(Version::of(facts), definition.uid.clone()))
}

/// A copy stays with its rule where we cannot tell whether that rule wants it: its spec is not understood (a
/// mistake in it must not hand its copies to another rule), or this process does not serve it.
fn out_of_reach<'r>(world: &World, rule: &'r NamespacedName) -> Option<(&'r NamespacedName, SlotState)> {
    if world.rules().get(rule).is_some_and(|facts| facts.compiled.is_err()) {
        return Some((rule, SlotState::Inert(Inert::Quarantined)));
    }
    is_anothers(world, rule).then_some((rule, SlotState::Kept))
}

/// Whether this process leaves a rule alone: it serves another one only, does not see where the rule is, or
/// rules of this one's sort, annotations, are switched off, which is not a decision of the users who wrote
/// them: their copies stay as they are.
pub(crate) fn is_anothers(world: &World, rule: &NamespacedName) -> bool {
    world.settings().only_rule.as_ref().is_some_and(|only| only != rule)
        || !world.sees(&rule.namespace)
        || (!world.settings().annotations && rule.annotated().is_some())
}

/// Whose slot it is: it belongs to the rule that the copy's mark names, for as long as that rule wants it; a
/// free slot goes to the older rule, then to the alphabetically first. A rule that writes nothing takes no
/// free slot from one that does; one whose identity has not been asked about yet is waited for, or the API
/// server's answering times would decide.
fn winner<'c, 'w>(
    world: &World,
    claims: &'c [Claim<'w>],
    holder: Option<&NamespacedName>,
) -> Option<&'c Claim<'w>> {
    let held = claims.iter().find(|claim| Some(claim.rule) == holder);
    if let [only] = claims {
        return Some(only);
    }
    let stands_back = |claim: &Claim<'_>| match inert(world, claim.rule, claim.facts) {
        Some(Inert::Unauthorized) => authority(world, claim.rule, claim.facts).is_some(),
        Some(_) => true,
        None => too_many(world, claim.rule, claim.compiled).is_some(),
    };
    held.or_else(|| claims.iter().min_by_key(|claim| (stands_back(claim), claim.facts.created, claim.rule)))
}

fn plan_wanted(
    world: &World,
    slot: &ObjectKey,
    claim: &Claim<'_>,
    existing: Option<&ObjectFacts>,
    proof: Option<Proof>,
    alike: &mut Alike,
    now: Timestamp,
) -> SlotPlan {
    let plan = |state| SlotPlan {
        state,
        rule: Some(claim.rule.clone()),
        action: None,
        needs: Vec::new(),
        recheck: None,
    };
    if let Some(why) = inert(world, claim.rule, claim.facts) {
        return plan(SlotState::Inert(why));
    }
    if let Some(deletion) = existing.and_then(|facts| facts.deletion.as_deref()) {
        let late = at_after(deletion.since, GOES_WITHIN);
        return match now < late {
            true => SlotPlan { recheck: Some(late), ..plan(SlotState::Outdated) },
            false => plan(SlotState::Blocked(terminating(slot, deletion))),
        };
    }
    let (Some(key), Some(source)) = (world.key(), world.object(&claim.source)) else {
        return plan(SlotState::Outdated);
    };
    let Some(print) = world.fingerprint(&claim.source) else {
        return SlotPlan {
            needs: vec![Need::Fingerprint(claim.source.clone())],
            ..plan(SlotState::Outdated)
        };
    };
    let is_ours = existing
        .filter(|facts| !facts.owned && proof == Some(Proof::Ours) && world.fingerprint(slot).is_none());
    if is_ours.is_some_and(|facts| alike.is_in_order(claim, facts)) {
        return SlotPlan { action: unmark(existing), ..plan(SlotState::Current) };
    }
    let intent = Intent::new(claim, slot, source, print, key, world.settings().default_grace);
    alike.learn(claim, slot, &intent);
    let verdict = match existing {
        None => Verdict::Write { surplus: Vec::new(), take_over: None, anew: false },
        Some(facts) => match judge(world, slot, claim, facts, proof, &intent) {
            Verdict::InOrder if facts.owned => {
                Verdict::Write { surplus: Vec::new(), take_over: None, anew: false }
            }
            verdict => verdict,
        },
    };
    let disown = existing.is_some_and(|facts| facts.owned);
    match verdict {
        Verdict::Unknown => {
            SlotPlan { needs: vec![Need::Fingerprint(slot.clone())], ..plan(SlotState::Outdated) }
        }
        Verdict::InOrder => SlotPlan { action: unmark(existing), ..plan(SlotState::Current) },
        Verdict::Blocked(problem) => plan(SlotState::Blocked(problem)),
        Verdict::Write { surplus, take_over, anew } => {
            if (existing.is_none() || take_over.is_some())
                && let Some(copies) = too_many(world, claim.rule, claim.compiled)
            {
                let message = too_many_said(world, copies);
                return plan(SlotState::Blocked(problem(slot, "TooMany", &message)));
            }
            if let Some(message) = too_large(world, claim, print) {
                let state = SlotState::Blocked(problem(slot, "TooLarge", &message));
                // Namespaces come and go, and nobody tells the slots of the others.
                return SlotPlan {
                    action: unmark(existing.filter(|_| take_over.is_none())),
                    recheck: Some(at_after(now, AGAIN)),
                    ..plan(state)
                };
            }
            if let Some((problem, until)) = held(world, slot, existing, &intent, now) {
                return SlotPlan { recheck: Some(until), ..plan(SlotState::Blocked(problem)) };
            }
            let follows = follows(existing.filter(|_| take_over.is_none() && !disown), &intent.marks);
            if let Some(until) = braked(world, &claim.source, follows.as_ref(), now) {
                let action = unmark(existing);
                return SlotPlan { action, recheck: Some(until), ..plan(SlotState::Braked(until)) };
            }
            let refused = last_attempt(world, slot, existing, &intent);
            let state = refused
                .filter(|last| !last.replace)
                .map_or(SlotState::Outdated, |last| SlotState::Blocked(refused_problem(slot, last)));
            let anew = anew || (existing.is_some() && refused.is_some_and(|last| last.replace));
            let write = CopyWrite {
                source: claim.source.clone(),
                source_version: Version::of(source),
                intent,
                replaces: existing.map(Version::of),
                disown,
                surplus,
                take_over,
                anew,
                follows,
                definition: world
                    .definition()
                    .filter(|_| claim.rule.annotated().is_none())
                    .map(|definition| definition.uid.clone()),
            };
            SlotPlan { action: Some(CopyAction::Write(Box::new(write))), ..plan(state) }
        }
    }
}

/// A copy that somebody wants again goes without its removal mark.
fn unmark(existing: Option<&ObjectFacts>) -> Option<CopyAction> {
    let facts =
        existing.filter(|facts| facts.marks.as_deref().is_some_and(|it| it.remove_after.is_some()))?;
    Some(CopyAction::Unmark(Version::of(facts)))
}

enum Verdict {
    InOrder,
    Write { surplus: Vec<ForeignField>, take_over: Option<Vec<ForeignField>>, anew: bool },
    Blocked(Problem),
    Unknown,
}

/// Whether an existing object is the copy we mean, from metadata where possible, and by content when in doubt
/// or where it is known anyway.
fn judge(
    world: &World,
    slot: &ObjectKey,
    claim: &Claim<'_>,
    facts: &ObjectFacts,
    proof: Option<Proof>,
    intent: &Intent,
) -> Verdict {
    if proof.is_none_or(|proof| proof == Proof::Forged) {
        return judge_foreign(world, slot, claim.compiled.conflict, facts, intent);
    }
    let same_marks = facts.marks.as_ref().is_some_and(|marks| marks.same_but_for_removal(&intent.marks))
        && intent.same_labels(facts);
    let ownership = facts.ownership.as_deref();
    // Without our entry managedFields have been emptied, and say nothing of who wrote what.
    let untouched = ownership.is_some_and(|owned| owned.ours.is_some() && owned.foreign.is_empty());
    let covered = ownership.is_some_and(|owned| owned.ours == Some(intent.field_set(slot.kind)));
    let print = world.fingerprint(slot);
    let anew = print.is_some_and(|print| intent.needs_replacing(print));
    if untouched && !same_marks {
        return Verdict::Write { surplus: Vec::new(), take_over: None, anew };
    }
    match print {
        None if untouched && covered => Verdict::InOrder,
        // Somebody else wrote here: only the content tells.
        None => Verdict::Unknown,
        Some(print) if same_marks && intent.same_content(print) && intent.same_meta(facts, print) => {
            Verdict::InOrder
        }
        Some(print) => Verdict::Write { surplus: intent.surplus(slot.kind, print), take_over: None, anew },
    }
}

fn judge_foreign(
    world: &World,
    slot: &ObjectKey,
    policy: ConflictPolicy,
    facts: &ObjectFacts,
    intent: &Intent,
) -> Verdict {
    let blocked = |message: &str| Verdict::Blocked(problem(slot, "Conflict", message));
    if policy == ConflictPolicy::Refuse {
        return blocked(
            "an object that Copyrator did not make is in the way: remove or rename it, exclude the namespace, \
             or set conflictPolicy",
        );
    }
    // Two sources that were copied over each other would both be copies of nothing, and be removed.
    if let Some(rule) = copied_by(world, slot, facts) {
        if world.rules().get(rule).is_some_and(|facts| facts.compiled.is_err()) {
            return blocked(&format!(
                "the object in the way may be a source of rule {rule}, which is not valid, and a source is never \
                 written, whatever conflictPolicy says: correct or delete that rule, or exclude the namespace"
            ));
        }
        return blocked(&format!(
            "the object in the way is itself a source of rule {rule}, and a source is never written, whatever \
             conflictPolicy says: exclude the namespace, or leave the object out of that rule's sources"
        ));
    }
    let Some(print) = world.fingerprint(slot) else { return Verdict::Unknown };
    if policy == ConflictPolicy::Adopt && !intent.same_content(print) {
        return blocked(
            "an object that Copyrator did not make is in the way, and its content differs, so that conflictPolicy \
             Adopt leaves it: make the contents equal, or set conflictPolicy: Overwrite",
        );
    }
    let anew = intent.needs_replacing(print);
    Verdict::Write { surplus: Vec::new(), take_over: Some(fields_of(slot.kind, print)), anew }
}

/// An object that was deleted a while ago and is still there: nothing that lasts can be written to it, and
/// nothing in its place.
fn terminating(slot: &ObjectKey, deletion: &Deletion) -> Problem {
    let kept = match deletion.finalizers.as_slice() {
        [] => "something".to_owned(),
        names => format!("finalizer {}", names.join(", ")),
    };
    let kind = slot.kind.to_string().to_lowercase();
    let message = format!(
        "the object here was deleted at {}, and {kept} keeps it, with the content that it had: have the controller \
         behind the finalizer finish, or take the finalizers off (kubectl -n {} patch {kind} {} --type merge -p \
         '{{\"metadata\":{{\"finalizers\":null}}}}'); the copy is made anew once the object is gone",
        deletion.since, slot.namespace, slot.name
    );
    problem(slot, "Terminating", &message)
}

/// A problem of one slot.
pub(super) fn problem(slot: &ObjectKey, reason: &str, message: &str) -> Problem {
    Problem {
        namespace: slot.namespace.to_string(),
        name: slot.name.to_string(),
        reason: reason.into(),
        message: message.into(),
    }
}
