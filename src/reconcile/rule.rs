//! One rule: is its identity allowed to, and then every one of its slots.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Again, Lane, Reconciler, now};
use crate::{
    authority::{AskError, Identity, IdentityRequired, rule_questions, settle},
    model::{Authority, NamespacedName},
    plan::{Key, slots_to_check},
};

/// How old an answer about a ServiceAccount may be when something is written with it.
pub(super) const ACCOUNT_ANSWER: SignedDuration = SignedDuration::from_secs(30);
/// When a ServiceAccount is asked for again, and an author who was refused: a right given since counts.
const ASK_AGAIN: Duration = Duration::from_secs(30);

impl Reconciler {
    pub(super) async fn rule(&self, rule: &NamespacedName) -> Again {
        let settled = self.settle_rule(rule, ACCOUNT_ANSWER).await;
        let keys = slots_to_check(&self.world(), rule);
        for key in keys {
            self.queue.add(key, Lane::Change);
        }
        self.queue.add(Key::RuleStatus(rule.clone()), Lane::Change);
        match settled {
            Ok(()) => self.ask_again(rule),
            Err(error) => {
                tracing::warn!(%rule, error = &error as &dyn std::error::Error, "its authority is not known");
                Again::Backoff(None)
            }
        }
    }

    /// Asks whether the rule's identity may do what it declares, unless that is known: an author is asked once for
    /// each written spec, as RBAC's own escalation check does; a ServiceAccount again when the answer is too old.
    pub(super) async fn settle_rule(
        &self,
        rule: &NamespacedName,
        oldest: SignedDuration,
    ) -> Result<(), AskError> {
        let (uid, generation, identity, questions) = {
            let mut world = self.world_mut();
            let Some(facts) = world.rules.get(rule).filter(|facts| facts.compiled.is_ok()) else {
                return Ok(());
            };
            let account = facts.spec.service_account_name.as_deref();
            let identity =
                Identity::of_stored(&rule.namespace, account, &facts.annotations, &self.trusted_writers);
            let known = world.rule_authority.get(rule);
            let settled = facts.status.as_ref().and_then(|status| status.authorized_generation);
            let asking = Asking { uid: &facts.uid, generation: facts.generation, account, settled, known };
            match asking.decide(identity, oldest, now()) {
                Decided::Known => return Ok(()),
                Decided::Answer(authority) => {
                    world.rule_authority.insert(rule.clone(), authority);
                    return Ok(());
                }
                Decided::Ask(identity) => {
                    let questions = rule_questions(&rule.namespace, &facts.spec, &identity.subject());
                    (facts.uid.clone(), facts.generation, identity, questions)
                }
            }
        };
        let authority = settle(&*self.authorizer, &uid, generation, &identity, &questions, now()).await?;
        self.world_mut().rule_authority.insert(rule.clone(), authority);
        Ok(())
    }

    fn ask_again(&self, rule: &NamespacedName) -> Again {
        let world = self.world();
        let account = world.rules.get(rule).is_some_and(|facts| facts.spec.service_account_name.is_some());
        let refused = world.rule_authority.get(rule).is_some_and(|authority| authority.answer.is_err());
        if account || refused { Again::After(ASK_AGAIN) } else { Again::OnChange }
    }
}

/// What is known before the API server is asked.
pub(super) struct Asking<'a> {
    pub(super) uid: &'a str,
    pub(super) generation: i64,
    pub(super) account: Option<&'a str>,
    /// The generation that an earlier leader settled, from the status.
    pub(super) settled: Option<i64>,
    pub(super) known: Option<&'a Authority>,
}

pub(super) enum Decided {
    Known,
    Answer(Authority),
    Ask(Identity),
}

impl Asking<'_> {
    pub(super) fn decide(
        &self,
        identity: Result<Identity, IdentityRequired>,
        oldest: SignedDuration,
        now: Timestamp,
    ) -> Decided {
        let answer = |identity: String, answer| {
            Decided::Answer(Authority {
                uid: self.uid.into(),
                generation: self.generation,
                identity,
                answer,
                asked: now,
            })
        };
        let identity = match identity {
            Ok(identity) => identity,
            Err(required) => {
                return answer("none".into(), Err((IdentityRequired::REASON.into(), required.to_string())));
            }
        };
        let is_of_this =
            |known: &&Authority| known.uid.as_ref() == self.uid && known.generation == self.generation;
        if let Some(known) = self.known.filter(is_of_this) {
            let may_age = self.account.is_none() && known.answer.is_ok();
            if may_age || now.duration_since(known.asked) < oldest {
                return Decided::Known;
            }
        }
        if self.account.is_none() && self.settled == Some(self.generation) {
            return answer(identity.to_string(), Ok(()));
        }
        Decided::Ask(identity)
    }
}
