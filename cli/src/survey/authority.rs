//! The rights of each rule and monitor, checked as the reconciler checks them. If the caller may not check
//! rights, the reconciler's last report is used.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    access::{
        AskError, Authorizer,
        authority::{Decided, Inquiry, about_monitor, about_rule, about_template},
    },
    api::speaks_of,
    authority::{Identity, TrustedWriters},
    model::{Authority, Refusal, RefusalReason, SpecVersion, World},
    names::Declarer,
};

/// How many objects are checked at once.
const AT_ONCE: usize = 8;

/// Where an answer about a rule's or monitor's rights comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerSource {
    /// The API server answered, or no question was necessary.
    Answered,
    /// The object's status has the answer.
    Reported,
    /// The API server could not be asked, for this reason: the plan assumes that the object is allowed.
    Assumed(String),
}

/// The input for checking the rights of rules, templates and monitors.
pub(super) struct RightsCheck<'a> {
    /// The authorizer that answers questions about rights.
    pub authorizer: &'a dyn Authorizer,
    /// The writers whose author annotations Copyrator trusts.
    pub trusted: &'a TrustedWriters,
    /// The time of the survey.
    pub now: Timestamp,
}

/// Checks the rights of every rule and template, and stores the answers in the world.
pub(super) async fn settle_rules(
    world: &mut World,
    rights: &RightsCheck<'_>,
) -> BTreeMap<Declarer, AnswerSource> {
    let RightsCheck { authorizer, trusted, now } = *rights;
    let rules = world.rules().keys();
    let decided = rules.filter_map(|rule| Some((rule.clone(), about_rule(world, rule, trusted, now)?)));
    let of_templates = world.templates().keys();
    let of_templates =
        of_templates.filter_map(|name| Some((name.clone(), about_template(world, name, trusted, now)?)));
    let (mut asked, answers) = settle(decided.chain(of_templates).collect(), authorizer, now).await;
    for (rule, answer) in answers {
        let Some(declared) = world.declaration(&rule) else { continue };
        let (answer, how) = answer.unwrap_or_else(|error| {
            let conditions = declared.status().map_or(&[][..], |status| &status.conditions);
            let (version, account) = (declared.version(), declared.account());
            let of = Unasked { of: &rule, version, account, annotations: declared.annotations(), conditions };
            of.assumed(trusted, why_unasked(world, &error), now)
        });
        world.set_rule_authority(&rule, answer);
        asked.insert(rule, how);
    }
    asked
}

/// Checks the rights of every monitor, and stores the answers in the world.
pub(super) async fn settle_monitors(
    world: &mut World,
    rights: &RightsCheck<'_>,
) -> BTreeMap<Declarer, AnswerSource> {
    let RightsCheck { authorizer, trusted, now } = *rights;
    let monitors = world.monitors().keys();
    let decided =
        monitors.filter_map(|monitor| Some((monitor.clone(), about_monitor(world, monitor, trusted, now)?)));
    let (mut asked, answers) = settle(decided.collect(), authorizer, now).await;
    for (monitor, answer) in answers {
        let Some(facts) = world.monitors().get(&monitor) else { continue };
        let (answer, how) = answer.unwrap_or_else(|error| {
            let conditions = facts.status.as_ref().map_or(&[][..], |status| &status.conditions);
            let account = facts.spec.service_account_name.as_deref();
            let (version, annotations) = (facts.version(), &facts.annotations);
            let of = Unasked { of: &monitor, version, account, annotations, conditions };
            of.assumed(trusted, why_unasked(world, &error), now)
        });
        world.set_monitor_authority(&monitor, answer);
        asked.insert(monitor, how);
    }
    asked
}

type Answers = Vec<(Declarer, Result<(Authority, AnswerSource), AskError>)>;

/// Asks the necessary questions. Returns the objects whose answer was known, and the new answers.
async fn settle(
    decided: Vec<(Declarer, Decided)>,
    authorizer: &dyn Authorizer,
    now: Timestamp,
) -> (BTreeMap<Declarer, AnswerSource>, Answers) {
    let (mut asked, mut answers) = (BTreeMap::new(), Answers::new());
    let mut inquiries: Vec<(Declarer, Inquiry)> = Vec::new();
    for (of, decided) in decided {
        match decided {
            Decided::Known => drop(asked.insert(of, AnswerSource::Answered)),
            Decided::Answer(answer) => answers.push((of, Ok((answer, AnswerSource::Answered)))),
            Decided::Ask(inquiry) => inquiries.push((of, inquiry)),
        }
    }
    let inquired = stream::iter(inquiries)
        .map(|(of, inquiry)| async move {
            let answer = inquiry.ask(authorizer, now).await;
            (of, answer.map(|answer| (answer, AnswerSource::Answered)))
        })
        .buffer_unordered(AT_ONCE);
    answers.extend(inquired.collect::<Answers>().await);
    (asked, answers)
}

/// An object whose rights could not be checked.
struct Unasked<'a> {
    of: &'a Declarer,
    version: SpecVersion<'a>,
    account: Option<&'a str>,
    annotations: &'a BTreeMap<String, String>,
    conditions: &'a [Condition],
}

impl Unasked<'_> {
    /// The `Authorized` condition, if it is about this generation; otherwise the plan assumes that the object
    /// is allowed.
    fn assumed(self, trusted: &TrustedWriters, why: String, now: Timestamp) -> (Authority, AnswerSource) {
        let Self { of, version: SpecVersion { uid, generation }, account, annotations, conditions } = self;
        let identity = Identity::of_stored(of.namespace(), account, annotations, trusted);
        let authority = |answer| Authority {
            uid: uid.into(),
            generation,
            identity: identity.map_or_else(|_| "nobody".into(), |identity| identity.to_string()),
            answer,
            asked: now,
            questions: 0,
            refusals: 0,
        };
        let said = conditions.iter().find(|condition| condition.type_ == "Authorized");
        match said.filter(|_| speaks_of(conditions, "Authorized", generation)) {
            Some(said) if said.status == "True" => (authority(Ok(())), AnswerSource::Reported),
            Some(said) => {
                let (reason, message) = (RefusalReason::read(&said.reason), said.message.clone());
                (authority(Err(Refusal { reason, message })), AnswerSource::Reported)
            }
            None => (authority(Ok(())), AnswerSource::Assumed(why)),
        }
    }
}

pub(super) fn why_unasked(world: &World, error: &AskError) -> String {
    match (error.is_forbidden(), world.namespace_scope().filter(|places| places.is_all())) {
        (true, None) => "you may not create subjectaccessreviews".to_owned(),
        (true, Some(_)) => {
            "you may not create localsubjectaccessreviews in every namespace of the rule".to_owned()
        }
        (false, _) => error.to_string(),
    }
}
