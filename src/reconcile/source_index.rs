//! The index of annotated sources: published where it differs from what is there.

use std::sync::Arc;

use super::{Again, context::Context, pace::StatusPace};
use crate::{
    act::{
        outcome::Outcome,
        source_index::{Version, write_source_index},
        writer::Writer,
    },
    observe::content::{Content, ContentError, Contents},
    plan::{
        Key,
        copy::{SourceIndex, source_index_key},
    },
};

/// Reconciles the ConfigMap with the index.
pub(super) struct SourceIndexHandler {
    pub(super) context: Context,
    pub(super) pace: Arc<StatusPace>,
    pub(super) contents: Arc<Contents>,
    pub(super) writer: Writer,
}

impl SourceIndexHandler {
    pub(super) async fn handle(&self, key: &Key) -> Again {
        let (at, index) = {
            let world = self.context.world();
            (source_index_key(&world), SourceIndex::of(&world))
        };
        let live = match self.contents.fetch(&at).await {
            Ok(live) => Some(live),
            Err(ContentError::Gone(_)) => None,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the index of annotated sources cannot be read");
                return Again::Backoff(None);
            }
        };
        if live.as_ref().map_or(index.is_empty(), |live| told(live).as_ref() == Some(&index)) {
            return Again::OnChange;
        }
        let version = live
            .as_ref()
            .map(|live| Version { uid: live.uid.clone(), resource_version: live.resource_version.clone() });
        match write_source_index(&self.writer, &at, version.as_ref(), &index).await {
            Outcome::Done => {
                self.pace.told(key);
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
                Again::Refused
            }
        }
    }
}

/// What the index that is there tells.
fn told(live: &Content) -> Option<SourceIndex> {
    SourceIndex::from_data(|key| std::str::from_utf8(&live.values.get(key)?.bytes).ok())
}
