//! Tries a new version of a template before the reconciler writes its first object: a strict dry run asks the API server about all
//! objects of one instance. If a field of one object has the wrong type, none of the instance's objects is written.

use std::sync::Arc;

use kube::Client;

use super::context::{Context, now};
use crate::{
    act::{dry_run::tried, outcome::Outcome},
    model::WriteFault,
    names::ObjectKey,
    observe::content::Contents,
    plan::copy::{Acted, CopyAction, SlotPlan, settle_slot, trial, trial::Trial},
};

/// Tries templates.
pub(super) struct TemplateTrial {
    pub(super) context: Context,
    pub(super) client: Client,
    pub(super) contents: Arc<Contents>,
}

impl TemplateTrial {
    /// Returns the outcome of a write that must not be made. Every instance has a trial of its own: an
    /// instance with a value of the wrong type delays no other instance.
    pub(super) async fn refusal(&self, slot: &ObjectKey, plan: &SlotPlan) -> Option<Outcome> {
        let trial = trial::trial(&self.context.world(), slot, plan, now())?;
        let mut has_passed = true;
        for (tried_slot, write) in &trial.writes {
            match tried(&self.client, &self.contents, tried_slot, write).await {
                Outcome::Refused { reason: WriteFault::Mistyped, message } => {
                    return Some(self.refused(slot, &trial, tried_slot, &message));
                }
                // The API server checks types before it answers so.
                Outcome::Done
                | Outcome::NeedsReplacing(_)
                | Outcome::Refused { reason: WriteFault::Unfit | WriteFault::NoRoom, .. } => {}
                _ => has_passed = false,
            }
        }
        if has_passed {
            let (uid, generation) = &trial.version;
            self.context.world_mut().memory_mut().passed(&trial.template, (uid, *generation));
        }
        None
    }

    /// Notes the refusal for all slots of the trial, so that none of them is tried again soon. Returns the outcome for `slot`.
    fn refused(&self, slot: &ObjectKey, trial: &Trial, faulty: &ObjectKey, message: &str) -> Outcome {
        let said = |of: &ObjectKey| match of == faulty {
            true => message.to_owned(),
            false => format!("not written, because {faulty} of the same instance cannot be: {message}"),
        };
        let world = &mut *self.context.world_mut();
        for (other, write) in trial.writes.iter().filter(|(other, _)| other != slot) {
            let refused = Acted::Refused(WriteFault::Mistyped, said(other));
            settle_slot(world, other, &CopyAction::Write(write.clone()), refused, now());
        }
        Outcome::Refused { reason: WriteFault::Mistyped, message: said(slot) }
    }
}
