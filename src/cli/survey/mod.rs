//! The cluster as it is, seen once, with every copy planned. Nothing is written: what the plans name is shown.
//!
//! Everything is listed once, metadata only, into the same [`World`] that the reconciler keeps; what the planner
//! lacks is fetched, and it plans again, until it lacks nothing.

mod authority;
mod content;
mod declared;
mod trust;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{Client, core::DeserializeGuard};

pub(super) use authority::Asked;
pub(super) use declared::{Declined, FromFile, rules_in};

use super::{Exit, installed::Installed};
use crate::{
    act::keys::KeyError,
    api::CopyratorRule,
    authority::{AskError, CallerAuthorizer, Question, Subject, refusal},
    model::{Kind, NamespacedName, RuleFacts, World},
    observe::{
        content::ContentError,
        listing::{ListError, list},
        object::{CONFIG_MAPS, SECRETS, Slim},
        watched::Watched,
    },
    plan::{Course, Outlook, outlooks},
};

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum SurveyError {
    /// Without it nothing can be planned.
    #[error("{0}")]
    Forbidden(String),
    #[error(transparent)]
    List(#[from] ListError),
    #[error("cannot ask the API server who you are")]
    Who(#[source] AskError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Content(#[from] ContentError),
}

impl SurveyError {
    /// How a command ends that cannot go on.
    pub(super) fn exit(&self) -> Exit {
        let unanswered = |error: &kube::Error| !matches!(error, kube::Error::Api(_));
        let unreachable = match self {
            Self::Forbidden(_) => false,
            Self::List(error) => matches!(error, ListError::Unreachable(_)),
            Self::Who(AskError::Failed(error)) => unanswered(error),
            Self::Who(error) => matches!(error, AskError::TimedOut),
            Self::Key(KeyError::Api { source, .. }) => unanswered(source),
            Self::Key(_) => false,
            Self::Content(ContentError::Fetch { source, .. }) => unanswered(source),
            Self::Content(_) => false,
        };
        if unreachable { Exit::Unreachable } else { Exit::Findings }
    }
}

/// The cluster, seen once, and what is going to happen to every copy.
pub(super) struct Survey {
    /// Everything that was seen.
    pub world: World,
    /// What is going to happen.
    pub outlooks: Vec<Outlook>,
    /// How it is known what each rule may do.
    pub asked: BTreeMap<NamespacedName, Asked>,
    /// Rules that cannot be told of, since what they copy may not be seen.
    pub blind: BTreeSet<NamespacedName>,
    /// Rules of files that take part.
    pub from_files: BTreeMap<NamespacedName, FromFile>,
    /// Rules of files that the API server would not take.
    pub declined: Vec<Declined>,
    /// Marks were verified.
    pub verified: bool,
    /// What whoever reads the rest should know first.
    pub notes: Vec<String>,
    /// When.
    pub now: Timestamp,
}

/// Looks at the cluster, with these rules in addition to, or instead of, those in it.
pub(super) async fn survey(
    client: &Client,
    installed: &Installed,
    files: Vec<FromFile>,
) -> Result<Survey, SurveyError> {
    let now = Timestamp::now();
    let caller = CallerAuthorizer::new(client.clone()).await.map_err(SurveyError::Who)?;
    let (namespaces, config_maps, secrets, rules, key) = tokio::join!(
        list::<Namespace>(client, None),
        list::<Slim<ConfigMap>>(client, Some(CONFIG_MAPS)),
        list::<Slim<Secret>>(client, Some(SECRETS)),
        list::<DeserializeGuard<CopyratorRule>>(client, None),
        trust::digest_key(client, &installed.namespace, caller.caller()),
    );
    let (mut notes, mut unseen) = (Vec::new(), BTreeSet::new());
    let mut world = installed.world();
    let trust = key?;
    world.key = Some(trust.key.clone());
    put(&mut world, namespaces.map_err(|error| spoken(error, caller.caller(), "", "namespaces"))?, now);
    let of_rules =
        rules.map_err(|error| spoken(error, caller.caller(), "copyrator.dev", "copyratorrules"))?;
    for (kind, resource, refused) in [
        (Kind::ConfigMap, "configmaps", put_unless_refused(&mut world, config_maps, now)?),
        (Kind::Secret, "secrets", put_unless_refused(&mut world, secrets, now)?),
    ] {
        if refused {
            unseen.insert(kind);
            let way_out = may_not_list(caller.caller(), "", resource);
            notes.push(format!("of rules that copy from or to a {kind} nothing can be told: {way_out}"));
        }
    }
    put(&mut world, of_rules, now);
    world.complete = world.expected.clone();
    notes.extend(trust.note.clone());

    let (from_files, declined) = declared::take_in(&mut world, files, &caller, &installed.trusted, now).await;
    let asked = authority::settle_rules(&mut world, &caller, &installed.trusted, now).await;
    let blind = blind_rules(&world, &unseen);
    let (plans, unread) = content::plan_all(client, &mut world, trust.is_believed, now).await?;
    let mut outlooks = outlooks(&world, &plans);
    for outlook in &mut outlooks {
        let is_blind = outlook.rule.as_ref().is_some_and(|rule| blind.contains(rule));
        if is_blind {
            outlook.course = Course::Unknown;
            outlook.reason = "Unread".into();
            outlook.message = "what its rule copies from or to may not be listed".into();
        } else if outlook.course == Course::Unknown
            && let Some(why) = plans
                .get(&outlook.slot)
                .into_iter()
                .flat_map(|plan| &plan.needs)
                .find_map(|it| unread.get(it))
        {
            outlook.message.clone_from(why);
        }
    }
    let verified = !trust.is_believed;
    Ok(Survey { world, outlooks, asked, blind, from_files, declined, verified, notes, now })
}

impl Survey {
    /// What concerns a namespace, or all: the copies that land there, and those of the rules that are there.
    pub(super) fn shown(&self, namespace: Option<&str>) -> Vec<&Outlook> {
        let concerns = |outlook: &&Outlook, namespace: &str| {
            let of_rule = outlook.rule.as_ref().is_some_and(|rule| *rule.namespace == *namespace);
            of_rule || *outlook.slot.namespace == *namespace
        };
        let all = self.outlooks.iter();
        all.filter(|outlook| namespace.is_none_or(|namespace| concerns(outlook, namespace))).collect()
    }

    /// What the reconciler itself has last said of a slot in the status of its rule, if that speaks of this very spec.
    pub(super) fn reported(&self, outlook: &Outlook) -> Option<&crate::api::Problem> {
        let facts: &RuleFacts = self.world.rules.get(outlook.rule.as_ref()?)?;
        let status = facts.status.as_ref().filter(|it| it.observed_generation == Some(facts.generation))?;
        let is_here = |problem: &&crate::api::Problem| {
            problem.namespace == *outlook.slot.namespace && problem.name == *outlook.slot.name
        };
        status.problems.iter().find(is_here)
    }
}

fn put<W: Watched>(world: &mut World, objects: Vec<W>, now: Timestamp) {
    for object in objects {
        object.put(world, now);
    }
}

/// Whether the list was refused.
fn put_unless_refused<W: Watched>(
    world: &mut World,
    listed: Result<Vec<W>, ListError>,
    now: Timestamp,
) -> Result<bool, SurveyError> {
    match listed {
        Ok(objects) => put(world, objects, now),
        Err(ListError::Refused { .. }) => return Ok(true),
        Err(error) => return Err(error.into()),
    }
    Ok(false)
}

/// A list that cannot be done without, refused: the way out.
fn spoken(error: ListError, caller: &Subject, group: &'static str, resource: &'static str) -> SurveyError {
    match error {
        ListError::Refused { .. } => SurveyError::Forbidden(may_not_list(caller, group, resource)),
        error => error.into(),
    }
}

fn may_not_list(caller: &Subject, group: &'static str, resource: &'static str) -> String {
    let question = Question {
        subject: caller.clone(),
        verb: "list",
        group,
        resource,
        subresource: None,
        name: None,
        namespace: String::new(),
    };
    refusal(&[&question], &NamespacedName::new("all", "plan"), usize::MAX)
}

/// The rules that copy from or to a kind that may not be seen.
fn blind_rules(world: &World, unseen: &BTreeSet<Kind>) -> BTreeSet<NamespacedName> {
    let is_blind = |facts: &RuleFacts| {
        facts
            .compiled
            .as_ref()
            .is_ok_and(|rule| unseen.contains(&rule.kind) || unseen.contains(&rule.shape.kind))
    };
    world.rules.iter().filter(|(_, facts)| is_blind(facts)).map(|(rule, _)| rule.clone()).collect()
}
