//! Fetches what a plan lacks into the world.

use std::sync::Arc;

use kube::Client;

use super::{
    asker::Asker,
    context::{Context, now},
    drift::Examiner,
    pace::STATUS_AFTER,
};
use crate::{
    access::AskError,
    dry_run::outcome::lacking,
    model::{World, WriteFault},
    names::ObjectKey,
    observe::existing::existing,
    plan::{
        Key, Need,
        copy::{claims::is_copied, plan_slot},
    },
    read::{
        content::{ContentError, Contents},
        pods,
    },
};

/// Whether planning again makes sense now.
pub(super) enum Fetched {
    /// The world has all facts that were lacking.
    All,
    /// The API server has a newer version than our watch has reported; an event will follow.
    Ahead,
    /// A list is not complete yet; its completion will queue the key.
    Unlisted,
}

/// Why something could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Pods(#[from] pods::PodsError),
    #[error(transparent)]
    Ask(#[from] AskError),
}

/// Fetches content, pods and answers about rights.
pub(super) struct Fetcher {
    pub(super) context: Context,
    pub(super) client: Client,
    pub(super) contents: Arc<Contents>,
    pub(super) asker: Arc<Asker>,
    pub(super) examiner: Examiner,
}

impl Fetcher {
    pub(super) async fn fetch(&self, needs: &[Need]) -> Result<Fetched, FetchError> {
        let mut fetched = Fetched::All;
        for need in needs {
            match need {
                Need::Fingerprint(key) => {
                    let fetched_one = self.fetch_fingerprint(key).await;
                    self.note_unread(key, fetched_one.as_ref().err());
                    if !fetched_one? {
                        fetched = Fetched::Ahead;
                    }
                }
                Need::List(..) => return Ok(Fetched::Unlisted),
                Need::Existing(slot) => {
                    let found = self.existing(slot).await;
                    self.note_unread(slot, found.as_ref().err());
                    found?;
                }
                Need::Drift(slot) => {
                    let examined = self.examiner.examine(slot).await;
                    self.note_unread(slot, examined.as_ref().err());
                    if !examined? {
                        fetched = Fetched::Ahead;
                    }
                }
                Need::Pods(workload) => {
                    let Some(facts) = self.context.world().workloads().get(workload).cloned() else {
                        continue;
                    };
                    let seen = pods::of_workload(&self.client, workload, &facts, now()).await?;
                    self.context.world_mut().set_pods(workload, seen);
                }
                Need::SelectedPods(monitor) => {
                    let selector = self.context.world().monitors().get(monitor).and_then(|facts| {
                        facts.spec.workloads.as_ref().and_then(|workloads| workloads.pod_selector.clone())
                    });
                    let Some(selector) = selector else { continue };
                    let seen = pods::of_selector(&self.client, monitor, &selector, now()).await?;
                    self.context.world_mut().set_selected_pods(monitor, seen);
                }
                Need::Right(rule, right, namespace) => {
                    self.asker.right(rule, right, namespace).await?;
                }
            }
        }
        Ok(fetched)
    }

    /// Notes why the content of an object cannot be read: a problem of the rules that copy it, until a read
    /// succeeds.
    fn note_unread(&self, object: &ObjectKey, error: Option<&ContentError>) {
        let Some(error) = error else {
            if self.context.world().memory().source(object).unread().is_some() {
                self.context.world_mut().memory_mut().content_read(object);
            }
            return;
        };
        let lacking = match error {
            ContentError::Fetch { source, .. } => lacking(source),
            _ => None,
        };
        let why = lacking.map(|message| (WriteFault::Forbidden, message)).unwrap_or_else(|| {
            let cause =
                std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
            let fault = match error {
                ContentError::TooManyKeys(_) => WriteFault::TooLarge,
                _ => WriteFault::Failed,
            };
            (fault, format!("{error}{cause}"))
        });
        self.context.world_mut().memory_mut().content_unreadable(object, why);
    }

    /// Asks for an object that no watch shows. Returns whether the answer is news.
    pub(super) async fn existing(&self, slot: &ObjectKey) -> Result<bool, ContentError> {
        let Some(answer) = existing(&self.client, slot).await? else { return Ok(false) };
        let world = &mut *self.context.world_mut();
        let version = |world: &World| world.object(slot).map(|facts| facts.resource_version.clone());
        let before = version(world);
        answer(world, now());
        match world.object(slot).map(|facts| facts.seen.is_only_asked()) {
            Some(true) => {
                let payer = plan_slot(world, slot, now()).rule.map(|rule| rule.namespace().clone());
                let payer = payer.unwrap_or_else(|| slot.namespace.clone());
                world.memory_mut().in_the_way(slot, &payer, now());
            }
            Some(false) => {}
            None => world.memory_mut().found_empty(slot),
        }
        Ok(version(world) != before)
    }

    /// Fetches a fingerprint. Returns whether the fingerprint is of the version that the watch has reported.
    async fn fetch_fingerprint(&self, object: &ObjectKey) -> Result<bool, ContentError> {
        let is_shown = |world: &World| world.object(object).is_none_or(|facts| !facts.seen.is_only_asked());
        if !is_shown(&self.context.world()) {
            self.existing(object).await?;
        }
        let (wanted, key, is_copied) = {
            let world = self.context.world();
            let Some(facts) = world.object(object) else { return Ok(true) };
            let Some(key) = world.key().cloned() else { return Ok(false) };
            (facts.resource_version.clone(), key, is_copied(&world, object, facts))
        };
        // The content stays cached for the task that writes it next.
        let read = match is_copied {
            true => self.contents.print_of_copied(object, &wanted, &key).await,
            false => self.contents.print(object, &wanted, &key).await,
        };
        let print = match read {
            Ok(print) => print,
            // The watch will report the deletion.
            Err(ContentError::Gone(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut world = self.context.world_mut();
        world.set_fingerprint(object, print);
        let is_known = world.fingerprint(object).is_some();
        // The content may change the status of each rule that copies the object, not only of the rule that
        // needed it.
        let rules =
            world.rules().copying_from(&object.name).filter(|(_, compiled)| compiled.kind == object.kind);
        let rules: Vec<Key> = rules.map(|(rule, _)| Key::RuleStatus(rule.clone())).collect();
        drop(world);
        for rule in rules {
            self.context.queue().add_by(rule, STATUS_AFTER);
        }
        Ok(is_known)
    }
}
