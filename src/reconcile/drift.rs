//! Whether an object of which only the named fields are kept still has them, for the planner.

use std::sync::Arc;

use kube::Client;

use super::context::{Context, now};
use crate::{
    act::dry_run::differs,
    names::ObjectKey,
    observe::content::{ContentError, Contents},
    plan::copy::as_declared,
};

/// Examines objects.
pub(super) struct Examiner {
    pub(super) context: Context,
    pub(super) client: Client,
    pub(super) contents: Arc<Contents>,
}

impl Examiner {
    /// Notes in the world whether the object differs from what its template declares. Returns whether that is known of the edition
    /// that the watch has told of.
    ///
    /// # Errors
    /// The API server did not answer.
    pub(super) async fn examine(&self, slot: &ObjectKey) -> Result<bool, ContentError> {
        let (facts, write) = {
            let world = self.context.world();
            let Some(facts) = world.object(slot) else { return Ok(true) };
            (facts.clone(), as_declared(&world, slot, now()))
        };
        let differs = match write {
            Some(write) => match differs(&self.client, &self.contents, (slot, &facts), &write).await? {
                Some(differs) => differs,
                None => return Ok(false),
            },
            // Nothing would be written now; the planner says why.
            None => true,
        };
        self.context.world_mut().note_drift(slot, facts.edition(), differs);
        Ok(true)
    }
}
