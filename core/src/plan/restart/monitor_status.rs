//! A monitor's status, from what is known.
//!
//! Reasons of `Ready`: `Invalid`, `UnsupportedField` (a newer version wrote it), `Suspended`,
//! `AuthorityUnknown`, `IdentityRequired` and `Forbidden` (and what else the authority's refusal says),
//! `NoObject` and `NoWorkload` (there is nothing to watch, or to restart, yet), `Watching`. Of `Authorized`:
//! `Allowed`, or the refusal's. Of `Stalled`: those of `Ready` that nothing but a person ends, and
//! `CircuitOpen`. Of `Restarting`: `Restarting`. Of `Degraded`, and of problems: `Forbidden`, `Refused`,
//! `TooLarge`, `Failed`, `RolloutStuck`, `CircuitOpen`, `StageFailed`, `TooManyBudgets` (failures),
//! `StageStopped`, `DisruptionBudget`, `MissingObject`, `Paused`, `Suspended`, `Held`, and after a while
//! `RolloutUnfinished` and `PodsNotReady` (waits that a person may have to end), `Invalid`.

use std::{cmp::Reverse, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    brake::{Wait, WaitReason, ends_by_the_clock},
    inputs::{Inputs, missing},
    pulling::only_pulled,
    reach::{standing, workloads_of},
    restarts::plan_in_line,
    selected::{SelectedPodsState, plan_selected_pods, selects_pods},
    stage::Lines,
    workload_plan::WorkloadState,
};
use crate::{
    api::{ConfigMonitorStatus, Problem, WORST_PROBLEMS, set_condition, speaks_of},
    authority::NOT_ASKED,
    model::{MonitorFacts, World},
    names::{NamespacedName, WorkloadKey},
    plan::{Need, at_after},
    validate::{CompiledMonitor, CompiledWatch, WorkloadChoice, quarantine_reason},
};

/// How long a due restart waits for a rollout or for pods before people are told.
const LASTING: Duration = Duration::from_secs(300);

/// What a monitor's status should say; `None` where the monitor is gone, not everything is known yet, or the
/// API server is about to be asked again what the status already says. Likewise while content is being read:
/// workloads that use it would count as waiting, and a moment later no longer. Content that cannot be read is
/// not waited for. Without `podsApplied`: that is no news but a record, and the writer of statuses may have
/// an old one at hand.
pub fn monitor_status(world: &World, name: &NamespacedName, now: Timestamp) -> Option<ConfigMonitorStatus> {
    let facts = world.monitors().get(name).filter(|_| world.is_complete())?;
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
    let is_said = |status: &ConfigMonitorStatus| status.observed_generation == Some(facts.generation);
    if count.is_reading && facts.status.as_ref().is_some_and(is_said) {
        return None;
    }
    count.stage_stopped(name);
    Some(status(world, name, facts, count, now))
}

#[derive(Default)]
struct Count {
    workloads: i64,
    up_to_date: i64,
    restarting: i64,
    waiting: i64,
    failed: i64,
    /// The waiting and failed ones whose circuit is open.
    circuits: i64,
    /// How many of those that wait do so because another one has failed.
    stopped: usize,
    /// The first that has failed so that they do, in words.
    stopped_by: Option<String>,
    /// Content is about to be read that has to be known.
    is_reading: bool,
    last_restart: Option<Timestamp>,
    next_restart: Option<Timestamp>,
    /// Failures before waits, then by namespace and name.
    problems: Vec<(Reverse<bool>, Problem)>,
}

impl Count {
    fn workload(
        &mut self,
        world: &World,
        lines: &Lines,
        monitor: &NamespacedName,
        key: &WorkloadKey,
        now: Timestamp,
    ) {
        let plan = plan_in_line(world, lines, key, now);
        let Some(facts) = world.workloads().get(key) else { return };
        if plan.state == WorkloadState::NotWatched {
            return;
        }
        self.workloads += 1;
        self.reads(world, &plan.needs);
        let by_us = || Inputs::of(world, key, facts).monitors.contains(monitor);
        let removed = world.memory().workload(key).removed_at;
        if let Some(last) = facts.last_restart.max(removed).filter(|_| by_us()) {
            self.last_restart = self.last_restart.max(Some(last));
        }
        match plan.state {
            WorkloadState::NotWatched => {}
            WorkloadState::UpToDate => self.up_to_date += 1,
            WorkloadState::Restarting => self.restarting += 1,
            WorkloadState::Unauthorized(_) => self.waiting += 1,
            WorkloadState::Waiting(wait) => {
                // Between one pod and the next.
                match is_under_way(plan.due_since, removed) {
                    true => self.restarting += 1,
                    false => self.waiting += 1,
                }
                let lasts = plan.due_since.is_some_and(|since| at_after(since, LASTING) <= now);
                self.wait(key, wait, lasts, || missing(&Inputs::of(world, key, facts).missing));
            }
            WorkloadState::Paused => {
                self.waiting += 1;
                self.problem(
                    false,
                    key,
                    "Paused",
                    "has changed content and is paused: it restarts when resumed",
                );
            }
            WorkloadState::Suspended => {
                self.waiting += 1;
                self.problem(
                    false,
                    key,
                    "Suspended",
                    "has changed content, and its annotation copyrator.dev/restart says \"false\": it restarts when that \
                     is taken away",
                );
            }
            WorkloadState::Held { partition, old } => {
                self.waiting += 1;
                let message = format!(
                    "has {old} pods below its partition {partition} that run old content: lower the partition to \
                     have them replaced, or use strategy Evict"
                );
                self.problem(false, key, "Held", &message);
            }
            WorkloadState::Failed { reason, message } => {
                self.failed += 1;
                self.circuits += i64::from(reason == WaitReason::CircuitOpen.as_str());
                if reason == "StageFailed" {
                    self.stopped_by.get_or_insert_with(|| format!("{} {}", key.kind, key.name));
                }
                self.problem(true, key, reason, &message);
            }
        }
    }

    fn pods(&mut self, world: &World, name: &NamespacedName, now: Timestamp) {
        let plan = plan_selected_pods(world, name, now);
        self.reads(world, &plan.needs);
        let removed = world.memory().pods(name).removed.map(|removed| removed.at);
        self.last_restart = self.last_restart.max(removed);
        match plan.state {
            SelectedPodsState::NotApplicable | SelectedPodsState::UpToDate => {}
            SelectedPodsState::Restarting => self.restarting += 1,
            SelectedPodsState::Waiting(wait) => {
                match is_under_way(plan.due_since, removed) {
                    true => self.restarting += 1,
                    false => self.waiting += 1,
                }
                self.next(wait);
                let lasts = plan.due_since.is_some_and(|since| at_after(since, LASTING) <= now);
                let message = match wait.reason {
                    WaitReason::PodsNotReady if lasts => {
                        "wait until others are ready: the next is replaced when they are"
                    }
                    WaitReason::DisruptionBudget => {
                        "cannot be evicted now: raise their replicas, or relax their PodDisruptionBudget"
                    }
                    _ => return,
                };
                self.pods_problem(false, name, wait.reason.as_str(), message);
            }
            SelectedPodsState::Failed { reason, message } => {
                self.failed += 1;
                self.pods_problem(true, name, reason, &message);
            }
        }
    }

    fn pods_problem(&mut self, is_failure: bool, monitor: &NamespacedName, reason: &str, message: &str) {
        let problem = Problem {
            namespace: monitor.namespace.to_string(),
            reason: reason.into(),
            message: format!("pods without a workload {message}"),
            ..Problem::default()
        };
        self.problems.push((Reverse(is_failure), problem));
    }

    /// Where some of it cannot be read, the rest is not read either: it has been tried, and is said.
    fn reads(&mut self, world: &World, needs: &[Need]) {
        let contents = needs.iter().filter_map(|need| match need {
            Need::Fingerprint(object) => Some(object),
            Need::Pods(_) | Need::SelectedPods(_) | Need::Deletion(..) => None,
        });
        let tried: Vec<bool> =
            contents.map(|object| world.memory().source(object).unread.is_some()).collect();
        self.is_reading |= !tried.is_empty() && !tried.contains(&true);
    }

    fn wait(&mut self, key: &WorkloadKey, wait: Wait, lasts: bool, missing: impl FnOnce() -> String) {
        self.next(wait);
        let uses;
        let message = match wait.reason {
            WaitReason::RolloutUnfinished if lasts => {
                "has changed content, and a rollout that does not end: it restarts after that"
            }
            WaitReason::PodsNotReady if lasts => {
                "has changed content, and too few pods that are ready: the next is replaced when there are enough"
            }
            WaitReason::CircuitOpen => {
                self.circuits += 1;
                "has changed content, and has not become ready after any of its last restarts: the next is tried after an \
                 hour, or as soon as it is ready"
            }
            WaitReason::MissingObject => {
                uses = format!("uses {}", missing());
                uses.as_str()
            }
            WaitReason::DisruptionBudget => {
                "has pods that a PodDisruptionBudget allows nobody to evict now; raise its replicas, or relax the budget"
            }
            // Said once for all of them.
            WaitReason::StageStopped => {
                self.stopped += 1;
                return;
            }
            _ => return,
        };
        self.problem(wait.reason == WaitReason::CircuitOpen, key, wait.reason.as_str(), message);
    }

    fn stage_stopped(&mut self, monitor: &NamespacedName) {
        if self.stopped > 0 {
            let message = format!(
                "{} workloads with changed content wait, because {} has failed with its: make that one ready, or change \
                 its content",
                self.stopped,
                self.stopped_by.as_deref().unwrap_or("another one")
            );
            let (namespace, name) = (monitor.namespace.to_string(), monitor.name.to_string());
            self.problems
                .push((Reverse(false), Problem { namespace, name, reason: "StageStopped".into(), message }));
        }
    }

    fn next(&mut self, wait: Wait) {
        if let Some(until) = wait.until.filter(|_| ends_by_the_clock(wait.reason)) {
            self.next_restart = Some(self.next_restart.map_or(until, |next| next.min(until)));
        }
    }

    fn problem(&mut self, is_failure: bool, key: &WorkloadKey, reason: &str, message: &str) {
        let problem = Problem {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            reason: reason.into(),
            message: format!("{} {} {message}", key.kind, key.name),
        };
        self.problems.push((Reverse(is_failure), problem));
    }
}

/// Whether pods have been removed for content that has changed since then: others follow.
fn is_under_way(due_since: Option<Timestamp>, removed: Option<Timestamp>) -> bool {
    due_since.is_some_and(|since| removed.is_some_and(|removed| removed >= since))
}

fn status(
    world: &World,
    name: &NamespacedName,
    facts: &MonitorFacts,
    mut count: Count,
    now: Timestamp,
) -> ConfigMonitorStatus {
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
    let mut ready = ready(world, name, facts, &status, authorized.as_ref());
    if ready.1 == "Watching" {
        ready.2.push_str(&only_pulled(world, name, facts));
    }
    let is_stalled = facts.compiled.is_err() || authorized.as_ref().is_some_and(|(allowed, ..)| !allowed);
    let circuits = (count.circuits > 0).then(|| {
        let message =
            format!("{} workloads do not become ready after restarts: see problems", count.circuits);
        (true, WaitReason::CircuitOpen.as_str(), message)
    });
    let stalled = is_stalled.then(|| (true, ready.1, ready.2.clone())).or(circuits);
    let degraded =
        status.problems.first().filter(|_| facts.compiled.is_ok()).map(|worst| {
            (true, worst.reason.clone(), format!("{total} problems, the first: {}", worst.message))
        });
    let restarting = (status.restarting > 0)
        .then(|| (true, "Restarting", format!("{} workloads are being restarted", status.restarting)));
    let conditions = &mut status.conditions;
    set_condition(conditions, "Ready", Some(ready), generation, &now);
    set_condition(conditions, "Authorized", authorized, generation, &now);
    let degraded = degraded.as_ref().map(|(on, reason, message)| (*on, reason.as_str(), message.clone()));
    set_condition(conditions, "Degraded", degraded, generation, &now);
    set_condition(conditions, "Stalled", stalled, generation, &now);
    set_condition(conditions, "Restarting", restarting, generation, &now);
    status
}

/// A condition's status, reason and message.
type Says<'a> = (bool, &'a str, String);

/// Whose rights, and whether they suffice; `None` until the API server has been asked about this generation.
fn authorization<'w>(
    world: &'w World,
    name: &NamespacedName,
    facts: &MonitorFacts,
) -> Option<(String, Says<'w>)> {
    let answer = standing(world, name, facts)?;
    let identity = &world.monitor_authority(name)?.identity;
    let says = match answer {
        Ok(()) if facts.spec.service_account_name.is_some() => {
            let message =
                format!("{identity} may do what this monitor declares; that is asked again every 20 s");
            (true, "Allowed", message)
        }
        Ok(()) => {
            let message = format!("{identity} was allowed what this monitor declares when it was written");
            (true, "Allowed", message)
        }
        Err((reason, message)) => (false, reason.as_str(), message.clone()),
    };
    Some((identity.clone(), says))
}

/// `Ready` speaks of what we may and can do; what others prevent is `Degraded`.
fn ready<'a>(
    world: &World,
    name: &NamespacedName,
    facts: &MonitorFacts,
    status: &ConfigMonitorStatus,
    authorized: Option<&Says<'a>>,
) -> Says<'a> {
    match (&facts.compiled, authorized) {
        (Err(_), _) => {
            let message = status.problems.first().map(|problem| problem.message.clone());
            (false, quarantine_reason(&status.problems), message.unwrap_or_default())
        }
        (Ok(compiled), _) if compiled.suspend => {
            (true, "Suspended", "spec.suspend is true: nothing restarts for this monitor".into())
        }
        (Ok(_), None) => (false, "AuthorityUnknown", NOT_ASKED.into()),
        (Ok(_), Some((false, reason, message))) => (false, reason, message.clone()),
        (Ok(compiled), Some(_)) => {
            if let Some((reason, message)) = nothing_to_do(world, name, compiled, status.workloads) {
                return (true, reason, message);
            }
            let message =
                format!("{} of {} workloads run the current content", status.up_to_date, status.workloads);
            (true, "Watching", message)
        }
    }
}

/// What a monitor watches, or what it would restart, may not be there yet, or may be misspelt. Pods without a
/// workload are listed only when they are due, so that nothing is said of a monitor that may find some.
fn nothing_to_do(
    world: &World,
    name: &NamespacedName,
    compiled: &CompiledMonitor,
    workloads: i64,
) -> Option<(&'static str, String)> {
    let is_there = |term: &CompiledWatch| {
        world.objects_in(term.kind, &name.namespace).any(|(key, _)| term.names.matches(&key.name))
    };
    if !compiled.watch.iter().any(is_there) {
        let term = compiled.watch.first()?;
        let names: Vec<&str> = term.names.entries().collect();
        let message = format!(
            "namespace {} has nothing that spec.watch names (no {} {}, to begin with): create it, or correct the name",
            name.namespace,
            term.kind,
            names.join(", ")
        );
        return Some(("NoObject", message));
    }
    if workloads > 0 || selects_pods(compiled) {
        return None;
    }
    let what = match &compiled.workloads {
        WorkloadChoice::References => "no workload references what spec.watch names".to_owned(),
        WorkloadChoice::Pods(..) => {
            "spec.workloads.podSelector matches no workload's pod template".to_owned()
        }
        WorkloadChoice::Names(names) => match names.first() {
            Some((kind, first)) => {
                format!("spec.workloads names nothing that is there ({kind} {first}, to begin with)")
            }
            None => return None,
        },
    };
    Some(("NoWorkload", format!("{what} in namespace {}: nothing restarts for this monitor", name.namespace)))
}
