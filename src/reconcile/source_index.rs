//! The index of annotated sources: published where it differs from what is there.

use std::{sync::Arc, time::Duration};

use super::{Again, Lane, context::Context, pace::StatusPace};
use crate::{
    act::{
        outcome::Outcome,
        source_index::{Version, write_source_index},
        writer::Writer,
    },
    names::NamespacedName,
    observe::content::{Content, ContentError, Contents},
    plan::{
        Key,
        copy::{SourceIndex, source_index_key},
    },
};

/// When to see again whether all objects are known.
const UNTIL_COMPLETE: Duration = Duration::from_millis(100);
/// How often the index is read at most, where that fails, and when again.
const MOST_READS: usize = 5;
const READ_AGAIN: Duration = Duration::from_secs(2);

/// Reconciles the ConfigMap with the index.
pub(super) struct SourceIndexHandler {
    pub(super) context: Context,
    pub(super) pace: Arc<StatusPace>,
    pub(super) contents: Arc<Contents>,
    pub(super) writer: Writer,
}

impl SourceIndexHandler {
    /// Reads which grants the leader before has listed, before the index is written anew, and has everything
    /// looked at that waits for that. Where the index cannot be read, everything is asked again.
    pub(super) async fn recall(&self) {
        if !self.context.world().is_recalling() {
            return;
        }
        while !self.context.world().is_complete() {
            tokio::time::sleep(UNTIL_COMPLETE).await;
        }
        let at = source_index_key(&self.context.world());
        let mut listed = None;
        for _ in 0..MOST_READS {
            match self.contents.fetch(&at).await {
                Ok(live) => listed = told(&live),
                Err(ContentError::Gone(_)) => {}
                Err(error) => {
                    tracing::warn!(%error, "the index of annotated sources cannot be read");
                    tokio::time::sleep(READ_AGAIN).await;
                    continue;
                }
            }
            break;
        }
        let world = &mut *self.context.world_mut();
        world.recall_grants(listed.map(SourceIndex::grants).into_iter().flatten());
        let queue = self.context.queue();
        let is_annotated = |name: &&NamespacedName| name.annotated().is_some();
        let rules = world.rules().keys().filter(is_annotated).cloned().map(Key::Rule);
        let monitors = world.monitors().keys().filter(is_annotated).cloned().map(Key::Monitor);
        rules.chain(monitors).chain([Key::SourceIndex]).for_each(|key| queue.add(key, Lane::Change));
    }

    pub(super) async fn handle(&self, key: &Key) -> Again {
        if self.context.world().is_recalling() {
            return Again::OnChange;
        }
        let at = source_index_key(&self.context.world());
        let live = match self.contents.fetch(&at).await {
            Ok(live) => Some(live),
            Err(ContentError::Gone(_)) => None,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the index of annotated sources cannot be read");
                return Again::Backoff(None);
            }
        };
        let before = live.as_ref().and_then(told);
        let (mut index, reads_annotations) = {
            let world = self.context.world();
            (SourceIndex::of(&world, before.as_ref()), world.settings().annotations)
        };
        if let Some(before) = before.as_ref().filter(|_| !reads_annotations) {
            // Annotations are off for now: the next leader that reads them needs what was granted.
            index.sources.clone_from(&before.sources);
        }
        if (live.is_none() && index.is_empty()) || before.as_ref() == Some(&index) {
            self.note_listed(index);
            return Again::OnChange;
        }
        let version = live
            .as_ref()
            .map(|live| Version { uid: live.uid.clone(), resource_version: live.resource_version.clone() });
        match write_source_index(&self.writer, &at, version.as_ref(), &index).await {
            Outcome::Done => {
                self.pace.told(key);
                self.note_listed(index);
                Again::OnChange
            }
            Outcome::NotLeading | Outcome::NamespaceGone => Again::OnChange,
            Outcome::Stale => Again::Backoff(None),
            Outcome::Retry { after, message, .. } => {
                tracing::warn!(index = %at, %message, "the index of annotated sources cannot be written");
                Again::Backoff(after)
            }
            Outcome::Refused { message, .. } | Outcome::NeedsReplacing(message) => {
                tracing::error!(index = %at, %message, "the index of annotated sources was refused");
                // Nothing is lost: what it would list is asked again after the next start.
                self.note_listed(index);
                Again::Refused
            }
        }
    }
}

impl SourceIndexHandler {
    /// The proofs of what is listed now can be written on the sources.
    fn note_listed(&self, index: SourceIndex) {
        let listed = self.context.world_mut().note_listed(index.grants());
        for name in listed {
            self.context.queue().add(Key::RuleStatus(name.clone()), Lane::Change);
            self.context.queue().add(Key::MonitorStatus(name), Lane::Change);
        }
    }
}

/// What the index that is there tells.
fn told(live: &Content) -> Option<SourceIndex> {
    SourceIndex::from_data(|key| std::str::from_utf8(&live.values.get(key)?.bytes).ok())
}
