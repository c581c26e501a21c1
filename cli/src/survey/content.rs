//! Plans every copy, and fetches what the plans need, until they need nothing more.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, LimitRange, ResourceQuota, Secret, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::RoleBinding,
};
use kube::{
    Api, Client, Resource,
    core::{DynamicObject, NamespaceResourceScope},
};

use super::{
    SurveyError,
    authority::{RightsCheck, why_unasked},
    trust::{believe_digests, believe_marks},
};
use crate::{
    access::right::RightInquiry,
    decoded::Decoded,
    digest::{DigestKey, Fingerprint},
    intake::{
        granted::Declared,
        object::{OfKind, Slim},
    },
    model::{ObjectFacts, World},
    names::{Kind, ObjectKey},
    plan::{
        Need,
        copy::{CopyAction, SlotPlan, plan_slots},
        every_slot,
    },
    read::content::{ContentError, Contents},
};

/// How many objects are read at once.
pub(super) const AT_ONCE: usize = 16;
/// The maximum number of rounds. Plans that still need something after the last round are shown as they are.
const ROUNDS: usize = 8;

/// Plans every slot. Also returns why needed objects could not be read.
pub(super) async fn plan_all(
    client: &Client,
    world: &mut World,
    rights: &RightsCheck<'_>,
    is_believed: bool,
) -> Result<(BTreeMap<ObjectKey, SlotPlan>, BTreeMap<Need, String>), SurveyError> {
    let (mut plans, mut unread) = (BTreeMap::new(), BTreeMap::new());
    if is_believed {
        believe_marks(world);
    }
    let mut open: BTreeSet<ObjectKey> = every_slot(world);
    for _ in 0..ROUNDS {
        plans.extend(plan_slots(world, &open, rights.now).map(|(slot, plan)| (slot.clone(), plan)));
        if is_believed && believe_digests(world, &plans) {
            continue;
        }
        let mut lacking = BTreeSet::new();
        open.retain(|slot| {
            let mut lacks = lacks(world, slot, &plans[slot]);
            lacks.retain(|need| !unread.contains_key(need));
            let is_open = !lacks.is_empty();
            lacking.extend(lacks);
            is_open
        });
        if lacking.is_empty() {
            break;
        }
        let contents = lacking.iter().filter_map(Need::content).cloned();
        read(client, world, contents.collect(), &mut unread).await?;
        ask_rights(world, &lacking, rights, &mut unread).await;
        if is_believed {
            believe_marks(world);
        }
    }
    Ok((plans, unread))
}

/// What a plan needs, and, to show what a write changes, the existing content. A slot never needs workloads
/// or their pods.
fn lacks(world: &World, slot: &ObjectKey, plan: &SlotPlan) -> Vec<Need> {
    let changes = matches!(&plan.action, Some(CopyAction::Write(write)) if write.replaces.is_some());
    let there = (changes && world.fingerprint(slot).is_none()).then(|| Need::Fingerprint(slot.clone()));
    plan.needs.iter().cloned().chain(there).collect()
}

/// Checks the rights that plans turned out to need. Stores in `unread` why an answer is missing.
async fn ask_rights(
    world: &mut World,
    lacking: &BTreeSet<Need>,
    rights: &RightsCheck<'_>,
    unread: &mut BTreeMap<Need, String>,
) {
    let RightsCheck { authorizer, trusted, now } = *rights;
    let asked = lacking.iter().filter_map(|need| match need {
        Need::Right(rule, right, namespace) => {
            let inquiry = RightInquiry::new(world, rule, right, namespace, trusted, now)?;
            Some((need.clone(), inquiry))
        }
        _ => None,
    });
    let asked: Vec<_> = asked.collect();
    let answers: Vec<_> = stream::iter(asked)
        .map(|(need, inquiry)| async move { (need, inquiry.ask(authorizer, now).await, inquiry) })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    for (need, answers, inquiry) in answers {
        match answers {
            Ok(answers) => inquiry.keep(answers, world, now),
            Err(error) => drop(unread.insert(need, why_unasked(world, &error))),
        }
    }
}

enum FetchedContent {
    Print(Fingerprint),
    /// The object has changed since it was listed, or is gone.
    Newer(Option<Box<ObjectFacts>>),
    Unread(String),
}

/// Reads these objects into the world. Stores in `unread` why an object could not be read.
pub(super) async fn read(
    client: &Client,
    world: &mut World,
    lacking: BTreeSet<ObjectKey>,
    unread: &mut BTreeMap<Need, String>,
) -> Result<(), SurveyError> {
    let Some(key) = world.key().cloned() else { return Ok(()) };
    let contents = Contents::new(client.clone());
    let version = |object: &ObjectKey| world.object(object).map(|facts| facts.resource_version.clone());
    let asked: Vec<_> = lacking.into_iter().map(|object| (version(&object), object)).collect();
    let (contents, key) = (&contents, &key);
    let found: Vec<_> = stream::iter(asked)
        .map(|(version, object)| async move {
            let found = fetch_content(client, contents, key, &object, version.as_deref()).await;
            (object, found)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    for (object, found) in found {
        match found? {
            FetchedContent::Print(print) => world.assume_fingerprint(&object, print),
            FetchedContent::Newer(facts) => world.set_object(object, facts.map(|facts| *facts)),
            FetchedContent::Unread(why) => drop(unread.insert(Need::Fingerprint(object), why)),
        }
    }
    Ok(())
}

async fn facts<K>(client: &Client, object: &ObjectKey) -> kube::Result<Option<ObjectFacts>>
where
    K: OfKind + Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug,
{
    let api: Api<Decoded<Slim<K>>> = Api::namespaced(client.clone(), &object.namespace);
    let found = api.get_opt(&object.name).await?.and_then(|found| found.read().ok());
    Ok(found.map(|slim| slim.facts))
}

async fn granted_facts(client: &Client, object: &ObjectKey) -> kube::Result<Option<ObjectFacts>> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &object.namespace, &object.kind.resource().into());
    let found = api.get_metadata_opt(&object.name).await?;
    Ok(found
        .and_then(|found| Declared::new(object.kind, &found.metadata))
        .map(|declared| declared.facts().clone()))
}

/// Reads one object. If the object has changed since it was listed, its metadata is read, too, for the plan
/// of the next round.
async fn fetch_content(
    client: &Client,
    contents: &Contents,
    key: &DigestKey,
    object: &ObjectKey,
    version: Option<&str>,
) -> Result<FetchedContent, SurveyError> {
    match contents.fetch(object).await {
        Ok(content) if version == Some(&*content.resource_version) => {
            Ok(FetchedContent::Print(content.fingerprint(key)))
        }
        Ok(_) => {
            let failed = |source| ContentError::Fetch { object: object.clone(), source: Box::new(source) };
            let newer = match object.kind {
                Kind::ConfigMap => facts::<ConfigMap>(client, object).await,
                Kind::Secret => facts::<Secret>(client, object).await,
                Kind::NetworkPolicy => facts::<NetworkPolicy>(client, object).await,
                Kind::ResourceQuota => facts::<ResourceQuota>(client, object).await,
                Kind::LimitRange => facts::<LimitRange>(client, object).await,
                Kind::PodDisruptionBudget => facts::<PodDisruptionBudget>(client, object).await,
                Kind::ServiceAccount => facts::<ServiceAccount>(client, object).await,
                Kind::Deployment => facts::<Deployment>(client, object).await,
                Kind::Service => facts::<Service>(client, object).await,
                Kind::RoleBinding => facts::<RoleBinding>(client, object).await,
                Kind::Granted(_) => granted_facts(client, object).await,
            };
            Ok(FetchedContent::Newer(newer.map_err(failed)?.map(Box::new)))
        }
        Err(ContentError::Gone(_)) => Ok(FetchedContent::Newer(None)),
        Err(ContentError::Fetch { source, object }) if !matches!(&*source, kube::Error::Api(_)) => {
            Err(ContentError::Fetch { source, object }.into())
        }
        Err(ContentError::Fetch { source, object }) => Ok(FetchedContent::Unread(match *source {
            kube::Error::Api(said) => format!("cannot read {object}: {}", said.message),
            other => format!("cannot read {object}: {other}"),
        })),
        Err(error) => Ok(FetchedContent::Unread(error.to_string())),
    }
}
