//! Computes the status of a monitor.
//!
//! Reasons by condition. `Ready`: `Invalid`, `UnsupportedField` (a newer version wrote it), `Suspended`,
//! `AuthorityUnknown`, `IdentityRequired`, `Forbidden` and other reasons of a refusal, `NoObject` and
//! `NoWorkload` (no object to watch, or no workload to restart, exists yet), `Watching`, `Unread` (a list has
//! failed for long). `Authorized`: `Allowed`, or the reason of the refusal. `Stalled`: the reasons of `Ready`
//! that only a person ends, and `CircuitOpen`. `Restarting`: `Restarting`. `Degraded`, and problems:
//! `Forbidden`, `Refused`, `TooLarge`, `Failed`, `Unreadable`, `RolloutStuck`, `CircuitOpen`, `StageFailed`,
//! `TooManyBudgets` (failures), `StageStopped`, `DisruptionBudget`, `MissingObject`, `Paused`, `Suspended`,
//! `Held`, `TakenBack`, and after a while `RolloutUnfinished` and `PodsNotReady` (waits that a person may
//! have to end), `Invalid`.

use std::{cmp::Reverse, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    pulling::only_pulled,
    restartable::Restartable,
    said::{About, said},
};
use crate::{
    api::{ConfigMonitorStatus, Problem, WORST_PROBLEMS, WorkloadKind, set_condition, speaks_of},
    authority::NOT_ASKED,
    model::{ListName, MonitorFacts, Store, UnreadObject, WaitReason, World},
    names::{Declarer, NamespacedName, WorkloadKey},
    plan::{
        Need, Reason, at_after,
        copy::{ProblemReason, lists_said, unreadable_said},
        restart::{
            Failure, Inputs, Lines, RestartState, Wait, plan_in_line, plan_selected_pods, reach::standing,
            selects_pods, workloads_of,
        },
    },
    validate::{CompiledMonitor, CompiledWatch, SpecFault, WorkloadChoice},
};

/// How long a due restart waits for a rollout or for pods before the status reports the wait.
const LASTING: Duration = Duration::from_secs(300);

/// The report about a monitor: its status, and the failed workloads that stop other workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitorReport {
    /// The status that the monitor should have.
    pub status: ConfigMonitorStatus,
    /// Reason and message of `Ready`.
    pub ready: (Reason, String),
    /// The workloads that have failed with changed content, each with its problem. The status has room for
    /// only some of the workloads.
    pub stage_failed: Vec<(WorkloadKey, Problem)>,
}

/// Returns the status that a monitor should have, see [`monitor_report`].
pub fn monitor_status(world: &World, name: &Declarer, now: Timestamp) -> Option<ConfigMonitorStatus> {
    monitor_report(world, name, now).map(|report| report.status)
}

/// Returns the status that a monitor should have. `None` if the monitor is gone, if not all stores are listed
/// yet, or if we are about to ask the API server again for an answer that the status already has. `None` also
/// while content is being read: the status would report workloads that use the content as waiting, and a
/// moment later as not waiting. Unreadable content does not delay the status. The status lacks the record
/// `podsApplied`, since the writer of statuses may have an old record.
pub fn monitor_report(world: &World, name: &Declarer, now: Timestamp) -> Option<MonitorReport> {
    let facts = world.monitors().get(name)?;
    let is_of = |list: &ListName| {
        let of_workloads = WorkloadKind::ALL.into_iter().any(|kind| list.store == Store::restarting(kind));
        of_workloads
            || [Store::Namespaces, Store::ConfigMonitors, Store::ConfigMaps, Store::Secrets]
                .contains(&list.store)
    };
    let unread = lists_said(world, is_of, |place| **name.namespace() == *place);
    if !world.is_complete() || world.is_listing_data(name.namespace()) {
        let status = ConfigMonitorStatus { pods_applied: None, ..facts.status.clone().unwrap_or_default() };
        return unread.map(|said| outdated(status, facts.generation, said, Vec::new(), now));
    }
    let conditions = facts.status.as_ref().map_or(&[][..], |status| &status.conditions);
    if facts.compiled.is_ok()
        && standing(world, name, facts).is_none()
        && speaks_of(conditions, "Authorized", facts.generation)
    {
        return None;
    }
    let (mut count, lines) = (Count::default(), Lines::default());
    for key in workloads_of(world, name) {
        count.workload(world, &lines, name, &key, now);
    }
    count.pods(world, name, now);
    count.unreadable(world, name);
    let is_said = |status: &ConfigMonitorStatus| status.observed_generation == Some(facts.generation);
    if count.is_reading && facts.status.as_ref().is_some_and(is_said) {
        return None;
    }
    count.stage_stopped(name);
    let stage_failed = std::mem::take(&mut count.stage_failed);
    let (status, ready) = status(world, name, facts, count, now);
    Some(match unread.filter(|_| facts.compiled.is_ok()) {
        Some(said) => outdated(status, facts.generation, said, stage_failed, now),
        None => MonitorReport { status, ready, stage_failed },
    })
}

/// Returns the report if a list that the monitor depends on has failed for long.
fn outdated(
    mut status: ConfigMonitorStatus,
    generation: i64,
    said: (Reason, String),
    stage_failed: Vec<(WorkloadKey, Problem)>,
    now: Timestamp,
) -> MonitorReport {
    let ready = Some((false, said.0.as_str(), said.1.clone()));
    set_condition(&mut status.conditions, "Ready", ready, generation, &Time(now));
    MonitorReport { status, ready: said, stage_failed }
}

#[derive(Default)]
struct Count {
    workloads: i64,
    up_to_date: i64,
    restarting: i64,
    waiting: i64,
    failed: i64,
    /// The number of waiting and failed workloads whose circuit is open.
    circuits: i64,
    /// How many workloads wait because a different workload has failed.
    stopped: usize,
    /// The workloads whose failure makes other workloads wait, each with its problem.
    stage_failed: Vec<(WorkloadKey, Problem)>,
    /// Whether content that the status depends on is about to be read.
    is_reading: bool,
    last_restart: Option<Timestamp>,
    next_restart: Option<Timestamp>,
    /// The problems: failures before waits, then by namespace and name.
    problems: Vec<(Reverse<bool>, Problem)>,
}

impl Count {
    fn workload(
        &mut self,
        world: &World,
        lines: &Lines,
        monitor: &Declarer,
        key: &WorkloadKey,
        now: Timestamp,
    ) {
        let plan = plan_in_line(world, lines, key, now);
        let Some(facts) = world.workloads().get(key) else { return };
        if plan.state == RestartState::Unwatched {
            return;
        }
        self.workloads += 1;
        self.reads(world, &plan.needs);
        let by_us = || Inputs::of(world, key, facts).monitors.contains(monitor);
        let removed = world.memory().workload(key).removed_at();
        if let Some(last) = facts.restarts.last_restart.max(removed).filter(|_| by_us()) {
            self.last_restart = self.last_restart.max(Some(last));
        }
        if matches!(plan.state, RestartState::Current | RestartState::Unrecorded) {
            self.up_to_date += 1;
        }
        let sentence =
            || said(&plan.state, &About::workload(world, &Inputs::of(world, key, facts), &plan.causes));
        let of = Restartable::Workload(key.clone());
        self.stands(&of, &plan.state, Due::of(plan.due_since, removed, now), sentence);
    }

    fn pods(&mut self, world: &World, name: &Declarer, now: Timestamp) {
        let plan = plan_selected_pods(world, name, now);
        self.reads(world, &plan.needs);
        let removed = world.memory().monitor(name).removed().map(|removed| removed.at);
        self.last_restart = self.last_restart.max(removed);
        let sentence = || said(&plan.state, &About::pods(world, name, &plan.causes));
        let of = Restartable::Pods(name.clone());
        self.stands(&of, &plan.state, Due::of(plan.due_since, removed, now), sentence);
    }

    /// Counts a workload, or the monitor's own pods, by state. Adds a problem if a person may have to act.
    fn stands(
        &mut self,
        of: &Restartable,
        state: &RestartState,
        due: Due,
        sentence: impl FnOnce() -> String,
    ) {
        match state {
            RestartState::Unwatched | RestartState::Current | RestartState::Unrecorded => return,
            RestartState::Due | RestartState::Restarting => {
                self.restarting += 1;
                return;
            }
            RestartState::Unauthorized(_) => {
                self.waiting += 1;
                return;
            }
            RestartState::Waiting(wait) => {
                match due.is_under_way {
                    true => self.restarting += 1,
                    false => self.waiting += 1,
                }
                self.next(*wait);
                self.circuits += i64::from(wait.reason == WaitReason::CircuitOpen);
                // One problem reports all workloads of a stopped stage.
                self.stopped += usize::from(wait.reason == WaitReason::StageStopped);
                if !is_told(wait.reason, due.lasts) {
                    return;
                }
            }
            RestartState::Paused
            | RestartState::OptedOut
            | RestartState::Held { .. }
            | RestartState::TakenBack(_) => self.waiting += 1,
            RestartState::Failed(failure) => {
                self.failed += 1;
                self.circuits += i64::from(*failure == Failure::CircuitOpen);
            }
        }
        let message = format!("{}: {}", of.in_status(), sentence());
        let is_open = |wait: Wait| wait.reason == WaitReason::CircuitOpen;
        let is_failure = matches!(state, RestartState::Failed(_)) || state.wait().is_some_and(is_open);
        let name = match of {
            Restartable::Workload(key) => key.name.to_string(),
            Restartable::Pods(_) => String::new(),
        };
        let (namespace, reason) = (of.namespace().to_owned(), state.reason().to_owned());
        let problem = Problem { namespace, name, reason, message, ..Problem::default() };
        if let (Restartable::Workload(key), RestartState::Failed(Failure::Stage { .. })) = (of, state) {
            self.stage_failed.push((key.clone(), problem.clone()));
        }
        self.problems.push((Reverse(is_failure), problem));
    }

    /// Adds a problem for each unreadable object in the monitor's namespace: the monitor may watch or restart
    /// the object.
    fn unreadable(&mut self, world: &World, monitor: &Declarer) {
        for (object, why) in
            world.unreadable().filter(|(object, _)| **object.namespace() == **monitor.namespace())
        {
            let (namespace, name) = (object.namespace().to_string(), object.name().to_string());
            let is_meant = match object {
                UnreadObject::Object(key) => key.kind.data().is_some(),
                UnreadObject::Workload(_) => true,
                UnreadObject::Namespace(_) | UnreadObject::Instance(..) => false,
            };
            if is_meant {
                let reason = ProblemReason::Unreadable.as_str().into();
                let message = unreadable_said(object, why);
                let problem = Problem { namespace, name, reason, message, ..Problem::default() };
                self.problems.push((Reverse(true), problem));
            }
        }
    }

    /// Notes whether content is about to be read. After a failed read, no further content is read, and the
    /// status reports the failure.
    fn reads(&mut self, world: &World, needs: &[Need]) {
        let contents = needs.iter().filter_map(Need::content);
        let tried: Vec<bool> =
            contents.map(|object| world.memory().source(object).unread().is_some()).collect();
        self.is_reading |= !tried.is_empty() && !tried.contains(&true);
    }

    fn stage_stopped(&mut self, monitor: &Declarer) {
        if self.stopped > 0 {
            let by = self.stage_failed.first().map(|(key, _)| format!("{} {}", key.kind, key.name));
            let message = format!(
                "{} workloads with changed content wait, because {} failed with its new content: make that workload ready, or change its \
                 content",
                self.stopped,
                by.as_deref().unwrap_or("another one")
            );
            let NamespacedName { namespace, name } = monitor.named();
            let reason = WaitReason::StageStopped.as_str().into();
            let (namespace, name) = (namespace.to_string(), name.to_string());
            let problem = Problem { namespace, name, reason, message, ..Problem::default() };
            self.problems.push((Reverse(false), problem));
        }
    }

    fn next(&mut self, wait: Wait) {
        if let Some(until) = wait.ends_at() {
            self.next_restart = Some(self.next_restart.map_or(until, |next| next.min(until)));
        }
    }
}

/// How long a restart has been due, and whether the restart has begun.
struct Due {
    /// Whether the workload has been due for so long that the status also reports waits that usually end by
    /// themselves.
    lasts: bool,
    /// Whether pods have been removed since the content changed, so that the remaining pods follow.
    is_under_way: bool,
}

impl Due {
    fn of(since: Option<Timestamp>, removed: Option<Timestamp>, now: Timestamp) -> Self {
        Self {
            lasts: since.is_some_and(|since| at_after(since, LASTING) <= now),
            is_under_way: since.is_some_and(|since| removed.is_some_and(|removed| removed >= since)),
        }
    }
}

/// Whether the status reports a wait as a problem: a person may have to end it.
fn is_told(reason: WaitReason, lasts: bool) -> bool {
    match reason {
        WaitReason::CircuitOpen | WaitReason::MissingObject | WaitReason::DisruptionBudget => true,
        WaitReason::RolloutUnfinished | WaitReason::PodsNotReady => lasts,
        WaitReason::Starting
        | WaitReason::Authority
        | WaitReason::Facts
        | WaitReason::AbsentObject
        | WaitReason::QuietPeriod
        | WaitReason::MinInterval
        | WaitReason::Backoff
        | WaitReason::Budget
        | WaitReason::Stage
        | WaitReason::StageStopped
        | WaitReason::Window => false,
    }
}

fn status(
    world: &World,
    name: &Declarer,
    facts: &MonitorFacts,
    mut count: Count,
    now: Timestamp,
) -> (ConfigMonitorStatus, (Reason, String)) {
    let mut status = ConfigMonitorStatus { pods_applied: None, ..facts.status.clone().unwrap_or_default() };
    let (generation, now) = (facts.generation, Time(now));
    if let Err(found) = &facts.compiled {
        count.problems = found.iter().map(|problem| (Reverse(true), problem.clone())).collect();
    }
    count.problems.sort();
    let total = count.problems.len();
    status.problems = count.problems.into_iter().map(|(_, problem)| problem).take(WORST_PROBLEMS).collect();
    status.observed_generation = Some(generation);
    (status.workloads, status.up_to_date) = (count.workloads, count.up_to_date);
    (status.restarting, status.waiting, status.failed) = (count.restarting, count.waiting, count.failed);
    let before = status.last_restart_time.take().map(|time| time.0);
    status.last_restart_time = before.max(count.last_restart).map(Time);
    status.next_restart_time = count.next_restart.map(Time);

    let authorized = authorization(world, name, facts);
    if let Some((identity, allowed)) = &authorized {
        status.identity = Some(identity.clone());
        if allowed.0 {
            status.authorized_generation = Some(generation);
            status.authorized_proof = world.key().map(|key| facts.grant(key));
        }
    }
    let authorized = authorized.map(|(_, allowed)| allowed);
    let ready = ready(world, name, facts, &status, authorized.as_ref());
    let is_stalled = facts.compiled.is_err() || authorized.as_ref().is_some_and(|(allowed, ..)| !allowed);
    let circuits = (count.circuits > 0).then(|| {
        let message =
            format!("{} workloads do not become ready after restarts: see problems", count.circuits);
        (true, WaitReason::CircuitOpen.as_str(), message)
    });
    let stalled = is_stalled.then(|| (true, ready.1.as_str(), ready.2.clone())).or(circuits);
    let degraded =
        status.problems.first().filter(|_| facts.compiled.is_ok()).map(|worst| {
            (true, worst.reason.clone(), format!("{total} problems, the first: {}", worst.message))
        });
    let restarting = (status.restarting > 0)
        .then(|| (true, "Restarting", format!("Copyrator is restarting {} workloads", status.restarting)));
    let word = |(is, reason, message): Says| (is, reason.as_str(), message);
    let said = (ready.1, ready.2.clone());
    let conditions = &mut status.conditions;
    set_condition(conditions, "Ready", Some(word(ready)), generation, &now);
    set_condition(conditions, "Authorized", authorized.map(word), generation, &now);
    let degraded = degraded.as_ref().map(|(on, reason, message)| (*on, reason.as_str(), message.clone()));
    set_condition(conditions, "Degraded", degraded, generation, &now);
    set_condition(conditions, "Stalled", stalled, generation, &now);
    set_condition(conditions, "Restarting", restarting, generation, &now);
    (status, said)
}

/// A condition's status, reason and message.
type Says = (bool, Reason, String);

/// The monitor's identity, and whether the identity's rights suffice; `None` until the API server has been
/// asked about this generation.
fn authorization(world: &World, name: &Declarer, facts: &MonitorFacts) -> Option<(String, Says)> {
    let answer = standing(world, name, facts)?;
    let identity = &world.monitor_authority(name)?.identity;
    let says = match answer {
        Ok(()) if facts.spec.service_account_name.is_some() => {
            let message = format!(
                "{identity} has the rights that this monitor needs; Copyrator checks them again every 20 s"
            );
            (true, Reason::Allowed, message)
        }
        Ok(()) => {
            let message =
                format!("{identity} had the rights that this monitor needs when the monitor was written");
            (true, Reason::Allowed, message)
        }
        Err(refusal) => (false, Reason::Refused(refusal.reason), refusal.message.clone()),
    };
    Some((identity.clone(), says))
}

/// `Ready` reports whether Copyrator may and can act; `Degraded` reports restarts that workloads or users
/// prevent.
fn ready(
    world: &World,
    name: &Declarer,
    facts: &MonitorFacts,
    status: &ConfigMonitorStatus,
    authorized: Option<&Says>,
) -> Says {
    match (&facts.compiled, authorized) {
        (Err(_), _) => {
            let message = status.problems.first().map(|problem| problem.message.clone());
            (false, SpecFault::first(&status.problems).into(), message.unwrap_or_default())
        }
        (Ok(compiled), _) if compiled.suspend => {
            (true, Reason::Suspended, "spec.suspend is true: the monitor restarts no workload".into())
        }
        (Ok(_), None) => (false, Reason::AuthorityUnknown, NOT_ASKED.into()),
        (Ok(_), Some((false, reason, message))) => (false, *reason, message.clone()),
        (Ok(compiled), Some(_)) => {
            if let Some((reason, message)) = nothing_to_do(world, name, compiled, status.workloads) {
                return (true, reason, message);
            }
            let message = format!(
                "{} of {} workloads run the current content{}",
                status.up_to_date,
                status.workloads,
                only_pulled(world, name, facts)
            );
            (true, Reason::Watching, message)
        }
    }
}

/// Why a monitor has nothing to do: the objects that it watches, or the workloads that it would restart, may
/// not exist yet, or their names are misspelt. Pods without a workload are listed only when a restart is due,
/// so the status of a monitor that selects pods never reports that no workload exists.
fn nothing_to_do(
    world: &World,
    name: &Declarer,
    compiled: &CompiledMonitor,
    workloads: i64,
) -> Option<(Reason, String)> {
    let is_there = |term: &CompiledWatch| {
        world.objects_in(term.kind, name.namespace()).any(|(key, _)| term.names.matches(&key.name))
    };
    if !compiled.watch.iter().any(is_there) {
        let term = compiled.watch.first()?;
        let names: Vec<&str> = term.names.entries().collect();
        let message = format!(
            "namespace {} has none of the objects that spec.watch names (for example, no {} {}): create the object, or correct the name",
            name.namespace(),
            term.kind,
            names.join(", ")
        );
        return Some((Reason::NoObject, message));
    }
    if workloads > 0 || selects_pods(compiled) {
        return None;
    }
    let what = match &compiled.workloads {
        WorkloadChoice::References => "no workload uses an object that spec.watch names".to_owned(),
        WorkloadChoice::Pods(..) => {
            "spec.workloads.podSelector matches no workload's pod template".to_owned()
        }
        WorkloadChoice::Names(names) => match names.first() {
            Some((kind, first)) => {
                format!("spec.workloads names only workloads that do not exist (for example, {kind} {first})")
            }
            None => return None,
        },
    };
    Some((
        Reason::NoWorkload,
        format!("{what} in namespace {}: the monitor restarts no workload", name.namespace()),
    ))
}
