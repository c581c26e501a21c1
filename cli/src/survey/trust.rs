//! The key for marks and digests. A caller who may not read the key still gets a plan: the plan trusts marks,
//! and compares copies by content.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kube::Client;

use crate::{
    authority::{Question, Subject, refusal},
    digest::DigestKey,
    explain::{RestartReason, Restartable},
    marks::KEY_SECRET,
    model::World,
    names::{Declarer, NamespacedName, ObjectKey, WorkloadKey},
    plan::{
        copy::{CopyAction, SlotPlan},
        restart::{InputDigest, Inputs},
    },
    read::digest_key::{KeyError, passing_digest_key, stored_digest_key},
};

/// The key that a plan uses.
pub(super) struct PlanKey {
    /// Copyrator's key, or a temporary key.
    pub key: DigestKey,
    /// Whether marks are trusted instead of verified.
    pub is_believed: bool,
    /// The note on trusted marks, or on a missing key, for a reader of the plan.
    pub note: Option<String>,
}

/// Reads the key of digests, if the caller may read the key.
pub(super) async fn digest_key(
    client: &Client,
    namespace: &str,
    caller: &Subject,
) -> Result<PlanKey, KeyError> {
    match stored_digest_key(client, namespace).await {
        Ok(Some(key)) => Ok(PlanKey { key, is_believed: false, note: None }),
        Ok(None) => {
            let note = format!(
                "Secret {namespace}/{KEY_SECRET} does not exist, so Copyrator makes a new key when it starts: it then updates existing \
                 copies, but keeps orphaned copies; if Copyrator is in another namespace, name it with --copyrator-namespace"
            );
            Ok(PlanKey { key: passing_digest_key()?, is_believed: false, note: Some(note) })
        }
        Err(KeyError::Api { source, .. }) if matches!(&*source, kube::Error::Api(said) if said.code == 403) =>
        {
            let question = Question {
                subject: caller.clone(),
                verb: "get",
                group: "".into(),
                resource: "secrets".into(),
                subresource: None,
                name: Some(KEY_SECRET.into()),
                namespace: namespace.to_owned(),
            };
            let note = format!(
                "the command cannot verify which objects are copies, because you may not read the digest key: it trusts their annotations \
                 and compares contents, so an object with pasted annotations counts as a copy (few users should have this right: {})",
                refusal(&[&question], &NamespacedName::new(namespace, "plan"), usize::MAX)
            );
            Ok(PlanKey { key: passing_digest_key()?, is_believed: true, note: Some(note) })
        }
        Err(error) => Err(error),
    }
}

/// Makes the marks of objects verify under the temporary key, if they have the labels that the admission
/// policy for copies guards.
pub(super) fn believe_marks(world: &mut World) {
    let Some(key) = world.key().cloned() else { return };
    let copies: Vec<ObjectKey> = world.copies().cloned().collect();
    for slot in copies {
        let Some(mut facts) = world.object(&slot).cloned() else { continue };
        let label = |name: &str| facts.labels.get(name).map(str::to_owned);
        let Some(marks) = facts.marks.as_deref_mut().filter(|marks| marks.is_labelled(label)) else {
            continue;
        };
        let mark = key.mark(&slot, &marks.rule);
        if *marks.mark != mark {
            marks.mark = mark.into();
            world.set_object(slot, Some(facts));
        }
    }
}

/// Makes the digest of a copy agree if its content was read and needs no change. Returns whether any digest
/// was changed.
pub(super) fn believe_digests(world: &mut World, plans: &BTreeMap<ObjectKey, SlotPlan>) -> bool {
    let mut any = false;
    for (slot, plan) in plans {
        let Some(CopyAction::Write(write)) = &plan.action else { continue };
        let (Some(print), Some(facts)) = (world.fingerprint(slot), world.object(slot)) else { continue };
        let intent = &write.intent;
        let is_the_same = intent.same_content(print) && intent.same_meta(facts, print);
        let mut facts = facts.clone();
        let Some(marks) = facts.marks.as_deref_mut().filter(|_| is_the_same && write.take_over.is_none())
        else {
            continue;
        };
        if marks.digest != intent.marks.digest {
            Arc::make_mut(&mut marks.shared).digest.clone_from(&intent.marks.digest);
            world.set_object(slot.clone(), Some(facts));
            any = true;
        }
    }
    any
}

/// The records of workloads, for a caller who may not read the key.
#[derive(Debug, Default)]
pub(super) struct Believed {
    /// The original records, by workload or monitor.
    pub originals: BTreeMap<Restartable, String>,
    /// The workloads and monitors whose record cannot be trusted, and why.
    pub doubtful: BTreeMap<Restartable, (RestartReason, String)>,
}

/// Makes a record agree if nothing that its workload uses was written after the record. For all other
/// workloads, only the key could show whether they run the current content.
pub(super) fn believe_records(world: &mut World, keys: &BTreeSet<WorkloadKey>) -> Believed {
    let mut believed = Believed::default();
    let Some(key) = world.key().cloned() else { return believed };
    for workload in keys {
        let Some(facts) = world.workloads().get(workload) else { continue };
        let (Some(original), recorded) = (facts.restarts.applied.clone(), facts.restarts.recorded) else {
            continue;
        };
        let content = Inputs::of(world, workload, facts).content(world, &key);
        let record = believed.record(Restartable::Workload(workload.clone()), original, recorded, content);
        if record.is_some() {
            world.edit_workload(workload, |facts| facts.restarts.applied = record);
        }
    }
    let monitors: Vec<Declarer> = world.monitors().keys().cloned().collect();
    for monitor in monitors {
        let Some(facts) = world.monitors().get(&monitor) else { continue };
        let (Some(status), Ok(compiled)) = (&facts.status, &facts.compiled) else { continue };
        let Some(original) = status.pods_applied.clone() else { continue };
        let content = Inputs::of_monitor(world, &monitor, compiled).content(world, &key);
        let recorded = world.pods_recorded(&monitor);
        let record = believed.record(Restartable::Pods(monitor.clone()), original, recorded, content);
        if record.is_some() {
            world.edit_monitor(&monitor, |facts| {
                facts.status.iter_mut().for_each(|status| status.pods_applied.clone_from(&record));
            });
        }
    }
    believed
}

impl Believed {
    /// The record under the temporary key, if it can be trusted; `None` also if content is not watched or
    /// could not be read, which the plan itself notices.
    fn record(
        &mut self,
        of: Restartable,
        original: String,
        recorded: Option<Timestamp>,
        content: Option<InputDigest>,
    ) -> Option<String> {
        self.originals.insert(of.clone(), original);
        let content = content?;
        // Within the same second, the order of the write and the record is unknown.
        if content.touched_at < recorded {
            return Some(content.label());
        }
        let message = "an object of the workload was written after its record; to see whether the content changed, you need the digest \
         key, which you may not read";
        self.doubtful.insert(of, (RestartReason::Unverified, message.into()));
        None
    }
}
