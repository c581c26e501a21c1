//! One rule: is its identity allowed to? Where the answer is a new one, every one of its slots is looked at.

use super::{
    Again, Lane, Reconciler,
    authority::{Decided, about_rule, ask_again, forget_old, keep, says_otherwise},
    now,
};
use crate::{
    authority::AskError,
    model::{NamespacedName, Places},
    plan::{Key, slots_to_check},
};

impl Reconciler {
    pub(super) async fn rule(&self, rule: &NamespacedName) -> Again {
        let before = self.world().rule_authority.get(rule).cloned();
        let settled = self.settle_rule(rule).await;
        let (account, after) = {
            let world = self.world();
            let facts = world.rules.get(rule);
            let account = facts.is_some_and(|facts| facts.spec.service_account_name.is_some());
            (account, world.rule_authority.get(rule).cloned())
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
            forget_old(&mut self.world_mut().rule_authority, rule, account, now());
            return Again::Backoff(None);
        }
        ask_again(account, after.as_ref())
    }

    /// Asks whether the rule's identity may do what it declares, unless that is known.
    async fn settle_rule(&self, rule: &NamespacedName) -> Result<(), AskError> {
        let (inquiry, sight) = {
            let world = &mut *self.world_mut();
            let sight = world.places.as_ref().map(Places::changes);
            match about_rule(world, rule, &self.trusted_writers, now()) {
                None | Some(Decided::Known) => return Ok(()),
                Some(Decided::Answer(authority)) => {
                    keep(&mut world.rule_authority, rule, world.rules.get(rule), authority);
                    return Ok(());
                }
                Some(Decided::Ask(inquiry)) => (inquiry, sight),
            }
        };
        let authority = inquiry.ask(&*self.authorizer, now()).await?;
        let world = &mut *self.world_mut();
        // Of a namespace that has come into sight meanwhile nobody was asked; all rules are looked at again for that.
        if world.places.as_ref().map(Places::changes) == sight {
            keep(&mut world.rule_authority, rule, world.rules.get(rule), authority);
        }
        Ok(())
    }
}
