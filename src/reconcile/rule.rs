//! One rule: is its identity allowed to, and then every one of its slots.

use super::{
    Again, Lane, Reconciler,
    authority::{Asking, Decided, ask_again},
    now,
};
use crate::{
    authority::{AskError, rule_questions},
    model::NamespacedName,
    plan::{Key, slots_to_check},
};

impl Reconciler {
    pub(super) async fn rule(&self, rule: &NamespacedName) -> Again {
        let settled = self.settle_rule(rule).await;
        let keys = slots_to_check(&self.world(), rule);
        for key in keys {
            self.queue.add(key, Lane::Change);
        }
        self.queue.add(Key::RuleStatus(rule.clone()), Lane::Change);
        if let Err(error) = settled {
            tracing::warn!(%rule, error = &error as &dyn std::error::Error, "its authority is not known");
            return Again::Backoff(None);
        }
        let world = self.world();
        let account = world.rules.get(rule).is_some_and(|facts| facts.spec.service_account_name.is_some());
        ask_again(account, world.rule_authority.get(rule))
    }

    /// Asks whether the rule's identity may do what it declares, unless that is known.
    pub(super) async fn settle_rule(&self, rule: &NamespacedName) -> Result<(), AskError> {
        let inquiry = {
            let mut world = self.world_mut();
            let Some(facts) = world.rules.get(rule).filter(|facts| facts.compiled.is_ok()) else {
                return Ok(());
            };
            let account = facts.spec.service_account_name.as_deref();
            let settled = facts.status.as_ref().and_then(|status| status.authorized_generation);
            let asking = Asking::of(&rule.namespace, facts, account, settled, world.rule_authority.get(rule));
            let declared = |subject: &_| rule_questions(&rule.namespace, &facts.spec, subject);
            match asking.decide(&self.trusted_writers, declared, now()) {
                Decided::Known => return Ok(()),
                Decided::Answer(authority) => {
                    world.rule_authority.insert(rule.clone(), authority);
                    return Ok(());
                }
                Decided::Ask(inquiry) => inquiry,
            }
        };
        let authority = inquiry.ask(&*self.authorizer, now()).await?;
        self.world_mut().rule_authority.insert(rule.clone(), authority);
        Ok(())
    }
}
