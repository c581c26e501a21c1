//! One rule: is its identity allowed to? Where the answer is a new one, every one of its slots is looked at.

use super::{
    Again, Lane, Reconciler,
    authority::{Asking, Decided, ask_again, forget_old, keep, says_otherwise},
    now,
};
use crate::{
    authority::{AskError, rule_questions},
    model::NamespacedName,
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
        if let Err(error) = settled {
            tracing::warn!(%rule, error = &error as &dyn std::error::Error, "its authority is not known");
            forget_old(&mut self.world_mut().rule_authority, rule, account, now());
            return Again::Backoff(None);
        }
        ask_again(account, after.as_ref())
    }

    /// Asks whether the rule's identity may do what it declares, unless that is known.
    async fn settle_rule(&self, rule: &NamespacedName) -> Result<(), AskError> {
        let inquiry = {
            let world = &mut *self.world_mut();
            let Some(facts) = world.rules.get(rule).filter(|facts| facts.compiled.is_ok()) else {
                return Ok(());
            };
            let account = facts.spec.service_account_name.as_deref();
            let granted = world.key.as_ref().is_some_and(|key| facts.is_granted(key));
            let asking = Asking::of(rule, facts, account, granted, world.rule_authority.get(rule));
            let declared = |subject: &_| rule_questions(&rule.namespace, &facts.spec, subject);
            match asking.decide(&self.trusted_writers, declared, now()) {
                Decided::Known => return Ok(()),
                Decided::Answer(authority) => {
                    keep(&mut world.rule_authority, rule, Some(facts), authority);
                    return Ok(());
                }
                Decided::Ask(inquiry) => inquiry,
            }
        };
        let authority = inquiry.ask(&*self.authorizer, now()).await?;
        let world = &mut *self.world_mut();
        keep(&mut world.rule_authority, rule, world.rules.get(rule), authority);
        Ok(())
    }
}
