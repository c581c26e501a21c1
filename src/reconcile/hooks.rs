//! The webhook's CA and the hooks: looked at every minute, so that drift is repaired.

use std::time::{Duration, SystemTime};

use super::{Again, Reconciler};
use crate::act::{
    certificates::CaError,
    hooks::{CANARY_AGAIN, HookError},
};

const LOOK_EVERY: Duration = Duration::from_secs(60);

impl Reconciler {
    pub(super) async fn keep_hooks(&self) -> Again {
        let policies: Vec<_> = {
            let world = self.world();
            world
                .policies
                .iter()
                .filter(|(_, facts)| facts.compiled.is_ok())
                .map(|(name, facts)| (name.clone(), facts.spec.clone()))
                .collect()
        };
        match self.hooks.keep(&policies, SystemTime::now()).await {
            Ok(()) => Again::After(LOOK_EVERY.min(self.hooks.again())),
            Err(HookError::NotLeading | HookError::Ca(CaError::NotLeading)) => Again::OnChange,
            // Whoever keeps the CA has told it, once.
            Err(HookError::Ca(CaError::Torn { .. } | CaError::Mounted(_))) => Again::Backoff(None),
            Err(error @ HookError::Unreached(_)) => {
                tracing::info!(%error, "waiting for the webhook");
                Again::After(CANARY_AGAIN)
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the hooks are not in order");
                Again::Backoff(None)
            }
        }
    }
}
