//! Drift: whether a write would change an existing object, a fact that the planner needs.

use std::sync::Arc;

use kube::Client;

use super::context::{Context, now};
use crate::{
    dry_run::copies::{Examined, examined},
    model::Comparison,
    names::ObjectKey,
    plan::copy::{as_declared, settle_examined},
    read::content::{ContentError, Contents},
};

/// Compares objects with what rules and templates declare, by a dry run of the apply.
pub(super) struct Examiner {
    pub(super) context: Context,
    pub(super) client: Client,
    pub(super) contents: Arc<Contents>,
}

impl Examiner {
    /// Notes in the world whether a write would change the object. Returns whether the result is about the
    /// edition that the watch has reported.
    ///
    /// # Errors
    /// The API server did not answer.
    pub(super) async fn examine(&self, slot: &ObjectKey) -> Result<bool, ContentError> {
        let (facts, write) = {
            let world = self.context.world();
            let Some(facts) = world.object(slot) else { return Ok(true) };
            (facts.clone(), as_declared(&world, slot, now()))
        };
        let Some(write) = write else {
            // The plan is to write nothing now; the planner reports why.
            self.context.world_mut().note_drift(slot, facts.edition(), true);
            return Ok(true);
        };
        let examined = examined(&self.client, &self.contents, slot, &facts, &write).await?;
        let Some(Examined { differs, compared, not_kept }) = examined else { return Ok(false) };
        let world = &mut *self.context.world_mut();
        let comparison = Comparison { differs, compared };
        let differs = settle_examined(world, slot, &write.intent.marks.digest, comparison, not_kept);
        world.note_drift(slot, facts.edition(), differs);
        Ok(true)
    }
}
