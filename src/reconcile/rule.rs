//! One rule: is its identity allowed to? Where the answer is a new one, every one of its slots is looked at.

use super::{
    Again, Lane, Reconciler,
    authority::{Decided, about_rule, ask_again, can_be_withdrawn, is_too_old, says_otherwise},
    now,
};
use crate::{
    access::AskError,
    authority::Bounds,
    model::World,
    names::NamespacedName,
    plan::{Key, copy::targets::bounds, slots_to_check},
};

impl Reconciler {
    pub(super) async fn rule(&self, rule: &NamespacedName) -> Again {
        let before = self.world().rule_authority(rule).cloned();
        let settled = self.settle_rule(rule).await;
        let (withdrawable, after) = {
            let world = self.world();
            let withdrawable = world.rules().get(rule).is_some_and(|facts| can_be_withdrawn(rule, facts));
            (withdrawable, world.rule_authority(rule).cloned())
        };
        if says_otherwise(before.as_ref(), after.as_ref()) {
            let slots = slots_to_check(&self.world(), rule);
            for slot in slots {
                self.queue.add(slot, Lane::Change);
            }
        }
        self.queue.add(Key::RuleStatus(rule.clone()), Lane::Change);
        if rule.annotated().is_some() {
            self.queue.add(Key::SourceIndex, Lane::Change);
        }
        if let Err(error) = settled {
            tracing::warn!(%rule, error = &error as &dyn std::error::Error, "its authority is not known");
            self.world_mut().forget_rule_authority(rule, |known| withdrawable && is_too_old(known, now()));
            return Again::Backoff(None);
        }
        ask_again(withdrawable, after.as_ref())
    }

    /// Asks whether the rule's identity may do what it declares, unless that is known.
    async fn settle_rule(&self, rule: &NamespacedName) -> Result<(), AskError> {
        let (inquiry, asked) = {
            let world = &mut *self.world_mut();
            let asked = named(world, rule);
            match about_rule(world, rule, &self.trusted_writers, now()) {
                None | Some(Decided::Known) => return Ok(()),
                Some(Decided::Answer(authority)) => {
                    world.note_rule_authority(rule, authority);
                    return Ok(());
                }
                Some(Decided::Ask(inquiry)) => (inquiry, asked),
            }
        };
        let authority = inquiry.ask(&*self.authorizer, now()).await?;
        let world = &mut *self.world_mut();
        // Nobody was asked about a namespace that has come meanwhile, or come into sight; the rule is looked
        // at again for that.
        if named(world, rule) == asked {
            world.note_rule_authority(rule, authority);
        }
        Ok(())
    }
}

/// The namespaces that a rule's identity is asked about one by one, as they are now.
fn named(world: &World, rule: &NamespacedName) -> Option<Bounds> {
    let compiled = world.rules().get(rule)?.compiled.as_ref().ok()?;
    Some(bounds(world, rule, compiled))
}
