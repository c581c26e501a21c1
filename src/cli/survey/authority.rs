//! What each rule and monitor may do: asked as the reconciler asks. A caller who may not ask is told what the
//! reconciler has last said.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    access::{AskError, Authorizer},
    api::speaks_of,
    authority::{Identity, TrustedWriters},
    model::{Authority, Declared, World},
    names::NamespacedName,
    reconcile::authority::{Decided, Inquiry, about_monitor, about_rule},
};

/// How many objects are asked about at once.
const AT_ONCE: usize = 8;

/// How it is known what a rule or monitor may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Asked {
    /// The API server has said so, or nobody has to ask.
    Answered,
    /// The object's status says so.
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
    let rules = world.rules().keys();
    let decided = rules.filter_map(|rule| Some((rule.clone(), about_rule(world, rule, trusted, now)?)));
    let (mut asked, answers) = settle(decided.collect(), authorizer, now).await;
    for (rule, answer) in answers {
        let Some(facts) = world.rules().get(&rule) else { continue };
        let (answer, how) = answer.unwrap_or_else(|error| {
            let conditions = facts.status.as_ref().map_or(&[][..], |status| &status.conditions);
            let account = facts.spec.service_account_name.as_deref();
            unasked(&rule, facts, account, conditions, trusted, why_unasked(world, &error), now)
        });
        world.set_rule_authority(&rule, answer);
        asked.insert(rule, how);
    }
    asked
}

/// The same of every monitor.
pub(super) async fn settle_monitors(
    world: &mut World,
    authorizer: &dyn Authorizer,
    trusted: &TrustedWriters,
    now: Timestamp,
) -> BTreeMap<NamespacedName, Asked> {
    let monitors = world.monitors().keys();
    let decided =
        monitors.filter_map(|monitor| Some((monitor.clone(), about_monitor(world, monitor, trusted, now)?)));
    let (mut asked, answers) = settle(decided.collect(), authorizer, now).await;
    for (monitor, answer) in answers {
        let Some(facts) = world.monitors().get(&monitor) else { continue };
        let (answer, how) = answer.unwrap_or_else(|error| {
            let conditions = facts.status.as_ref().map_or(&[][..], |status| &status.conditions);
            let account = facts.spec.service_account_name.as_deref();
            unasked(&monitor, facts, account, conditions, trusted, why_unasked(world, &error), now)
        });
        world.set_monitor_authority(&monitor, answer);
        asked.insert(monitor, how);
    }
    asked
}

type Answers = Vec<(NamespacedName, Result<(Authority, Asked), AskError>)>;

/// Asks what has to be asked: gives the objects whose answer was known, and the answers.
async fn settle(
    decided: Vec<(NamespacedName, Decided)>,
    authorizer: &dyn Authorizer,
    now: Timestamp,
) -> (BTreeMap<NamespacedName, Asked>, Answers) {
    let (mut asked, mut answers) = (BTreeMap::new(), Answers::new());
    let mut inquiries: Vec<(NamespacedName, Inquiry)> = Vec::new();
    for (of, decided) in decided {
        match decided {
            Decided::Known => drop(asked.insert(of, Asked::Answered)),
            Decided::Answer(answer) => answers.push((of, Ok((answer, Asked::Answered)))),
            Decided::Ask(inquiry) => inquiries.push((of, inquiry)),
        }
    }
    let inquired = stream::iter(inquiries)
        .map(|(of, inquiry)| async move {
            let answer = inquiry.ask(authorizer, now).await;
            (of, answer.map(|answer| (answer, Asked::Answered)))
        })
        .buffer_unordered(AT_ONCE);
    answers.extend(inquired.collect::<Answers>().await);
    (asked, answers)
}

/// What the object's status says of this very spec; else it is planned for as if it may.
fn unasked<S, C, T>(
    of: &NamespacedName,
    facts: &Declared<S, C, T>,
    account: Option<&str>,
    conditions: &[Condition],
    trusted: &TrustedWriters,
    why: String,
    now: Timestamp,
) -> (Authority, Asked) {
    let identity = Identity::of_stored(&of.namespace, account, &facts.annotations, trusted);
    let authority = |answer| Authority {
        uid: facts.uid.clone(),
        generation: facts.generation,
        identity: identity.map_or_else(|_| "nobody".into(), |identity| identity.to_string()),
        answer,
        asked: now,
        questions: 0,
        refusals: 0,
    };
    let said = conditions.iter().find(|condition| condition.type_ == "Authorized");
    match said.filter(|_| speaks_of(conditions, "Authorized", facts.generation)) {
        Some(said) if said.status == "True" => (authority(Ok(())), Asked::Reported),
        Some(said) => (authority(Err((said.reason.clone(), said.message.clone()))), Asked::Reported),
        None => (authority(Ok(())), Asked::Assumed(why)),
    }
}

pub(super) fn why_unasked(world: &World, error: &AskError) -> String {
    match (error.is_forbidden(), world.places().filter(|places| places.is_all())) {
        (true, None) => "you may not create subjectaccessreviews".to_owned(),
        (true, Some(_)) => {
            "you may not create localsubjectaccessreviews in each namespace that it is about".to_owned()
        }
        (false, _) => error.to_string(),
    }
}
