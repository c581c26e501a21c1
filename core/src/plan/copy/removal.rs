//! Plans orphaned copies: two visible steps delete a copy, if all needed facts are known and the rule's
//! identity may delete the copy.
//!
//! The rule's current spec decides about an orphaned copy, if the API server was asked whether the rule's
//! identity may delete copies of the kind in the namespace. Elsewhere, the gentler of the spec and the copy's
//! own mark decides, and the API server is asked about the deletion. Otherwise a user who may edit a rule
//! could delete or release copies that other users meant to stay (docs/decisions/removal.md).
//!
//! An adopted object existed before its rule, and is always released
//! (docs/decisions/conflicts-and-replacement.md).

use std::time::Duration;

use jiff::Timestamp;

use super::{
    claims::{is_anothers, proof},
    hold::AGAIN,
    inert::{Inert, inert, inert_template},
    problem::{CopyProblem, ProblemReason},
    rights::{Heard, heard},
    slot_plan::{CopyAction, SlotPlan, SlotState, Version},
    successor::{Awaited, awaited},
    targets::was_asked_about,
    templates::{OfInstance, asks_about, is_rendered, of_instance},
    terminating::plan_terminating,
    unreadable::unread_of_copy,
};
use crate::{
    marks::{CopyMarks, DEFINITION, OnRemoval, Proof, RULE_LABEL, rule_label, write_time},
    model::{Attempt, Declaration, Definition, InstancesRead, ObjectFacts, Right, World, WriteFault},
    names::{Declarer, Kind, ObjectKey},
    plan::{Need, at_after, at_before},
    validate::keeps_data,
};

/// When to plan again while a watch fails, of our own kinds or of kinds that are granted to templates.
const IN_DOUBT: Duration = Duration::from_secs(5);

/// Plans a slot that no rule claims.
pub(super) fn plan_unwanted(
    world: &World,
    slot: &ObjectKey,
    existing: Option<&ObjectFacts>,
    now: Timestamp,
) -> SlotPlan {
    let plan = |state| SlotPlan::rest(None, state);
    let Some((facts, marks)) = existing.and_then(|facts| Some((facts, facts.marks.as_deref()?))) else {
        return plan(SlotState::Nothing);
    };
    match proof(world, slot, facts) {
        Some(Proof::Forged) => return plan(SlotState::Nothing),
        // A deletion needs verified marks. If the key of digests is lost, a person must decide.
        Some(Proof::UnknownKey) | None => return plan(SlotState::Kept),
        Some(Proof::Ours) => {}
    }
    let goes_anyway = world.namespaces().get(&slot.namespace).is_none_or(|namespace| namespace.terminating);
    let is_known = world.is_complete() && world.granted_read(slot.kind).is_known();
    if goes_anyway || is_anothers(world, &marks.rule) || !is_known {
        return plan(SlotState::Kept);
    }
    if let Some(deletion) = facts.deletion.as_deref() {
        let declared = declared_here(world, &marks.rule, slot);
        let is_told = matches!(declared, Some(DeclaredRemoval::Known { .. }));
        return match is_told && holds_back(world, &marks.rule).is_none() {
            true => {
                let noun = if marks.rule.as_template().is_some() { "template" } else { "rule" };
                let then = format!("the {noun} does not want this object any more");
                plan_terminating(&marks.rule, slot, deletion, SlotState::Kept, &then, now)
            }
            // A deleted rule has no status, and an inert rule may still want the copy.
            false => plan(SlotState::Kept),
        };
    }
    if let Some(problem) = unread_of_copy(world, slot, marks) {
        return SlotPlan { rule: Some(marks.rule.clone()), ..plan(SlotState::Blocked(problem)) };
    }
    if world.is_in_doubt() || is_doubtful(world, &marks.rule, slot.kind) {
        return SlotPlan { recheck: Some(at_after(now, IN_DOUBT)), ..plan(SlotState::Kept) };
    }
    if let Some(why) = holds_back(world, &marks.rule) {
        return SlotPlan { rule: Some(marks.rule.clone()), ..plan(SlotState::Inert(why)) };
    }
    let remove_after = marks.remove_after.or_else(|| unmarked_until(world, slot));
    // A deleted rule has no identity to ask about, so the mark on the copy decides.
    let own_word = marks.on_removal.unwrap_or(OnRemoval::Retain);
    let Some(declared) = declared_here(world, &marks.rule, slot) else {
        if let Some(definition) = unseen_under(world, &marks.rule, facts) {
            let problem = CopyProblem::new(slot, ProblemReason::Held, held(world, &marks.rule, definition));
            return SlotPlan { rule: Some(marks.rule.clone()), ..plan(SlotState::Blocked(problem)) };
        }
        let way = way_of(world, slot, facts, own_word);
        return way
            .map_or_else(|| plan(SlotState::Kept), |way| leave(way, facts, &marks.rule, remove_after, now));
    };
    let DeclaredRemoval::Known { word, was_asked } = declared else { return plan(SlotState::Kept) };
    let word = if own_word == OnRemoval::Adopted { own_word } else { word };
    // The object's own removal policy overrides the template's policy, except for the grace period.
    let gentle = if was_asked || marks.own_removal { word } else { word.or_gentler(own_word) };
    let Some(way) = way_of(world, slot, facts, gentle) else { return plan(SlotState::Kept) };
    let left = leave(way, facts, &marks.rule, remove_after, now);
    if let Some(CopyAction::Delete(_)) = left.action
        && let Some(Awaited { slot: other, why, again }) =
            awaited(world, slot, marks, remove_after.map(|after| at_before(after, way.grace())))
    {
        let kept = |why| format!("kept, because its replacement {other} does not exist yet: {why}");
        let problem = why.map(|why| CopyProblem::fault(slot, WriteFault::Refused, kept(why)));
        let state = problem.map_or(left.state, SlotState::Blocked);
        return SlotPlan { recheck: Some(at_after(now, again)), ..SlotPlan::rest(Some(&marks.rule), state) };
    }
    if was_asked || left.action.is_none() { left } else { allowed(world, slot, &marks.rule, left, now) }
}

/// How an orphaned object is removed.
#[derive(Clone, Copy)]
enum Way {
    /// The object is removed by the removal policy of its rule, template or mark.
    Said(OnRemoval),
    /// The object stays, and keeps its marks for this long, in case a label, an edit or an instance comes
    /// back.
    Stays(Duration),
    /// The object stays, since its source is gone, and keeps its marks for this long, for a recreated source.
    Waits(Duration),
}

impl Way {
    fn grace(self) -> Duration {
        match self {
            Self::Said(OnRemoval::Delete(grace)) | Self::Stays(grace) | Self::Waits(grace) => grace,
            Self::Said(OnRemoval::Retain | OnRemoval::Adopted) => Duration::ZERO,
        }
    }
}

/// How an unwanted object is removed under this declared policy; `None` if Kubernetes deletes the object.
fn way_of(world: &World, slot: &ObjectKey, facts: &ObjectFacts, word: OnRemoval) -> Option<Way> {
    let marks = facts.marks.as_deref()?;
    let of_object = own_word(slot.kind, marks);
    let grace = match word {
        OnRemoval::Delete(grace) => grace,
        OnRemoval::Retain | OnRemoval::Adopted => world.settings().default_grace,
    };
    let way = match of_object {
        Some(OnRemoval::Retain) if keeps_data(slot.kind.resource().kind) => Way::Stays(grace),
        Some(own) => Way::Said(own),
        None => Way::Said(word),
    };
    let template = world.templates().get(&marks.rule).and_then(|it| it.compiled.as_deref().ok());
    match template.map(|compiled| of_instance(world, compiled, slot, facts)) {
        Some(OfInstance::Orphaning) => Some(Way::Stays(grace)),
        // Kubernetes deletes the object, even if the object would stay once its template no longer declared
        // it.
        Some(OfInstance::Gone) if of_object == Some(OnRemoval::Retain) => None,
        Some(OfInstance::Gone | OfInstance::There) | None => Some(way),
    }
    .map(|way| match way {
        // If the copy's own mark says `Delete`, a removal mark would allow deleting the copy once the rule is
        // gone.
        Way::Said(OnRemoval::Retain | OnRemoval::Adopted)
            if marks.on_removal.is_none_or(stays_by) && lost_source(world, marks) =>
        {
            Way::Waits(grace)
        }
        way => way,
    })
}

/// Whether the source of a copy is gone, and the copy's rule still exists. A rule that was deleted, or that
/// no longer targets the namespace, is a decision; a source that is deleted and created again looks the same
/// for a moment.
fn lost_source(world: &World, marks: &CopyMarks) -> bool {
    let compiled = world.rules().get(&marks.rule).and_then(|facts| facts.compiled.as_deref().ok());
    compiled.is_some_and(|compiled| {
        let source = &marks.source;
        world.object(&ObjectKey::new(compiled.kind, source.namespace.clone(), source.name.clone())).is_none()
    })
}

fn stays_by(word: OnRemoval) -> bool {
    matches!(word, OnRemoval::Retain | OnRemoval::Adopted)
}

/// Whether an unwanted object stays as an ordinary object after its grace period.
pub fn stays(world: &World, slot: &ObjectKey) -> bool {
    let facts = world.object(slot);
    let way = facts.and_then(|facts| {
        let word = facts.marks.as_deref()?.on_removal.unwrap_or(OnRemoval::Retain);
        way_of(world, slot, facts, word)
    });
    matches!(way, Some(Way::Stays(_) | Way::Waits(_)))
}

/// The removal policy of this object alone, from its own `deletionPolicy`, or because the object holds data.
fn own_word(kind: Kind, marks: &CopyMarks) -> Option<OnRemoval> {
    marks.rule.as_template()?;
    match marks.own_removal {
        true => marks.on_removal,
        // An earlier version of ours, which did not know such policies, may have written the mark.
        false => keeps_data(kind.resource().kind).then_some(OnRemoval::Retain),
    }
}

/// Whether the watch of this kind, or of the template's instances, has failed: an unwanted object may still
/// be wanted.
fn is_doubtful(world: &World, rule: &Declarer, kind: Kind) -> bool {
    let template = world.templates().get(rule).and_then(|facts| facts.compiled.as_deref().ok());
    let instances = template.and_then(|compiled| compiled.instance_kind());
    world.granted_read(kind) == InstancesRead::Doubtful
        || instances.is_some_and(|kind| world.instances_read(kind) == InstancesRead::Doubtful)
}

/// The removal policy that the rule or template of an unwanted object declares.
enum DeclaredRemoval {
    /// The template's current objects for the slot's instance are not known yet.
    Unknown,
    /// The policy, and whether the API server was asked about the deletion when the spec was written.
    Known { word: OnRemoval, was_asked: bool },
}

/// Returns the declared removal policy for a slot; `None` if the rule or template is gone.
fn declared_here(world: &World, name: &Declarer, slot: &ObjectKey) -> Option<DeclaredRemoval> {
    let default = world.settings().default_grace;
    match world.declaration(name)? {
        Declaration::Rule(facts) => {
            let compiled = facts.compiled.as_deref().ok()?;
            let word = OnRemoval::new(compiled.deletion, compiled.grace.unwrap_or(default));
            Some(DeclaredRemoval::Known { word, was_asked: was_asked_about(world, name, compiled, slot) })
        }
        Declaration::Template(facts) => {
            let compiled = facts.compiled.as_deref().ok()?;
            if !is_rendered(world, name, facts, slot) {
                return Some(DeclaredRemoval::Unknown);
            }
            let word = OnRemoval::new(compiled.deletion, compiled.grace.unwrap_or(default));
            Some(DeclaredRemoval::Known { word, was_asked: asks_about(name, compiled, slot) })
        }
    }
}

/// Plans an orphaned copy by the removal policy of its mark or rule.
fn leave(
    way: Way,
    facts: &ObjectFacts,
    rule: &Declarer,
    remove_after: Option<Timestamp>,
    now: Timestamp,
) -> SlotPlan {
    let version = Version::of(facts);
    let plan = |action, state| SlotPlan { action, ..SlotPlan::rest(Some(rule), state) };
    let released = || plan(Some(CopyAction::Release(version.clone())), SlotState::Kept);
    let (grace, stays, mark): (_, _, fn(_, _) -> _) = match way {
        Way::Said(OnRemoval::Retain | OnRemoval::Adopted) => return released(),
        Way::Said(OnRemoval::Delete(grace)) => (grace, false, CopyAction::MarkRemoval),
        Way::Stays(grace) => (grace, true, CopyAction::MarkStaying),
        Way::Waits(grace) => (grace, true, CopyAction::MarkRemoval),
    };
    let over =
        if grace.is_zero() { Some(None) } else { remove_after.filter(|after| *after <= now).map(Some) };
    match (over, remove_after) {
        (Some(_), _) if stays => released(),
        (Some(after), _) => plan(Some(CopyAction::Delete(version)), SlotState::Leaving(after)),
        (None, None) => {
            let after = at_after(now, grace);
            plan(Some(mark(version, after)), SlotState::Leaving(Some(after)))
        }
        (None, Some(after)) => {
            SlotPlan { recheck: Some(after), ..plan(None, SlotState::Leaving(Some(after))) }
        }
    }
}

/// The attempt to remember after a failed mark of an orphaned object; `None` if a later attempt may succeed.
///
/// RBAC refuses every change of a RoleBinding by an account that may not bind its role, even of annotations.
/// The API server refuses a mark on an object whose annotations already have 256 KiB. A deletion needs only
/// the right to `delete`. So the reconciler keeps the grace period in memory, from the first try on, and
/// deletes the object without a mark.
pub(super) fn unmarked(
    world: &World,
    slot: &ObjectKey,
    after: Timestamp,
    reason: WriteFault,
    message: String,
) -> Option<Attempt> {
    let is_for_good = match reason {
        WriteFault::Forbidden => slot.kind == Kind::RoleBinding,
        WriteFault::TooLarge => true,
        // A webhook, or a quota, may answer differently soon.
        WriteFault::Failed
        | WriteFault::Refused
        | WriteFault::NoRoom
        | WriteFault::RoomHeld
        | WriteFault::Unfit
        | WriteFault::Mistyped
        | WriteFault::HeldBack
        | WriteFault::RefusedByPolicy
        | WriteFault::Conflict => false,
    };
    is_for_good.then(|| Attempt {
        version: world.object(slot).map(|facts| facts.edition().into()),
        digest: None,
        replace: false,
        reason,
        message,
        rule: None,
        since: after,
        retry_at: after,
        every: AGAIN,
        judged_by: None,
    })
}

/// When an object that could not be marked is deleted.
fn unmarked_until(world: &World, slot: &ObjectKey) -> Option<Timestamp> {
    let last = world.memory().slot(slot).attempt()?;
    last.digest.is_none().then_some(last.retry_at)
}

/// Returns the same plan if the rule's identity may delete copies of this kind in the namespace. Otherwise
/// the copy stays unchanged, with its marks: without the marks, everybody could edit the copy.
fn allowed(world: &World, slot: &ObjectKey, rule: &Declarer, plan: SlotPlan, now: Timestamp) -> SlotPlan {
    let right = Right::Delete(slot.kind);
    match heard(world, rule, &right, &slot.namespace, now) {
        Heard::Yes => plan,
        Heard::No { refusal, asked } => {
            let (noun, object) =
                if rule.as_template().is_some() { ("template", "object") } else { ("rule", "copy") };
            let message = format!(
                "the {noun}'s spec does not cover this {object} any more, but Copyrator may not delete the {object}, because {refusal}; \
                 or let a user with the right write the {noun}"
            );
            SlotPlan {
                state: SlotState::Blocked(CopyProblem::fault(slot, WriteFault::Forbidden, message)),
                action: None,
                recheck: Some(at_after(asked, AGAIN)),
                ..plan
            }
        }
        Heard::Nothing => SlotPlan {
            state: SlotState::Kept,
            action: None,
            needs: vec![Need::Right(rule.clone(), right, slot.namespace.clone())],
            ..plan
        },
    }
}

/// The current CustomResourceDefinition of rules, if this copy's rule was never seen under that definition:
/// the copy was written before the definition was created, and no user has confirmed the copy since. The time
/// of the write counts only for copies of an earlier version of ours, since a user can change this time.
pub(super) fn unseen_under<'w>(
    world: &'w World,
    rule: &Declarer,
    copy: &ObjectFacts,
) -> Option<&'w Definition> {
    world.definition_of(rule).filter(|definition| is_unseen_under(definition, rule, copy))
}

/// Like [`unseen_under`], for any definition.
pub fn is_unseen_under(definition: &Definition, rule: &Declarer, copy: &ObjectFacts) -> bool {
    let is_of_it = match copy.marks.as_deref().and_then(|marks| marks.definition.as_deref()) {
        Some(uid) => *uid == *definition.uid,
        None => {
            let written = copy.ownership.as_deref().and_then(|owned| owned.written);
            written.is_some_and(|written| written > definition.created)
        }
    };
    rule.as_annotated().is_none() && !is_of_it
}

fn held(world: &World, rule: &Declarer, definition: &Definition) -> String {
    let (what, plural) = match rule.as_template() {
        Some(_) => ("template", "copyratortemplates"),
        None => ("rule", "copyratorrules"),
    };
    format!(
        "{} has not existed since CustomResourceDefinition {plural}.copyrator.dev was created again at {}: restore the {what}, or release \
         its copies: {}",
        rule.said(),
        write_time(definition.created),
        let_go(served(world), &places(world), Some(rule), &definition.uid)
    )
}

/// The kinds that Copyrator writes and that the API server serves: kubectl refuses a command with any other
/// kind.
pub fn served(world: &World) -> impl Iterator<Item = Kind> {
    let kinds = world.settings().copied_kinds();
    kinds.filter(|kind| world.granted_read(*kind) != InstancesRead::NotServed)
}

/// The namespaces that Copyrator reads; empty if it reads all namespaces.
pub fn places(world: &World) -> Vec<&str> {
    let scope = world.namespace_scope().filter(|scope| scope.is_all());
    scope.into_iter().flat_map(|scope| scope.names()).map(|name| &**name).collect()
}

/// The shell command that releases copies of missing rules, of one rule or of all: the command notes on each
/// copy that its rule was seen under this definition. `places` are the namespaces that Copyrator reads, if it
/// does not read all: other namespaces may have copies of another installation.
pub fn let_go(
    kinds: impl IntoIterator<Item = Kind>,
    places: &[&str],
    rule: Option<&Declarer>,
    definition: &str,
) -> String {
    let name = |kind: Kind| match kind {
        // Different groups may have the same plural.
        Kind::Granted(kind) => kind.resource().qualified(),
        known => known.resource().plural.to_owned(),
    };
    let kinds: Vec<String> = kinds.into_iter().map(name).collect();
    let label =
        rule.map_or_else(|| RULE_LABEL.to_owned(), |rule| format!("{RULE_LABEL}={}", rule_label(rule)));
    let annotate = |place: &str| {
        format!(
            "kubectl annotate {} {place} -l {label} --overwrite {DEFINITION}={definition}",
            kinds.join(",")
        )
    };
    match places {
        [] => annotate("-A"),
        [one] => annotate(&format!("-n {one}")),
        several => format!("for n in {}; do {}; done", several.join(" "), annotate("-n $n")),
    }
}

/// Why an inert rule removes no copies: an invalid spec does not determine which copies are orphaned.
fn holds_back(world: &World, rule: &Declarer) -> Option<Inert> {
    match world.declaration(rule)? {
        Declaration::Rule(facts) => inert(world, rule, facts),
        Declaration::Template(facts) => inert_template(world, rule, facts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Ownership;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A copy by an earlier version of ours, without a noted definition.
    fn copy(written: Option<i64>) -> ObjectFacts {
        ObjectFacts {
            uid: "u".into(),
            resource_version: "1".into(),
            labels: Default::default(),
            deletion: None,
            created: jiff::Timestamp::UNIX_EPOCH,
            owners: 0,
            changed_at: at(0),
            content_fields: 0,
            restart: None,
            marks: None,
            ownership: Some(Ownership { written: written.map(at), ..Ownership::default() }.into()),
            examined: None,
            trace: Default::default(),
            seen: Default::default(),
        }
    }

    /// Another Copyrator may have copies in other namespaces, which this one must not release.
    #[test]
    fn the_command_that_lets_copies_go_is_about_the_namespaces_that_are_looked_at() {
        let command = |places: &[&str]| let_go([Kind::ConfigMap, Kind::Secret], places, None, "two");
        let of = |place| {
            format!(
                "kubectl annotate configmaps,secrets {place} -l copyrator.dev/rule --overwrite copyrator.dev/definition=two"
            )
        };
        assert_eq!(command(&[]), of("-A"));
        assert_eq!(command(&["shop"]), of("-n shop"));
        assert_eq!(command(&["shop", "web"]), format!("for n in shop web; do {}; done", of("-n $n")));
    }

    #[test]
    fn a_copy_that_names_no_definition_goes_by_when_it_was_written() {
        let definition = Definition { uid: "two".into(), created: at(100) };
        for (written, is_unseen) in [
            (Some(99), true),
            // Both times are in whole seconds, so at equal times the copy may be older than the definition.
            (Some(100), true),
            (Some(101), false),
            // Somebody has emptied managedFields.
            (None, true),
        ] {
            let seen = is_unseen_under(&definition, &Declarer::rule("home", "app"), &copy(written));
            assert_eq!(seen, is_unseen, "{written:?}");
        }
    }
}
