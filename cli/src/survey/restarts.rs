//! Plans every workload, and the pods that monitors select themselves, and fetches what the plans need.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::Client;

use super::{SurveyError, content::read};
use crate::{
    explain::{
        Around, Foreseen, RestartCourse, RestartOutlook, RestartReason, Restartable, foresee_pods,
        foresee_workload, pods_outlook, workload_outlook,
    },
    model::{WaitReason, World},
    names::{Declarer, Kind, ObjectKey, WorkloadKey},
    plan::{
        Key, Need, everything,
        restart::{Inputs, SelectedPodsPlan, Wait, WorkloadPlan},
    },
    read::pods,
    validate::CompiledMonitor,
};

/// The maximum number of rounds. Plans that still need something after the last round are shown as they are.
const ROUNDS: usize = 8;

/// The workloads that a monitor or annotation is about, or that use one of these objects.
pub(super) fn workloads(
    world: &World,
    changed: &BTreeSet<ObjectKey>,
    namespace: Option<&str>,
) -> BTreeSet<WorkloadKey> {
    let asked = everything(world).into_iter().filter_map(|key| match key {
        Key::Workload(key) => Some(key),
        _ => None,
    });
    let uses = |key: &WorkloadKey, object: &ObjectKey| {
        world.workloads().get(key).is_some_and(|facts| {
            facts.references.iter().any(|one| one.kind == object.kind && one.name == object.name)
        })
    };
    let using = changed.iter().flat_map(|object| {
        let there = world.workloads_in(&object.namespace).map(|(key, _)| key);
        there.filter(move |key| uses(key, object)).cloned()
    });
    let mut all: BTreeSet<WorkloadKey> = asked.chain(using).collect();
    all.retain(|key| namespace.is_none_or(|namespace| *key.namespace == *namespace));
    all
}

/// The workloads that cannot be planned, since the caller may not list what they use.
pub(super) fn blind(
    world: &World,
    keys: &BTreeSet<WorkloadKey>,
    unseen: &BTreeSet<Kind>,
) -> BTreeMap<Restartable, (RestartReason, String)> {
    let why = |kind: Kind| {
        (RestartReason::Unread, format!("the workload may use a {kind}, which you may not list"))
    };
    let watched =
        |compiled: &CompiledMonitor| -> Vec<Kind> { compiled.watch.iter().map(|term| term.kind).collect() };
    let of_workload = |key: &WorkloadKey| {
        let facts = world.workloads().get(key)?;
        let compiled =
            world.monitors_in(&key.namespace).filter_map(|(_, monitor)| monitor.compiled.as_deref().ok());
        let used = facts.references.iter().map(|one| one.kind).filter(|_| facts.restarts.restart.is_some());
        let kind = compiled.flat_map(watched).chain(used).find(|kind| unseen.contains(kind))?;
        Some((Restartable::Workload(key.clone()), why(kind)))
    };
    let monitors = world.monitors().iter().filter_map(|(name, monitor)| {
        let kinds = watched(monitor.compiled.as_deref().ok()?);
        let kind = kinds.into_iter().find(|kind| unseen.contains(kind))?;
        Some((Restartable::Pods(name.clone()), why(kind)))
    });
    keys.iter().filter_map(of_workload).chain(monitors).collect()
}

/// Reads all content that these workloads, and the pods of monitors, would restart for.
pub(super) async fn read_inputs(
    client: &Client,
    world: &mut World,
    keys: &BTreeSet<WorkloadKey>,
    unread: &mut BTreeMap<Need, String>,
) -> Result<(), SurveyError> {
    let mut needs: Vec<Need> = Vec::new();
    for key in keys {
        let Some(facts) = world.workloads().get(key) else { continue };
        needs.extend(Inputs::of(world, key, facts).needs(world));
    }
    for (monitor, facts) in world.monitors() {
        let records = facts.status.as_ref().is_some_and(|status| status.pods_applied.is_some());
        if let Some(compiled) = facts.compiled.as_ref().ok().filter(|_| records) {
            needs.extend(Inputs::of_monitor(world, monitor, compiled).needs(world));
        }
    }
    let objects = needs.iter().filter_map(Need::content).cloned();
    read(client, world, objects.collect(), unread).await
}

/// The state and planned action of everything that may restart.
pub(super) async fn copy_rows(
    client: &Client,
    world: &mut World,
    keys: &BTreeSet<WorkloadKey>,
    namespace: Option<&str>,
    around: &Around,
    unread: &mut BTreeMap<Need, String>,
    now: Timestamp,
) -> Result<Vec<RestartOutlook>, SurveyError> {
    let is_shown = |monitor: &Declarer| namespace.is_none_or(|here| **monitor.namespace() == *here);
    let monitors: Vec<Declarer> = world.monitors().keys().filter(|it| is_shown(it)).cloned().collect();
    let mut workloads: BTreeMap<&WorkloadKey, Foreseen<WorkloadPlan>> = BTreeMap::new();
    let mut pods: BTreeMap<&Declarer, Foreseen<SelectedPodsPlan>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let mut lacking = BTreeSet::new();
        for key in keys {
            if workloads
                .get(key)
                .is_none_or(|seen| !lacks(&seen.now.needs, &seen.then.needs, unread).is_empty())
            {
                let seen = foresee_workload(world, key, now);
                lacking.extend(lacks(&seen.now.needs, &seen.then.needs, unread));
                workloads.insert(key, seen);
            }
        }
        for monitor in &monitors {
            if pods
                .get(monitor)
                .is_none_or(|seen| !lacks(&seen.now.needs, &seen.then.needs, unread).is_empty())
            {
                let seen = foresee_pods(world, monitor, now);
                lacking.extend(lacks(&seen.now.needs, &seen.then.needs, unread));
                pods.insert(monitor, seen);
            }
        }
        if lacking.is_empty() {
            break;
        }
        fetch(client, world, lacking, unread, now).await?;
    }
    let of_workloads = workloads.iter().filter_map(|(key, seen)| {
        let outlook = workload_outlook(world, key, seen, around)?;
        Some(explained(outlook, seen.now.needs.iter().chain(&seen.then.needs), unread))
    });
    let of_pods = pods.iter().filter_map(|(monitor, seen)| {
        let outlook = pods_outlook(world, monitor, seen, around)?;
        Some(explained(outlook, seen.now.needs.iter().chain(&seen.then.needs), unread))
    });
    let mut all: Vec<RestartOutlook> = of_workloads.chain(of_pods).collect();
    all.sort_by(|a, b| (a.course, &a.of).cmp(&(b.course, &b.of)));
    Ok(all)
}

/// The needs of plans, except needs that could not be read before.
fn lacks(now: &[Need], then: &[Need], unread: &BTreeMap<Need, String>) -> BTreeSet<Need> {
    now.iter().chain(then).filter(|need| !unread.contains_key(need)).cloned().collect()
}

/// Marks an outlook as unknown if something that it needs could not be read, with the reason.
fn explained<'n>(
    mut outlook: RestartOutlook,
    mut needs: impl Iterator<Item = &'n Need>,
    unread: &BTreeMap<Need, String>,
) -> RestartOutlook {
    if let Some(why) = needs.find_map(|need| unread.get(need)) {
        outlook.state = Wait::for_event(WaitReason::Facts).into();
        outlook.course = RestartCourse::Unknown;
        outlook.message = match outlook.causes.is_empty() {
            true => why.clone(),
            false => {
                format!("the workload restarts, unless all of its pods are newer than the change: {why}")
            }
        };
    }
    outlook
}

async fn fetch(
    client: &Client,
    world: &mut World,
    lacking: BTreeSet<Need>,
    unread: &mut BTreeMap<Need, String>,
    now: Timestamp,
) -> Result<(), SurveyError> {
    let mut objects = BTreeSet::new();
    for need in lacking {
        let refused = match &need {
            Need::Fingerprint(object) => {
                objects.insert(object.clone());
                continue;
            }
            Need::Pods(key) => {
                let Some(facts) = world.workloads().get(key).cloned() else { continue };
                let seen = pods::of_workload(client, key, &facts, now).await;
                seen.map(|seen| world.set_pods(key, seen)).err()
            }
            // No restart plan needs rights or examinations.
            Need::Right(..) | Need::Drift(_) | Need::Existing(_) | Need::List(..) => continue,
            Need::SelectedPods(monitor) => {
                let spec = world.monitors().get(monitor).and_then(|facts| facts.spec.workloads.clone());
                let Some(selector) = spec.and_then(|spec| spec.pod_selector) else { continue };
                let seen = pods::of_selector(client, monitor, &selector, now).await;
                seen.map(|seen| world.set_selected_pods(monitor, seen)).err()
            }
        };
        if let Some(error) = refused {
            unread.insert(need, crate::terminal::with_distinct_causes(&error));
        }
    }
    read(client, world, objects, unread).await
}

/// Restores the original records. Digests under the temporary key mean nothing outside this command.
pub(super) fn unbelieve(outlooks: &mut [RestartOutlook], originals: &BTreeMap<Restartable, String>) {
    for outlook in outlooks {
        outlook.wanted = None;
        if let Some(original) = originals.get(&outlook.of) {
            outlook.running = Some(original.clone());
        }
    }
}
