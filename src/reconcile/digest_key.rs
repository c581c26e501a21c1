//! The key of digests: its Secret is put back where somebody deletes it.

use std::time::Duration;

use super::{Again, Reconciler};

/// How often it is looked for where nobody tells that it is gone.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl Reconciler {
    pub(super) async fn keep_digest_key(&self) -> Again {
        let Some(key) = self.world().key().cloned() else { return Again::OnChange };
        match self.digest_key.keep(&key).await {
            Ok(()) => Again::After(LOOK_EVERY),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the key of digests is not kept");
                Again::Backoff(None)
            }
        }
    }
}
