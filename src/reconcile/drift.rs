//! Whether an object of which only the named fields are kept still has them, for the planner.

use std::sync::Arc;

use kube::Client;

use super::context::{Context, now};
use crate::{
    act::dry_run::{Examination, examined},
    model::NotKept,
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
        let (facts, write, remembered) = {
            let world = self.context.world();
            let Some(facts) = world.object(slot) else { return Ok(true) };
            let remembered = world.memory().slot(slot).not_kept.clone();
            (facts.clone(), as_declared(&world, slot, now()), remembered)
        };
        let Some(write) = write else {
            // Nothing would be written now; the planner says why.
            self.context.world_mut().note_drift(slot, facts.edition(), true);
            return Ok(true);
        };
        let digest = &write.intent.marks.digest;
        let left_out = remembered.filter(|it| it.digest == *digest).map(|it| it.fields).unwrap_or_default();
        let examined = examined(&self.client, &self.contents, (slot, &facts), (&write, &left_out)).await?;
        let Some(examined) = examined else { return Ok(false) };
        let mut world = self.context.world_mut();
        world.note_drift(slot, facts.edition(), matches!(examined, Examination::Differs));
        if let Examination::InOrder(fields) = examined {
            let not_kept = NotKept::of(digest, fields);
            world.memory_mut().at_slot(slot, |slot| slot.not_kept = not_kept);
        }
        Ok(true)
    }
}
