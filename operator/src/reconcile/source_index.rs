//! The index of annotated sources, a ConfigMap, which is written if the index differs from the existing
//! ConfigMap.

use std::{sync::Arc, time::Duration};

use super::{Again, Lane, context::Context, pace::StatusPace};
use crate::{
    act::{
        source_index::{Version, write_source_index},
        writer::Writer,
    },
    dry_run::outcome::Outcome,
    names::Declarer,
    plan::{
        Key,
        copy::{SourceIndex, source_index_key},
    },
    read::content::{Content, ContentError, Contents},
};

/// Interval of checks whether all objects are known.
const UNTIL_COMPLETE: Duration = Duration::from_millis(100);
/// Maximum number of attempts to read the index, [`READ_AGAIN`] apart.
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
    /// Reads which grants the previous leader has listed, before the index is written again, and queues
    /// everything that waits for the grants. If the index cannot be read, the API server is asked about each
    /// grant again.
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
                    tracing::warn!(%error, "cannot read the index of annotated sources");
                    tokio::time::sleep(READ_AGAIN).await;
                    continue;
                }
            }
            break;
        }
        let world = &mut *self.context.world_mut();
        world.recall_grants(listed.map(SourceIndex::grants).into_iter().flatten());
        let queue = self.context.queue();
        let is_annotated = |name: &&Declarer| name.as_annotated().is_some();
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
                tracing::warn!(error, "cannot read the index of annotated sources");
                return Again::Backoff(None);
            }
        };
        let before = live.as_ref().and_then(told);
        let (mut index, reads_annotations) = {
            let world = self.context.world();
            (SourceIndex::of(&world, before.as_ref()), world.settings().annotations)
        };
        if let Some(before) = before.as_ref().filter(|_| !reads_annotations) {
            // Annotations are off for now: the next leader that reads annotations needs the earlier grants.
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
                tracing::warn!(index = %at, %message, "cannot write the index of annotated sources");
                Again::Backoff(after)
            }
            Outcome::Refused { message, .. } | Outcome::NeedsReplacing(message) => {
                tracing::error!(index = %at, %message, "the API server refused the index of annotated sources");
                // The next start asks the API server again about the grants that are not listed.
                self.note_listed(index);
                Again::Refused
            }
        }
    }
}

impl SourceIndexHandler {
    /// Notes the listed grants. The proofs of these grants can be written to the sources now, so the statuses
    /// of the sources are queued.
    fn note_listed(&self, index: SourceIndex) {
        let listed = self.context.world_mut().note_listed(index.grants());
        for name in listed {
            self.context.queue().add(Key::RuleStatus(name.clone()), Lane::Change);
            self.context.queue().add(Key::MonitorStatus(name), Lane::Change);
        }
    }
}

/// Returns the index that the ConfigMap contains.
fn told(live: &Content) -> Option<SourceIndex> {
    SourceIndex::from_data(|key| std::str::from_utf8(&live.values.get(key)?.bytes).ok())
}
