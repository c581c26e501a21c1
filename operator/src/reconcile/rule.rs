//! Reconciles the authority of one rule or template: asks the API server what its identity may do. A new
//! answer queues all slots of the rule or template.

use std::sync::Arc;

use super::{
    Again, Lane,
    asker::{Asked, Asker},
    context::{Context, now},
};
use crate::{
    access::authority::{ask_again, says_otherwise},
    names::Declarer,
    plan::{
        Key,
        copy::{can_be_withdrawn, is_too_old},
        slots_to_check,
    },
};

/// Reconciles the authority of rules.
pub(super) struct RuleHandler {
    pub(super) context: Context,
    pub(super) asker: Arc<Asker>,
}

impl RuleHandler {
    pub(super) async fn handle(&self, rule: &Declarer) -> Again {
        let queue = self.context.queue();
        let before = self.context.world().rule_authority(rule).cloned();
        let settled = self.asker.rule(rule).await;
        let (withdrawable, after) = {
            let world = self.context.world();
            let declared = world.declaration(rule);
            let withdrawable = declared.is_some_and(|declared| can_be_withdrawn(&world, rule, declared));
            (withdrawable, world.rule_authority(rule).cloned())
        };
        let is_put_off = match &settled {
            Ok(Asked::Waits(_)) => self.context.world_mut().memory_mut().put_off(rule, now()),
            Ok(Asked::Settled) => {
                // Using the write lock for each rule would delay other handlers.
                if self.context.world().memory().is_put_off(rule) {
                    self.context.world_mut().memory_mut().asked(rule);
                }
                false
            }
            Err(_) => false,
        };
        if is_put_off || says_otherwise(before.as_ref(), after.as_ref()) {
            let slots = slots_to_check(&self.context.world(), rule);
            for slot in slots {
                queue.add_for(Some(rule.namespace().clone()), slot, Lane::Change);
            }
        }
        queue.add(Key::RuleStatus(rule.clone()), Lane::Change);
        if rule.as_annotated().is_some() || rule.as_template().is_some() {
            queue.add(Key::SourceIndex, Lane::Change);
        }
        match settled {
            Ok(Asked::Settled) => {
                ask_again(withdrawable, after.as_ref()).map_or(Again::OnChange, Again::After)
            }
            Ok(Asked::Waits(delay)) => Again::After(delay),
            Err(error) => {
                tracing::warn!(%rule, error = &error as &dyn std::error::Error, "cannot check the rights of the author or ServiceAccount");
                let too_old = |known: &_| withdrawable && is_too_old(known, now());
                self.context.world_mut().forget_rule_authority(rule, too_old);
                Again::Backoff(None)
            }
        }
    }
}
