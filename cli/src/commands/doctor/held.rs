//! Counts orphaned objects that stay, because their rules or templates may have been deleted with the
//! CustomResourceDefinition, and finds objects whose marks belong to a different object. Objects are read
//! page by page, without content, and without the key that proves marks.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, LimitRange, ResourceQuota, Secret, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::RoleBinding,
};
use kube::{Api, Client, Resource, api::ListParams, core::object::HasSpec};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    facts::{Facts, HeldCopies, Readable, Unread},
    finding::{Findings, Id},
    read::{list, pages, unread},
};
use crate::{
    api::{CopyratorRule, CopyratorTemplate},
    installed::Install,
    intake::{
        AsWritten,
        object::{OfKind, Slim},
    },
    marks::{MANAGED_BY, RULE_LABEL, write_time},
    model::ObjectFacts,
    names::{Declarer, Kind, NamespacedName, ObjectKey},
    plan::copy::{is_unseen_under, let_go},
    read::{
        crds::{RULES, TEMPLATES, definition},
        listing::{ListError, list_declared},
    },
    terminal::with_distinct_causes,
};

/// How many rules a message names.
const MOST_NAMED: usize = 4;

pub(super) fn check(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    let places = install.namespaces();
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    let all = match &facts.held {
        Ok(all) => all,
        Err(unread) => return found.unknown(&[Id::CopiesHeld, Id::StrayMarks], unread),
    };
    for held in all.iter().filter(|held| !held.rules.is_empty()) {
        let named: Vec<String> = held.rules.keys().take(MOST_NAMED).map(Declarer::said).collect();
        let more = match held.rules.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (what, objects) = if held.of == TEMPLATES { ("templates", "object") } else { ("rules", "copy") };
        let number = match (held.rules.values().sum::<usize>(), objects) {
            (1, one) => format!("1 {one}"),
            (number, "copy") => format!("{number} copies"),
            (number, one) => format!("{number} {one}s"),
        };
        let what = format!(
            "was created again at {}, and Copyrator keeps {number} of {what} that no longer exist ({}{more}), because it cannot know \
             whether they were deleted on purpose. Restore the {what}, or release the copies with this command, which needs the right to \
             override copies",
            write_time(held.definition.created),
            named.join(", "),
        );
        let fix = let_go(held.kinds.iter().copied(), &places, None, &held.definition.uid);
        found.warning(Id::CopiesHeld, format!("CustomResourceDefinition {}", held.of), what, fix);
    }
}

/// Reports objects with the labels of a copy whose marks belong to a different object.
pub(super) fn stray(facts: &Facts, found: &mut Findings) {
    for object in facts.stray.iter().take(MOST_NAMED) {
        let and_more = match facts.stray.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" The same applies to {more} more objects."),
        };
        let what = format!(
            "has the labels of a copy, but not its valid annotations (the YAML may be pasted or restored from another object), so \
             Copyrator does not update it. Delete the object, or remove the labels.{and_more}"
        );
        let ObjectKey { kind, namespace, name } = object;
        let resource = kind.resource().qualified();
        let fix = format!("kubectl label {resource} {name} -n {namespace} {RULE_LABEL}- {MANAGED_BY}-");
        found.warning(Id::StrayMarks, object.to_string(), what, fix);
    }
}

/// One of our definitions: the objects that it holds, and the names of its rules or templates.
struct There {
    held: HeldCopies,
    names: BTreeSet<Declarer>,
}

/// Held objects per definition, and objects whose marks belong to a different object.
#[derive(Default)]
pub(super) struct Marked {
    pub(super) held: Vec<HeldCopies>,
    pub(super) stray: Vec<ObjectKey>,
}

/// Counts objects of ConfigMaps, Secrets and these kinds, for each definition that exists. A separate finding
/// reports a missing definition.
pub(super) async fn look(client: &Client, copy_kinds: &BTreeSet<Kind>) -> Readable<Marked> {
    let mut there: Vec<There> = Vec::new();
    there.extend(names::<CopyratorRule>(client, RULES, Declarer::Rule).await?);
    there.extend(names::<CopyratorTemplate>(client, TEMPLATES, Declarer::Template).await?);
    let (copies, stray) = (&mut there, &mut Vec::new());
    let mut kinds = BTreeSet::new();
    for kind in Kind::copied(copy_kinds) {
        match kind {
            Kind::ConfigMap => count::<ConfigMap>(client, copies, stray).await?,
            Kind::Secret => count::<Secret>(client, copies, stray).await?,
            Kind::NetworkPolicy => count::<NetworkPolicy>(client, copies, stray).await?,
            Kind::ResourceQuota => count::<ResourceQuota>(client, copies, stray).await?,
            Kind::LimitRange => count::<LimitRange>(client, copies, stray).await?,
            Kind::PodDisruptionBudget => count::<PodDisruptionBudget>(client, copies, stray).await?,
            Kind::ServiceAccount => count::<ServiceAccount>(client, copies, stray).await?,
            Kind::Deployment => count::<Deployment>(client, copies, stray).await?,
            Kind::Service => count::<Service>(client, copies, stray).await?,
            Kind::RoleBinding => count::<RoleBinding>(client, copies, stray).await?,
            Kind::Granted(_) => {
                if !count_granted(client, kind, copies).await? {
                    continue;
                }
            }
        }
        kinds.insert(kind);
    }
    let stray = std::mem::take(stray);
    let held = there.into_iter().map(|there| HeldCopies { kinds: kinds.clone(), ..there.held }).collect();
    Ok(Marked { held, stray })
}

/// Reads the definition of one of our kinds, and its objects; `None` without the definition.
async fn names<K>(
    client: &Client,
    of: &'static str,
    declarer: fn(NamespacedName) -> Declarer,
) -> Readable<Option<There>>
where
    K: Resource<DynamicType = ()> + HasSpec<Spec: Serialize> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let what = || format!("customresourcedefinitions.apiextensions.k8s.io/{of}");
    let found = definition(client, of).await.map_err(|error| unread("get", what(), None, error))?;
    let Some(definition) = found else { return Ok(None) };
    let all = list::<AsWritten<K>>(Api::all(client.clone()), None, &ListParams::default()).await?;
    let name = |one: &AsWritten<K>| {
        let of = |field: &Option<String>| field.clone().unwrap_or_default();
        declarer(NamespacedName::new(of(&one.meta().namespace), of(&one.meta().name)))
    };
    let held = HeldCopies { of, definition, rules: BTreeMap::new(), kinds: BTreeSet::new() };
    Ok(Some(There { held, names: all.iter().map(name).collect() }))
}

async fn count<K>(client: &Client, there: &mut [There], stray: &mut Vec<ObjectKey>) -> Readable<()>
where
    K: OfKind + Clone + std::fmt::Debug + Send + 'static,
{
    let copies = ListParams::default().labels(RULE_LABEL);
    pages(&Api::all(client.clone()), None, copies, |copy: Slim<K>| {
        count_one(&copy.facts, there);
        // Objects of other kinds are skipped: controllers copy labels and annotations onto their objects.
        if K::KIND.is_whole() && copy.facts.has_labels_of_copies() && copy.facts.marks.is_none() {
            let meta = copy.meta();
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            stray.push(ObjectKey::new(K::KIND, text(&meta.namespace), text(&meta.name)));
        }
    })
    .await
}

/// Counts objects of a kind that is known only at run time. Returns whether the API server serves the kind.
async fn count_granted(client: &Client, kind: Kind, there: &mut [There]) -> Readable<bool> {
    match list_declared(client, kind, None).await {
        Ok(objects) => {
            let read = objects.into_iter().filter_map(|object| object.read().ok());
            read.for_each(|object| count_one(object.facts(), there));
        }
        Err(ListError::NotServed { .. }) => return Ok(false),
        Err(error) => {
            let resource = kind.resource();
            let failure = (!matches!(error, ListError::Refused { .. })).then(|| with_distinct_causes(&error));
            let resource = format!("{}.{}", resource.plural, resource.group);
            return Err(Unread { verb: "list", resource, namespace: None, failure });
        }
    }
    Ok(true)
}

fn count_one(copy: &ObjectFacts, there: &mut [There]) {
    let Some(rule) = copy.marks.as_deref().map(|marks| &marks.rule) else { return };
    let of = if rule.as_template().is_some() { TEMPLATES } else { RULES };
    for There { held, names } in there.iter_mut().filter(|there| there.held.of == of) {
        if !names.contains(rule) && is_unseen_under(&held.definition, rule, copy) {
            *held.rules.entry(rule.clone()).or_default() += 1;
        }
    }
}
