//! The outlook of each workload for people: its state at present, and its state after all waits that end by
//! time. The planner makes all decisions; this file only describes them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    fields,
    foresee::Foreseen,
    restart_reason::RestartReason,
    restartable::{RestartCause, Restartable},
    said::{About, said, waits_for},
};
use crate::{
    api::StrategyType,
    marks::write_time,
    model::{WaitReason, WorkloadFacts, World},
    names::{Declarer, ObjectKey, WorkloadKey},
    plan::restart::{
        Concern, Inputs, RestartAction, RestartState, SelectedPodsPlan, Wait, WorkloadPlan, misspelt,
        reach::{annotated, declared_reach},
        workloads_using,
    },
    validate::CompiledMonitor,
};

/// What becomes of a workload when every wait is over that the clock ends; the worst first. It is read off the plan for that
/// time, and does not say how the workload stands now: that is [`RestartState`], which alone has sentences
/// (docs/decisions/statuses-and-events.md). For copies, [`super::Course`] is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RestartCourse {
    /// Nothing, though it is due: it is refused.
    Refuse,
    /// It cannot be told.
    Unknown,
    /// A person has to do something first.
    Hold,
    /// It restarts, now or when the clock says.
    Restart,
    /// It restarts, or is decided about, when something has happened.
    Wait,
    /// Only the record of what it runs with is written.
    Record,
    /// It uses what changes, and does not restart.
    Unaffected,
    /// It runs the current content.
    Current,
}

/// How something stands, and what becomes of it; as JSON, a row.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RestartRow")]
pub struct RestartOutlook {
    /// What becomes of it.
    #[serde(rename = "action")]
    pub course: RestartCourse,
    /// How it stands now.
    #[schemars(with = "String")]
    pub state: RestartState,
    /// The workload, or the pods, that this is about.
    #[serde(flatten)]
    pub of: Restartable,
    /// The word for why.
    #[schemars(with = "String")]
    pub reason: RestartReason,
    /// Why, and what to do about it. May be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it restarts, or when it is looked at again; `None` where only an event tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub at: Option<Timestamp>,
    /// How it restarts, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyType>,
    /// The objects that have changed since what runs was recorded, where it is due.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<RestartCause>,
    /// The monitors that ask for its restarts, in its own namespace.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "fields::names")]
    #[schemars(with = "Vec<String>")]
    pub monitors: Vec<Declarer>,
    /// Its own annotation asks for them.
    pub by_annotation: bool,
    /// The record of what it runs with, a keyed digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
    /// The record that it would have with the current content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
}

/// The facts that outlooks need beside the plans.
#[derive(Debug, Default)]
pub struct Around {
    /// The record that each workload would get before the change.
    pub before: BTreeMap<WorkloadKey, String>,
    /// The objects that change.
    pub changed: BTreeSet<ObjectKey>,
    /// The workloads and pods whose outlook is unknown, with reason and message.
    pub blind: BTreeMap<Restartable, (RestartReason, String)>,
}

/// The record that each of these workloads would get now. Leaves out workloads that are not watched or whose
/// content is not known.
pub fn records(world: &World, keys: &BTreeSet<WorkloadKey>) -> BTreeMap<WorkloadKey, String> {
    let record = |key: &WorkloadKey| Some((key.clone(), wanted(world, key)?));
    keys.iter().filter_map(record).collect()
}

/// The record that a workload would get now; `None` if the workload is not watched, or its content is not
/// known.
fn wanted(world: &World, key: &WorkloadKey) -> Option<String> {
    let inputs = Inputs::of(world, key, world.workloads().get(key)?);
    let is_watched = inputs.pace.is_some() && !(inputs.objects.is_empty() && inputs.missing.is_empty());
    let content = inputs.content(world, world.key().filter(|_| is_watched)?)?;
    Some(content.label())
}

/// The outlook of a workload; `None` if no monitor or annotation declares its restarts, and no object that
/// the workload uses changes.
pub fn workload_outlook(
    world: &World,
    key: &WorkloadKey,
    foreseen: &Foreseen<WorkloadPlan>,
    around: &Around,
) -> Option<RestartOutlook> {
    let facts = world.workloads().get(key)?;
    let inputs = Inputs::of(world, key, facts);
    let is_used = |object: &&ObjectKey| {
        object.namespace == key.namespace
            && (refers(facts, object) || workloads_using(world, object).contains(key))
    };
    let uses = around.changed.iter().find(is_used);
    let mut outlook = RestartOutlook {
        of: Restartable::Workload(key.clone()),
        state: foreseen.now.state.clone(),
        course: RestartCourse::Current,
        reason: RestartReason::State(foreseen.now.state.clone()),
        message: String::new(),
        at: None,
        strategy: None,
        causes: RestartCause::all(world, &foreseen.then.causes),
        by_annotation: inputs.by_annotation,
        monitors: inputs.monitors.iter().cloned().collect(),
        running: facts.restarts.applied.clone(),
        wanted: wanted(world, key),
    };
    if let Some(why) = around.blind.get(&outlook.of) {
        return Some(outlook.unknown(why));
    }
    if foreseen.now.state == RestartState::Unwatched {
        let exempted =
            uses.filter(|_| is_asked_for(world, key, facts)).and_then(|object| exempt(world, object));
        let said = exempted.or_else(|| unwatched(world, key, facts));
        let (reason, message) = said.or_else(|| uses.map(|_| not_asked()))?;
        let course = if uses.is_some() { RestartCourse::Unaffected } else { RestartCourse::Current };
        return Some(outlook.told((course, reason, message)));
    }
    let about = About::workload(world, &inputs, &foreseen.then.causes);
    let told = told(foreseen, facts, &about);
    if let Some(object) = uses.filter(|_| told.0 == RestartCourse::Current) {
        let before = around.before.get(key);
        let (reason, message) =
            unaffected(world, object, before.is_some() && before == outlook.wanted.as_ref());
        return Some(outlook.told((RestartCourse::Unaffected, reason, message)));
    }
    if told.0 == RestartCourse::Restart {
        outlook.strategy = inputs.pace.map(|pace| pace.strategy);
        outlook.at = Some(foreseen.at);
    } else if let Some(wait) = foreseen.then.state.wait() {
        outlook.at = wait.until;
    }
    let outlook = outlook.told(told);
    Some(match outlook.state {
        RestartState::Current if outlook.course == RestartCourse::Current => RestartOutlook {
            message: taken_for_current(world, &inputs, facts).unwrap_or_default(),
            ..outlook
        },
        _ => outlook,
    })
}

/// The outlook of the pods that a monitor itself selects; `None` if the monitor selects none.
pub fn pods_outlook(
    world: &World,
    monitor: &Declarer,
    foreseen: &Foreseen<SelectedPodsPlan>,
    around: &Around,
) -> Option<RestartOutlook> {
    let facts = world.monitors().get(monitor)?;
    let compiled = facts.compiled.as_ref().ok()?;
    let then = &foreseen.then;
    let about = About::pods(world, monitor, &then.causes);
    let (course, reason, message) = match (&then.action, &then.state) {
        _ if !then.needs.is_empty() => unread(),
        (None, RestartState::Unwatched) => return None,
        // The first step records that the pods will be removed.
        (Some(_), RestartState::Due) => restarts(&foreseen.waits, &about),
        (_, state) => stands(state, &about),
    };
    let is_restart = course == RestartCourse::Restart;
    let inputs = Inputs::of_monitor(world, monitor, compiled);
    let content = world.key().and_then(|key| inputs.content(world, key));
    let outlook = RestartOutlook {
        of: Restartable::Pods(monitor.clone()),
        state: foreseen.now.state.clone(),
        course,
        reason,
        message,
        at: is_restart.then_some(foreseen.at),
        strategy: is_restart.then_some(compiled.strategy),
        causes: RestartCause::all(world, &then.causes),
        monitors: vec![monitor.clone()],
        by_annotation: false,
        running: facts.status.as_ref().and_then(|status| status.pods_applied.clone()),
        wanted: content.map(|content| content.label()),
    };
    match around.blind.get(&outlook.of) {
        Some(why) => Some(outlook.unknown(why)),
        None => Some(outlook),
    }
}

impl RestartOutlook {
    /// Whether a restart is due or will not happen, and the problem does not resolve itself in time.
    pub fn is_worrying(&self) -> bool {
        self.state.concern() == Concern::Worrying
    }

    fn unknown(self, (reason, message): &(RestartReason, String)) -> Self {
        let state = Wait::for_event(WaitReason::Facts).into();
        let outlook = Self { state, wanted: None, ..self };
        outlook.told((RestartCourse::Unknown, reason.clone(), message.clone()))
    }

    fn told(self, (course, reason, message): Told) -> Self {
        Self { course, reason, message, ..self }
    }
}

/// The course, the reason, and the message of an outlook.
type Told = (RestartCourse, RestartReason, String);

/// Returns the course of a workload, with reason and message.
fn told(foreseen: &Foreseen<WorkloadPlan>, facts: &WorkloadFacts, about: &About<'_>) -> Told {
    let then = &foreseen.then;
    match (&then.action, &then.state) {
        _ if !then.needs.is_empty() => unread(),
        (Some(RestartAction::Adopt { .. }), _) => {
            let (reason, message) = match (then.due_since, &facts.restarts.applied) {
                (Some(_), _) => {
                    let message = "every pod is newer than the change: Copyrator only updates its record";
                    (RestartReason::PodsYounger, message.into())
                }
                (None, None) => {
                    (RestartReason::New, "Copyrator sees the workload for the first time and assumes that its pods run the current \
                     content".into())
                }
                (None, Some(_)) => because(RestartState::Unrecorded, about),
            };
            (RestartCourse::Record, reason, message)
        }
        (Some(_), _) => restarts(&foreseen.waits, about),
        (None, state) => stands(state, about),
    }
}

/// The message for a workload that Copyrator adopted as current although the content was written after the
/// pod template: it is unknown which content its pods began with.
fn taken_for_current(world: &World, inputs: &Inputs<'_>, facts: &WorkloadFacts) -> Option<String> {
    let recorded = facts.restarts.recorded.filter(|_| facts.restarts.last_restart.is_none())?;
    let written = inputs.content(world, world.key()?)?.changed_at?;
    let is_doubtful = written <= recorded && facts.templated.is_none_or(|templated| templated < written);
    is_doubtful.then(|| {
        format!(
            "Copyrator first saw the workload at {} and assumed that its pods run the current content. The content was written at {}, \
             after the pod template: if pods are older than the content, run kubectl rollout restart",
            write_time(recorded),
            write_time(written)
        )
    })
}

/// Returns a state as the reason, with its sentence.
pub(super) fn because(state: RestartState, about: &About<'_>) -> (RestartReason, String) {
    let message = said(&state, about);
    (RestartReason::State(state), message)
}

fn stands(state: &RestartState, about: &About<'_>) -> Told {
    let (reason, message) = because(state.clone(), about);
    (course(state), reason, message)
}

/// The course of a state, once every wait that ends by time is over and the plan has no action.
fn course(state: &RestartState) -> RestartCourse {
    match state {
        RestartState::Failed(_) | RestartState::Unauthorized(_) => RestartCourse::Refuse,
        RestartState::Held { .. }
        | RestartState::TakenBack(_)
        | RestartState::Paused
        | RestartState::OptedOut => RestartCourse::Hold,
        RestartState::Due => RestartCourse::Restart,
        RestartState::Waiting(_) | RestartState::Restarting => RestartCourse::Wait,
        RestartState::Unrecorded => RestartCourse::Record,
        RestartState::Unwatched => RestartCourse::Unaffected,
        RestartState::Current => RestartCourse::Current,
    }
}

/// The outlook of a restart, whose reason is its first wait. If the restart waits for a window, the message
/// says how to skip the window.
fn restarts(waits: &[WaitReason], about: &About<'_>) -> Told {
    let due = said(&RestartState::Due, about);
    let message = match waits.contains(&WaitReason::Window) {
        true => format!("{due}; {}", waits_for(WaitReason::Window, about)),
        false => due,
    };
    let reason =
        waits.first().map_or(RestartReason::State(RestartState::Due), |wait| RestartReason::After(*wait));
    (RestartCourse::Restart, reason, message)
}

fn unread() -> Told {
    (
        RestartCourse::Unknown,
        RestartReason::Unread,
        "Copyrator could not read an object that this decision needs".into(),
    )
}

/// The reason and the sentence for a workload without a monitor or annotation.
pub(super) fn not_asked() -> (RestartReason, String) {
    because(RestartState::Unwatched, &About::nothing())
}

fn refers(facts: &WorkloadFacts, object: &ObjectKey) -> bool {
    facts.references.iter().any(|one| one.kind == object.kind && one.name == object.name)
}

/// Why a workload is not watched although a monitor or annotation declares its restarts.
pub(super) fn unwatched(
    world: &World,
    key: &WorkloadKey,
    facts: &WorkloadFacts,
) -> Option<(RestartReason, String)> {
    let reaching = world.monitors_in(&key.namespace).filter(|(_, monitor)| {
        monitor.compiled.as_ref().is_ok_and(|compiled| declared_reach(compiled, key, facts).is_some())
    });
    let mut suspended = reaching.filter(|(_, monitor)| monitor.spec.suspend);
    if let Some((monitor, _)) = suspended.next() {
        return Some((RestartReason::Suspended, format!("ConfigMonitor {monitor} is suspended")));
    }
    if facts.deleting {
        return None;
    }
    if let Some(what) = misspelt(facts).filter(|_| world.settings().annotations) {
        return Some((RestartReason::MalformedAnnotation, what));
    }
    annotated(world, facts)?;
    Some((
        RestartReason::NothingUsed,
        "the workload has the annotation for restarts, but uses no existing ConfigMap or Secret".into(),
    ))
}

/// Whether a monitor reaches the workload, or its own annotation declares restarts.
fn is_asked_for(world: &World, key: &WorkloadKey, facts: &WorkloadFacts) -> bool {
    let reaches =
        |compiled: &CompiledMonitor| !compiled.suspend && declared_reach(compiled, key, facts).is_some();
    let mut monitors = world.monitors_in(&key.namespace);
    annotated(world, facts).is_some()
        || monitors.any(|(_, monitor)| monitor.compiled.as_deref().is_ok_and(reaches))
}

/// Why a workload does not restart when an object that it uses changes.
fn unaffected(world: &World, object: &ObjectKey, counts_the_same: bool) -> (RestartReason, String) {
    let name = format!("{} {}", object.kind, object.name);
    exempt(world, object).unwrap_or_else(|| match counts_the_same {
        true => (RestartReason::KeyNotUsed, format!("the workload uses no key of {name} that changes")),
        false => (RestartReason::SameContent, format!("the workload already runs this content of {name}")),
    })
}

/// The reason, if the object's own annotation excludes the object from restarts.
pub(super) fn exempt(world: &World, object: &ObjectKey) -> Option<(RestartReason, String)> {
    let facts = world.object(object).filter(|_| world.settings().annotations)?;
    let says_no = facts.restart.as_deref() == Some("false");
    let message =
        || format!("{} {} has the annotation copyrator.dev/restart: \"false\"", object.kind, object.name);
    says_no.then(|| (RestartReason::Exempt, message()))
}
