//! Tries a new version of a template before the reconciler writes its first object: a strict dry run asks the API server about all
//! objects of one instance. If a field of one object has the wrong type, none of the instance's objects is written.

use std::sync::Arc;

use kube::Client;

use super::{
    Lane,
    context::{Context, now},
};
use crate::{
    dry_run::{copies::tried, outcome::Outcome},
    model::{SpecVersion, WriteFault},
    names::ObjectKey,
    plan::{
        Key,
        copy::{Acted, CopyAction, forget_attempt, settle_slot, trial::Trial},
    },
    read::content::Contents,
};

/// Tries templates.
pub(super) struct TemplateTrial {
    pub(super) context: Context,
    pub(super) client: Client,
    pub(super) contents: Arc<Contents>,
}

impl TemplateTrial {
    /// Returns the outcome of a write that must not be made. Until an instance has passed, every instance has
    /// a separate trial: an instance with a value of the wrong type delays no other instance.
    pub(super) async fn refusal(&self, slot: &ObjectKey, trial: &Trial) -> Option<Outcome> {
        if let Some((faulty, message)) = &trial.known {
            let message = not_written(faulty, message);
            return Some(Outcome::Refused { reason: WriteFault::HeldBack, message });
        }
        for (tried_slot, write) in &trial.writes {
            match tried(&self.client, &self.contents, tried_slot, write).await {
                Outcome::Refused { reason: WriteFault::Mistyped, message } => {
                    return Some(self.refused(slot, trial, tried_slot, &message));
                }
                // The API server checks types before it gives one of these answers.
                Outcome::Done | Outcome::NeedsReplacing(_) | Outcome::Refused { .. } => {}
                // The trial has no result: the write itself reports the failure.
                Outcome::Stale | Outcome::NamespaceGone | Outcome::Retry { .. } | Outcome::NotLeading => {
                    return None;
                }
            }
        }
        if trial.is_whole {
            let (uid, generation) = &trial.version;
            let version = SpecVersion { uid, generation: *generation };
            self.context.world_mut().memory_mut().passed(&trial.template, version);
        }
        self.release(trial);
        None
    }

    /// Queues the objects that an earlier type error held back.
    fn release(&self, trial: &Trial) {
        for slot in &trial.held_back {
            forget_attempt(&mut self.context.world_mut(), slot);
            let tenant = Some(trial.template.namespace().clone());
            self.context.queue().add_for(tenant, Key::Slot(slot.clone()), Lane::Change);
        }
    }

    /// Notes the refusal for all slots of the trial, so that none of them is tried again soon. Returns the outcome for `slot`.
    fn refused(&self, slot: &ObjectKey, trial: &Trial, faulty: &ObjectKey, message: &str) -> Outcome {
        let said = |of: &ObjectKey| match of == faulty {
            true => (WriteFault::Mistyped, message.to_owned()),
            false => (WriteFault::HeldBack, not_written(faulty, message)),
        };
        let world = &mut *self.context.world_mut();
        for (other, write) in trial.writes.iter().filter(|(other, _)| other != slot) {
            let (reason, message) = said(other);
            let refused = Acted::Refused(reason, message);
            settle_slot(world, other, &CopyAction::Write(write.clone()), refused, now());
        }
        let (reason, message) = said(slot);
        Outcome::Refused { reason, message }
    }
}

/// The message about an object that is not written because a different object of its instance is faulty.
fn not_written(faulty: &ObjectKey, message: &str) -> String {
    format!("not written, because {faulty} of the same instance is invalid: {message}")
}
