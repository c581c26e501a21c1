//! What each rule may do: asked as the reconciler asks. Who may not ask is told what the reconciler has last said.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;

use crate::{
    api::speaks_of,
    authority::{Authorizer, Identity, TrustedWriters},
    model::{Authority, NamespacedName, RuleFacts, World},
    reconcile::authority::{Decided, about_rule},
};

/// How many rules are asked about at once.
const AT_ONCE: usize = 8;

/// How it is known what a rule may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Asked {
    /// The API server has said so, or nobody has to ask.
    Answered,
    /// The rule's status says so.
    Reported,
    /// Nobody could be asked: the plan is what happens if it may.
    Assumed(String),
}

/// Finds out what every rule may do, and lets the world know.
pub(super) async fn settle_rules(
    world: &mut World,
    authorizer: &dyn Authorizer,
    trusted: &TrustedWriters,
    now: Timestamp,
) -> BTreeMap<NamespacedName, Asked> {
    let mut asked = BTreeMap::new();
    let mut inquiries = Vec::new();
    let rules: Vec<NamespacedName> = world.rules.keys().cloned().collect();
    for rule in rules {
        match about_rule(world, &rule, trusted, now) {
            None => {}
            Some(Decided::Known) => drop(asked.insert(rule, Asked::Answered)),
            Some(Decided::Answer(answer)) => {
                world.rule_authority.insert(rule.clone(), answer);
                asked.insert(rule, Asked::Answered);
            }
            Some(Decided::Ask(inquiry)) => inquiries.push((rule, inquiry)),
        }
    }
    let answers: Vec<_> = stream::iter(inquiries)
        .map(|(rule, inquiry)| async move {
            let answer = inquiry.ask(authorizer, now).await;
            (rule, answer)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    for (rule, answer) in answers {
        let Some(facts) = world.rules.get(&rule) else { continue };
        let (answer, how) = match answer {
            Ok(answer) => (answer, Asked::Answered),
            Err(error) => {
                let why = if error.is_forbidden() {
                    "you may not create subjectaccessreviews".to_owned()
                } else {
                    error.to_string()
                };
                unasked(&rule, facts, trusted, why, now)
            }
        };
        world.rule_authority.insert(rule.clone(), answer);
        asked.insert(rule, how);
    }
    asked
}

/// What the rule's status says of this very spec; else it is planned for as if it may.
fn unasked(
    rule: &NamespacedName,
    facts: &RuleFacts,
    trusted: &TrustedWriters,
    why: String,
    now: Timestamp,
) -> (Authority, Asked) {
    let account = facts.spec.service_account_name.as_deref();
    let identity = Identity::of_stored(&rule.namespace, account, &facts.annotations, trusted);
    let authority = |answer| Authority {
        uid: facts.uid.clone(),
        generation: facts.generation,
        identity: identity.map_or_else(|_| "nobody".into(), |identity| identity.to_string()),
        answer,
        asked: now,
    };
    let conditions = facts.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let said = conditions.iter().find(|condition| condition.type_ == "Authorized");
    match said.filter(|_| speaks_of(conditions, "Authorized", facts.generation)) {
        Some(said) if said.status == "True" => (authority(Ok(())), Asked::Reported),
        Some(said) => (authority(Err((said.reason.clone(), said.message.clone()))), Asked::Reported),
        None => (authority(Ok(())), Asked::Assumed(why)),
    }
}
