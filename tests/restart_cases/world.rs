//! Cases as written, and the worlds that they describe.

mod facts;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use copyrator::{
    api::{ConfigMonitorSpec, WorkloadKind},
    digest::{DigestKey, Fingerprint, KeyPrint},
    model::{
        AttemptFailure, Authority, Declared, LastRestart, LostRecord, ObjectFacts, OtherWriter, PodFacts,
        PodRemoved, PodsSeen, Reference, Refusal, RefusalReason, RestartAttempt, RestartFields,
        RestartResult, Rollout, RolloutFault, Store, TrackRecord, WaitReason, WorkloadFacts, World,
        WriteFault,
    },
    names::{Declarer, Kind, ObjectKey, WorkloadKey},
    plan::restart::{InputDigest, Inputs},
    validate::CompiledMonitor,
};
use jiff::Timestamp;
use serde::Deserialize;

/// Where everything of a case lives.
pub const NAMESPACE: &str = "shop";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub now: i64,
    #[serde(default)]
    objects: BTreeMap<String, Object>,
    pub workload: Option<Workload>,
    /// Several, by name, each with its own pods.
    #[serde(default)]
    pub workloads: BTreeMap<String, Workload>,
    #[serde(default)]
    monitors: BTreeMap<String, Monitor>,
    /// Pods of the workload or, where there is none, of the monitor `web`; absent: not listed yet.
    pods: Option<Vec<Pod>>,
    attempt: Option<Attempt>,
    /// What the workload, or the monitor's pods, have waited for so far, and since when.
    waited: Option<(String, i64)>,
    /// `namespace/name` of other restarts under way, of others that wait for a place, and how many places there are.
    #[serde(default)]
    under_way: Vec<String>,
    #[serde(default)]
    in_line: Vec<String>,
    #[serde(default)]
    max_rollouts: usize,
    #[serde(default)]
    annotations_off: bool,
    #[serde(default)]
    pub expect: Expect,
}

/// What is planned: for the one workload or the monitor's pods, or for each of several workloads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Expect {
    One(String),
    Each(BTreeMap<String, String>),
}

impl Default for Expect {
    fn default() -> Self {
        Self::One(String::new())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    keys: BTreeMap<String, String>,
    changed: i64,
    restart: Option<String>,
    #[serde(default)]
    not_fetched: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    #[serde(default)]
    kind: Option<WorkloadKind>,
    /// `configmap/a`, `secret/b:key1,key2`, `secret/c?` (optional).
    #[serde(default)]
    references: Vec<String>,
    /// Secrets that images are pulled with.
    #[serde(default)]
    pulls: Vec<String>,
    applied: Option<Was>,
    /// The label says that pods which began before this are still to be replaced.
    pending: Option<i64>,
    restarted_for: Option<Was>,
    annotation: Option<String>,
    last_restart: Option<i64>,
    /// Absent: long ago.
    recorded: Option<i64>,
    /// When somebody else last wrote to the pod template.
    templated: Option<i64>,
    /// The field manager that did, or that wrote the label, which is not ours then.
    templated_by: Option<String>,
    recorded_by: Option<String>,
    /// `<streak>.<failures>`.
    brake: Option<String>,
    last_good: Option<Was>,
    /// Since when something that its pods need has not been there.
    missing_since: Option<i64>,
    /// `label`, `rollout`: what somebody took away; `applied` and `recorded` are what it said.
    taken: Option<String>,
    #[serde(default)]
    rollout: Option<String>,
    #[serde(default)]
    desired: i32,
    /// Absent: as many as desired.
    available: Option<i32>,
    /// Further labels of its pods.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Where there are several workloads: its pods; absent: not listed yet.
    pods: Option<Vec<Pod>>,
    /// `under-way`, `soaking`, `through` or the pod that crashes: what is remembered of the restart that is recorded.
    remembered: Option<String>,
    /// It is remembered that its replaced pods fail with the content that is current.
    #[serde(default)]
    failing_with_current: bool,
}

/// The content that a mark was made for.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Was {
    /// `current`, `another key`; `current, of other keys` and `current, of two parts` where what counts differs.
    Word(String),
    /// Objects with their keys; of the same keys of them, where they are the same objects.
    Content(BTreeMap<String, BTreeMap<String, String>>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Monitor {
    spec: serde_json::Value,
    /// `refused`, `unasked`.
    authority: Option<String>,
    pods_applied: Option<Was>,
    pods_pending: Option<i64>,
    removed: Option<Removed>,
    pods_recorded: Option<i64>,
    restart_now: Option<i64>,
}

/// The last pod that was removed, and how many there were.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Removed {
    at: i64,
    controlled: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pod {
    name: String,
    created: i64,
    #[serde(default)]
    unready: bool,
    /// Since when it is ready, or not.
    since: Option<i64>,
    #[serde(default)]
    crashing: bool,
    #[serde(default)]
    leaving: bool,
    #[serde(default)]
    bare: bool,
    #[serde(default)]
    of_job: bool,
    #[serde(default)]
    of_workload: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    reason: String,
    retry_at: i64,
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub fn digest_key() -> DigestKey {
    DigestKey::new(&[7; DigestKey::LENGTH])
}

fn object_key(text: &str) -> ObjectKey {
    let (kind, name) = text.split_once('/').unwrap();
    let kind = if kind == "configmap" { Kind::ConfigMap } else { Kind::Secret };
    ObjectKey::new(kind, NAMESPACE, name)
}

fn other_key(text: &str) -> WorkloadKey {
    let (namespace, name) = text.split_once('/').unwrap();
    WorkloadKey { kind: WorkloadKind::Deployment, namespace: namespace.into(), name: name.into() }
}

fn reference(text: &str) -> Reference {
    let (text, keys) = text.split_once(':').map_or((text, None), |(text, keys)| (text, Some(keys)));
    let ObjectKey { kind, name, .. } = object_key(text.trim_end_matches('?'));
    let keys = keys.map(|keys| keys.split(',').map(str::to_owned).collect());
    Reference { kind, name, keys, optional: text.ends_with('?') }
}

/// What a label would say.
fn label(was: &Was, current: &InputDigest, counted: &BTreeSet<ObjectKey>) -> String {
    let scope = match was {
        Was::Word(word) if word == "current, of two parts" => return current.digest.clone(),
        Was::Word(word) if word == "current, of other keys" => "0ther0ne",
        Was::Content(content)
            if content.keys().map(|name| object_key(name)).collect::<BTreeSet<_>>() != *counted =>
        {
            "0ther0ne"
        }
        _ => &current.scope,
    };
    format!("{}.{scope}", digest(was, current))
}

fn still_pending(label: String, pending: Option<i64>) -> String {
    pending.map_or(label.clone(), |before| format!("{label}.{before}"))
}

fn digest(was: &Was, current: &InputDigest) -> String {
    let key = digest_key();
    let content = match was {
        Was::Word(word) if word.starts_with("current") => return current.digest.clone(),
        Was::Word(_) => return "0123abcd.0123456789".to_owned(),
        Was::Content(content) => content,
    };
    let mut parts: Vec<_> = content.iter().map(|(name, keys)| (object_key(name), keys)).collect();
    parts.sort();
    let print = |keys: &'_ BTreeMap<String, String>| {
        keys.iter().map(|(name, value)| (name.clone(), key.value(value.as_bytes()))).collect::<Vec<_>>()
    };
    let parts: Vec<_> = parts.into_iter().map(|(object, keys)| (object, print(keys))).collect();
    let borrowed = parts.iter().map(|(object, keys)| {
        (object, keys.iter().map(|(name, digest)| (name.as_str(), *digest)).collect::<Vec<_>>())
    });
    key.inputs(borrowed)
}

impl Case {
    pub fn workload_key(&self) -> WorkloadKey {
        let kind = self.workload.as_ref().and_then(|one| one.kind).unwrap_or(WorkloadKind::Deployment);
        WorkloadKey { kind, namespace: NAMESPACE.into(), name: "web".into() }
    }

    /// Each of several workloads.
    pub fn several(&self) -> impl Iterator<Item = (WorkloadKey, &Workload)> {
        self.workloads.iter().map(|(name, workload)| {
            let kind = workload.kind.unwrap_or(WorkloadKind::Deployment);
            (WorkloadKey { kind, namespace: NAMESPACE.into(), name: name.as_str().into() }, workload)
        })
    }

    pub fn monitor_key() -> Declarer {
        Declarer::monitor(NAMESPACE, "web")
    }

    pub fn world(&self) -> World {
        let mut world = World::default();
        world.set_key(digest_key());
        world.settings_mut().annotations = !self.annotations_off;
        world.settings_mut().stores = [Store::ConfigMaps].into();
        world.set_all_listed();
        for (name, object) in &self.objects {
            object.add(&object_key(name), &mut world);
        }
        for (name, monitor) in &self.monitors {
            monitor.add(&Declarer::monitor(NAMESPACE, name.as_str()), &mut world);
        }
        if let Some(workload) = &self.workload {
            world.set_workload(self.workload_key(), workload.facts(self.workload_key().kind));
            workload.missing(&self.workload_key(), &mut world);
            let taken = workload.taken.as_deref().map(|taken| match taken {
                "label" => LostRecord::Label,
                "rollout" => LostRecord::Rollout,
                other => panic!("nobody can take a {other}"),
            });
            world.set_lost_record(&self.workload_key(), taken);
        }
        for (key, workload) in self.several() {
            world.set_workload(key.clone(), workload.facts(key.kind));
            workload.missing(&key, &mut world);
            if let Some(pods) = &workload.pods {
                let pods = pods.iter().map(|pod| pod.facts(&key)).collect();
                world.set_pods(&key, PodsSeen { at: at(self.now), resource_version: Some("1".into()), pods });
            }
        }
        self.marks(&mut world);
        for (key, workload) in self.several() {
            workload.marks(&key, &mut world);
        }
        self.others(&mut world);
        if let Some(pods) = &self.pods {
            let pods = pods.iter().map(|pod| pod.facts(&self.workload_key())).collect();
            let seen = PodsSeen { at: at(self.now), resource_version: Some("1".into()), pods };
            match self.workload {
                Some(_) => world.set_pods(&self.workload_key(), seen),
                None => world.set_selected_pods(&Self::monitor_key(), seen),
            }
        }
        world
    }

    /// Who else restarts, and what has been waited for.
    fn others(&self, world: &mut World) {
        world.settings_mut().max_rollouts = self.max_rollouts;
        for other in &self.under_way {
            world.memory_mut().reserve(&other_key(other), "?", at(self.now + 1));
        }
        for other in &self.in_line {
            let (reason, since) = (WaitReason::Budget, at(self.now - 1));
            world.memory_mut().at_workload(&other_key(other), |memory| memory.wait_for(reason, since));
        }
        if let Some((reason, since)) = &self.waited {
            let reason = WaitReason::ALL.into_iter().find(|one| one.as_str() == reason).unwrap();
            for time in [at(*since), at(self.now)] {
                world.memory_mut().at_workload(&self.workload_key(), |memory| memory.wait_for(reason, time));
                world
                    .memory_mut()
                    .at_monitor(&Self::monitor_key(), |memory| memory.wait_for(Some(reason), time));
            }
        }
    }

    /// Marks speak of content, so they come last.
    fn marks(&self, world: &mut World) {
        let key = self.workload_key();
        let current = self.current(world);
        let counted: BTreeSet<ObjectKey> = self.inputs(world).objects.keys().cloned().collect();
        if let Some(workload) = &self.workload {
            let mut facts = (*world.workloads()[&key]).clone();
            let applied = workload.applied.as_ref().map(|was| label(was, &current, &counted));
            facts.restarts.applied = applied.map(|label| still_pending(label, workload.pending));
            facts.restarts.restarted_for = workload.restarted_for.as_ref().map(|was| digest(was, &current));
            facts.restarts.track.last_good = workload.last_good.as_ref().map(|was| digest(was, &current));
            world.set_workload(key.clone(), facts);
        }
        if let Some(attempt) = &self.attempt {
            let failure = (attempt.reason != "DisruptionBudget")
                .then(|| AttemptFailure::Write(WriteFault::Forbidden, "no".into()));
            let attempt =
                RestartAttempt { label: current.label(), tries: 1, failure, retry_at: at(attempt.retry_at) };
            world.memory_mut().at_workload(&key, |memory| memory.failed(attempt));
        }
        for (name, monitor) in &self.monitors {
            let name = Declarer::monitor(NAMESPACE, name.as_str());
            let removed = monitor.removed.as_ref();
            let removed = removed.map(|one| PodRemoved { at: at(one.at), controlled: one.controlled });
            world.memory_mut().at_monitor(&name, |memory| memory.pods_removed(removed));
            world.set_pods_recorded(&name, monitor.pods_recorded.map(at));
            world.set_restart_now(&name, monitor.restart_now.map(at));
            let applied = monitor.pods_applied.as_ref().map(|was| label(was, &current, &counted));
            let applied = applied.map(|label| still_pending(label, monitor.pods_pending));
            world.edit_monitor(&name, |facts| facts.status.get_or_insert_default().pods_applied = applied);
        }
    }

    pub fn current(&self, world: &World) -> InputDigest {
        let none =
            || InputDigest { digest: "?".into(), scope: "?".into(), changed_at: None, touched_at: None };
        self.inputs(world).content(world, &digest_key()).unwrap_or_else(none)
    }

    fn inputs<'w>(&self, world: &'w World) -> Inputs<'w> {
        let of_workload = world.workloads().iter().next();
        let of_monitor = world.monitors().get_key_value(&Self::monitor_key());
        match (of_workload, of_monitor) {
            (Some((key, facts)), _) => Inputs::of(world, key, facts),
            (None, Some((name, Declared { compiled: Ok(compiled), .. }))) => {
                Inputs::of_monitor(world, name, compiled)
            }
            _ => Inputs::default(),
        }
    }
}
