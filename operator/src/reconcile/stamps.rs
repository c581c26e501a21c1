//! The protection of author stamps: dry runs test whether the API server accepts a forged stamp.

use kube::Client;

use super::{Lane, context::Context};
use crate::{
    act::stamp_guard::{is_guarded, rules_are_guarded},
    model::Authority,
    names::Declarer,
    plan::Key,
};

/// Tests whether the API server accepts a forged author stamp.
pub(super) struct StampCheck {
    pub(super) context: Context,
    pub(super) client: Client,
}

impl StampCheck {
    /// Tests whether author stamps are protected, and returns the result: once stamps are protected, the next
    /// test is not urgent. If the result has changed, every rule and monitor whose stamp needs the protection
    /// is queued.
    ///
    /// # Errors
    /// The reason why the protection cannot be tested now.
    pub(super) async fn look(&self) -> Result<bool, String> {
        let (annotations, unhooked, own_namespace) = {
            let world = self.context.world();
            (
                world.settings().annotations,
                world.namespace_scope().is_some(),
                world.settings().own_namespace.clone(),
            )
        };
        if !annotations && !unhooked {
            return Ok(true);
        }
        let guarded = (!unhooked || rules_are_guarded(&self.client, &own_namespace).await?)
            && (!annotations || is_guarded(&self.client, &own_namespace).await?);
        let world = &mut *self.context.world_mut();
        if !world.set_stamps_guarded(guarded) {
            return Ok(guarded);
        }
        if !guarded {
            let on = if unhooked { "rules, monitors and annotations" } else { "annotations" };
            tracing::warn!(
                "admission policies do not protect the author annotations of {on}: Copyrator does not trust new ones"
            );
        }
        let counts = |of: &&Declarer| unhooked || of.as_annotated().is_some();
        // Forget refusals, so that the API server is asked again at once.
        let is_refused = |known: &Authority| known.answer.is_err();
        for rule in world.rules().keys().filter(counts).cloned().collect::<Vec<_>>() {
            world.forget_rule_authority(&rule, is_refused);
            self.context.queue().add(Key::Rule(rule), Lane::Change);
        }
        for monitor in world.monitors().keys().filter(counts).cloned().collect::<Vec<_>>() {
            world.forget_monitor_authority(&monitor, is_refused);
            self.context.queue().add(Key::Monitor(monitor), Lane::Change);
        }
        Ok(guarded)
    }
}
