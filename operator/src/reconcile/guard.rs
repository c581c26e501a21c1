//! The guard judges a copy, or an object that a template declares, by the policies that cover the object,
//! before the object is written.

use std::sync::Arc;

use super::context::{Context, now};
use crate::{
    dry_run::{
        manifest::{as_it_is, as_it_will_be},
        outcome::Outcome,
    },
    model::WriteFault,
    names::ObjectKey,
    plan::copy::{CopyWrite, Guards, judged_by},
    read::content::{ContentError, Contents},
};

/// Judges copies before they are written.
pub(super) struct CopyGuard {
    pub(super) context: Context,
    pub(super) contents: Arc<Contents>,
}

impl CopyGuard {
    /// Returns the outcome of a write that must not be made: a policy refuses the object, or judging it
    /// fails.
    pub(super) async fn refusal(
        &self,
        slot: &ObjectKey,
        write: &CopyWrite,
        guards: Guards,
    ) -> Option<Outcome> {
        let by = guards.judged_by;
        let refused = self.judged(slot, write, guards).await.err();
        // If a policy has changed meanwhile, the policy may not refuse the object any more.
        if refused.is_some() && judged_by(&self.context.world(), slot) != by {
            return Some(Outcome::Stale);
        }
        refused
    }

    async fn judged(&self, slot: &ObjectKey, write: &CopyWrite, guards: Guards) -> Result<(), Outcome> {
        let lost = |error: ContentError| match error {
            ContentError::Gone(_) => Outcome::Stale,
            error => Outcome::retry(error.to_string()),
        };
        let source = self.contents.of_write(slot, write).await.map_err(lost)?.ok_or(Outcome::Stale)?;
        let existing = match &write.replaces {
            None => None,
            Some(version) => {
                let content = self.contents.fetch(slot).await.map_err(lost)?;
                let facts = self.context.world().object(slot).cloned().ok_or(Outcome::Stale)?;
                if facts.resource_version != version.resource_version
                    || content.resource_version != version.resource_version
                {
                    return Err(Outcome::Stale);
                }
                Some((facts, content))
            }
        };
        let existing = existing.as_ref().map(|(facts, content)| (facts, content));
        let new = as_it_will_be(slot, write, &source, existing).to_string();
        let old = existing.map(|(facts, content)| as_it_is(slot, facts, content).to_string());
        // Judging can take half a second for each policy, and ends by its own budget. The message of a panic
        // could quote values, so it is dropped.
        let judge = move || guards.refusal(&new, old.as_deref(), now());
        let judged = tokio::task::spawn_blocking(judge).await;
        let refusal = judged.map_err(|_| "the check against the policies panicked".to_owned());
        match refusal.and_then(|refusal| refusal.map_err(|error| error.to_string())) {
            Ok(None) => Ok(()),
            Ok(Some(message)) | Err(message) => {
                Err(Outcome::Refused { reason: WriteFault::RefusedByPolicy, message })
            }
        }
    }
}
