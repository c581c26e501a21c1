//! The objects, monitors, workloads and pods of a case, as the world knows them.

use super::*;

impl Object {
    pub(super) fn add(&self, key: &ObjectKey, world: &mut World) {
        let facts = ObjectFacts {
            uid: "o".into(),
            resource_version: "1".into(),
            labels: Default::default(),
            deletion: None,
            created: jiff::Timestamp::UNIX_EPOCH,
            owners: 0,
            changed_at: at(self.changed),
            content_fields: 0,
            restart: self.restart.as_deref().map(Into::into),
            marks: None,
            ownership: None,
            examined: None,
            trace: Default::default(),
            seen: Default::default(),
        };
        world.set_object(key.clone(), Some(facts));
        if self.not_fetched {
            return;
        }
        let print = |value: &String| KeyPrint {
            digest: digest_key().value(value.as_bytes()),
            size: 1,
            binary: false,
        };
        let print = Fingerprint {
            uid: "o".into(),
            resource_version: "1".into(),
            type_: None,
            immutable: false,
            keys: self.keys.iter().map(|(name, value)| (name.clone(), print(value))).collect(),
            annotations: BTreeMap::new(),
            role: None,
            keeper: None,
        };
        world.assume_fingerprint(key, print);
    }
}

impl Monitor {
    pub(super) fn add(&self, name: &Declarer, world: &mut World) {
        let spec: ConfigMonitorSpec = serde_json::from_value(self.spec.clone()).unwrap();
        let facts = Declared {
            uid: "m".into(),
            resource_version: "1".into(),
            generation: 1,
            created: at(0),
            annotations: BTreeMap::new(),
            compiled: CompiledMonitor::compile(&spec).map(Arc::new),
            spec,
            status: None,
        };
        world.set_monitor(name.clone(), facts);
        let answer = match self.authority.as_deref() {
            Some("unasked") => return,
            Some(_) => Err(Refusal { reason: RefusalReason::Forbidden, message: "no".to_owned() }),
            None => Ok(()),
        };
        let authority = Authority {
            uid: "m".into(),
            generation: 1,
            identity: "user alice".into(),
            answer,
            asked: at(0),
            questions: 0,
            refusals: 0,
        };
        world.set_monitor_authority(name, authority);
    }
}

impl Workload {
    /// Since when something is missing that it uses.
    pub(super) fn missing(&self, key: &WorkloadKey, world: &mut World) {
        if let Some(since) = self.missing_since {
            world.memory_mut().at_workload(key, |memory| memory.missing(true, at(since)));
        }
    }

    /// As [`Case::marks`], for one of several.
    pub(super) fn marks(&self, key: &WorkloadKey, world: &mut World) {
        let inputs = Inputs::of(world, key, &world.workloads()[key]);
        let counted: BTreeSet<ObjectKey> = inputs.objects.keys().cloned().collect();
        let Some(current) = inputs.content(world, &digest_key()) else { return };
        let mut facts = world.workloads()[key].clone();
        let applied = self.applied.as_ref().map(|was| label(was, &current, &counted));
        facts.restarts.applied = applied.map(|label| still_pending(label, self.pending));
        facts.restarts.restarted_for = self.restarted_for.as_ref().map(|was| digest(was, &current));
        if self.failing_with_current {
            let failed = LastRestart {
                content: current.digest.clone(),
                result: RestartResult::Failed(RolloutFault::Deadline),
            };
            world.memory_mut().at_workload(key, |memory| memory.restart_seen(failed));
        }
        let applied = facts.restarts.applied.clone();
        world.edit_workload(key, |known| *known = *facts);
        let Some(remembered) = &self.remembered else { return };
        let went = match remembered.as_str() {
            "under-way" => RestartResult::UnderWay,
            "soaking" => RestartResult::Soaking,
            "through" => RestartResult::Through,
            // A pod that crashes.
            pod => RestartResult::Failed(RolloutFault::PodCrashes(pod.to_owned())),
        };
        let parts: Vec<&str> = applied.as_deref().unwrap().split('.').collect();
        let content = parts[..2].join(".");
        let restarted = LastRestart { content, result: went };
        world.memory_mut().at_workload(key, |memory| memory.restart_seen(restarted));
    }

    /// A record of ours from after the last restart.
    fn is_verified(&self) -> bool {
        self.recorded_by.is_none() && self.last_restart.is_none_or(|last| self.recorded > Some(last))
    }

    fn other_writer(&self) -> Option<OtherWriter> {
        let (manager, when) = match &self.recorded_by {
            Some(manager) => (manager, self.recorded),
            None => (self.templated_by.as_ref()?, self.templated),
        };
        Some(OtherWriter { manager: manager.clone(), at: at(when.unwrap_or(1)) })
    }

    pub(super) fn facts(&self, kind: WorkloadKind) -> WorkloadFacts {
        WorkloadFacts {
            uid: "w".into(),
            resource_version: "1".into(),
            deleting: false,
            selector: Default::default(),
            template_labels: [("app".to_owned(), "web".to_owned())]
                .into_iter()
                .chain(self.labels.clone())
                .collect(),
            references: self.references.iter().map(|text| reference(text)).collect(),
            pull_secrets: self.pulls.iter().map(|name| name.as_str().into()).collect(),
            restarts: RestartFields {
                restart: self.annotation.clone(),
                last_restart: self.last_restart.map(at),
                recorded: match &self.recorded_by {
                    Some(_) => None,
                    None => self.recorded.or(self.applied.is_some().then_some(1)).map(at),
                },
                verified: self.is_verified(),
                other_writer: self.other_writer(),
                track: TrackRecord::read(self.brake.as_deref(), None),
                ..RestartFields::default()
            }
            .into(),
            templated: self.last_restart.max(self.templated).map(at),
            own_deadline: kind == WorkloadKind::Deployment,
            rollout: match self.rollout.as_deref() {
                None => Rollout::Complete,
                Some("unfinished") => Rollout::Unfinished,
                Some("stuck") => Rollout::Stuck,
                Some("paused") => Rollout::Paused,
                Some("on delete") => Rollout::OnDelete,
                Some(other) => match other.strip_prefix("partition ") {
                    Some(partition) => Rollout::Partitioned(partition.parse().unwrap()),
                    None => panic!("no rollout {other}"),
                },
            },
            desired: self.desired,
            available: self.available.unwrap_or(self.desired),
        }
    }
}

impl Pod {
    pub(super) fn facts(&self, workload: &WorkloadKey) -> PodFacts {
        PodFacts {
            name: self.name.clone(),
            uid: format!("uid-{}", self.name),
            created: at(self.created),
            leaving: self.leaving,
            finished: false,
            ready: !self.unready,
            ready_since: self.since.map(at),
            crashing: self.crashing,
            workload: self.of_workload.then(|| workload.clone()),
            controlled: !self.bare,
            untouchable: self.of_job,
        }
    }
}
