//! The key of digests: its Secret is put back where somebody deletes it.

use std::time::Duration;

use super::{Again, context::Context};
use crate::act::keys::KeyKeeper;

/// How often it is looked for where nobody tells that it is gone.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Reconciles the Secret with the key.
pub(super) struct DigestKeyHandler {
    pub(super) context: Context,
    pub(super) keeper: KeyKeeper,
}

impl DigestKeyHandler {
    pub(super) async fn handle(&self) -> Again {
        let Some(key) = self.context.world().key().cloned() else { return Again::OnChange };
        match self.keeper.keep(&key).await {
            Ok(()) => Again::After(LOOK_EVERY),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the key of digests is not kept");
                Again::Backoff(None)
            }
        }
    }

    /// Another process keeps it now.
    pub(super) fn rest(&self) {
        self.keeper.rest();
    }
}
