//! The Secret with the key of digests, which the reconciler creates again if somebody deletes it.

use std::time::Duration;

use super::{Again, context::Context};
use crate::act::keys::KeyKeeper;

/// Interval of checks for the Secret, in case no watch reports its deletion.
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
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot keep the Secret with the digest key"
                );
                Again::Backoff(None)
            }
        }
    }

    /// Stops reporting: a different process maintains the Secret now.
    pub(super) fn rest(&self) {
        self.keeper.rest();
    }
}
