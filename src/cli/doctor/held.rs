//! Counts orphaned copies that stay, because their rules may have been deleted with the
//! CustomResourceDefinition: page by page, without content, and without the key that proves marks.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    core::v1::{ConfigMap, LimitRange, ResourceQuota, Secret, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client, Resource as _, api::ListParams};

use super::{
    facts::{Facts, HeldCopies, Readable},
    finding::{Findings, Id},
    read::{list, pages, unread},
};
use crate::{
    api::CopyratorRule,
    cli::operator::Install,
    intake::{
        AsWritten,
        object::{OfKind, Slim},
    },
    marks::{RULE_LABEL, write_time},
    model::Definition,
    names::{Kind, NamespacedName},
    observe::crds::{RULES, definition_of_rules},
    plan::copy::{is_unseen_under, let_go},
};

/// How many rules a message names.
const MOST_NAMED: usize = 4;

pub(super) fn check(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    let held = match &facts.held {
        Ok(Some(held)) if !held.rules.is_empty() => held,
        Ok(_) => return,
        Err(unread) => return found.unknown(&[Id::CopiesHeld], unread),
    };
    let named: Vec<String> = held.rules.keys().take(MOST_NAMED).map(ToString::to_string).collect();
    let more = match held.rules.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "was made anew at {}, and {} of rules that have not been there since ({}{more}) are held: nothing of them is removed, whatever \
         their grace. Put the rules back; or let these copies go, by a command that takes the right to override copies",
        write_time(held.definition.created),
        match held.rules.values().sum::<usize>() {
            1 => "1 copy".to_owned(),
            number => format!("{number} copies"),
        },
        named.join(", "),
    );
    let fix = let_go(Kind::copied(&install.copy_kinds()), None, &held.definition.uid);
    found.warning(Id::CopiesHeld, format!("CustomResourceDefinition {RULES}"), what, fix);
}

/// Counts the copies, of these kinds beside ConfigMaps and Secrets; `None` without a definition of rules, which is
/// another finding.
pub(super) async fn look(client: &Client, copy_kinds: &BTreeSet<Kind>) -> Readable<Option<HeldCopies>> {
    let named = || format!("customresourcedefinitions.apiextensions.k8s.io/{RULES}");
    let definition =
        definition_of_rules(client).await.map_err(|error| unread("get", named(), None, error))?;
    let Some(definition) = definition else { return Ok(None) };
    let all = Api::<AsWritten<CopyratorRule>>::all(client.clone());
    let rules = list(all, None, &ListParams::default()).await?;
    let name = |rule: &AsWritten<CopyratorRule>| {
        let meta = rule.meta();
        NamespacedName::new(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        )
    };
    let there: BTreeSet<NamespacedName> = rules.iter().map(name).collect();
    let mut rules = BTreeMap::new();
    let (there, copies) = (&there, &mut rules);
    for kind in Kind::copied(copy_kinds) {
        match kind {
            Kind::ConfigMap => count::<ConfigMap>(client, &definition, there, copies).await?,
            Kind::Secret => count::<Secret>(client, &definition, there, copies).await?,
            Kind::NetworkPolicy => count::<NetworkPolicy>(client, &definition, there, copies).await?,
            Kind::ResourceQuota => count::<ResourceQuota>(client, &definition, there, copies).await?,
            Kind::LimitRange => count::<LimitRange>(client, &definition, there, copies).await?,
            Kind::PodDisruptionBudget => {
                count::<PodDisruptionBudget>(client, &definition, there, copies).await?
            }
            Kind::ServiceAccount => count::<ServiceAccount>(client, &definition, there, copies).await?,
        }
    }
    Ok(Some(HeldCopies { definition, rules }))
}

async fn count<K>(
    client: &Client,
    definition: &Definition,
    there: &BTreeSet<NamespacedName>,
    held: &mut BTreeMap<NamespacedName, usize>,
) -> Readable<()>
where
    K: OfKind + Clone + std::fmt::Debug + Send + 'static,
{
    let copies = ListParams::default().labels(RULE_LABEL);
    pages(&Api::all(client.clone()), None, copies, |copy: Slim<K>| {
        let Some(rule) = copy.facts.marks.as_deref().map(|marks| &marks.rule) else { return };
        if !there.contains(rule) && is_unseen_under(definition, rule, &copy.facts) {
            *held.entry(rule.clone()).or_default() += 1;
        }
    })
    .await
}
