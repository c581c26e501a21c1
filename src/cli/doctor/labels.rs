//! Objects with annotations that declare something, and without the label by which they count.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, api::ListParams, core::NamespaceResourceScope};

use super::{
    facts::{Facts, Seen},
    finding::{Findings, Id},
    gather::pages,
};
use crate::{
    intake::{
        object::{CONFIG_MAPS, SECRETS, Slim},
        watched::Watched,
    },
    marks::{DECLARES, DECLARES_VALUE},
    names::ObjectKey,
    plan::Changed,
    validate::labelling,
};

/// This many objects are named; the rest are counted.
const MOST: usize = 20;

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let objects = match &facts.unlabelled {
        Ok(objects) => objects,
        Err(unread) => return found.unknown(&[Id::LabelMissing], unread),
    };
    for object in objects.iter().take(MOST) {
        let what = format!(
            "has annotations that ask for copies or restarts, and lacks the label {DECLARES}={DECLARES_VALUE}: nothing is written or \
             removed for them. Who labels it becomes their author, and must be allowed what they ask for"
        );
        found.warning(Id::LabelMissing, object.to_string(), what, labelling(object));
    }
    if let Some(object) = objects.get(MOST) {
        let what =
            format!("and {} more objects lack the label {DECLARES}={DECLARES_VALUE}", objects.len() - MOST);
        found.warning(Id::LabelMissing, object.to_string(), what, labelling(object));
    }
}

/// Finds them in these namespaces, or in all where there are none.
pub(super) async fn look(client: &Client, places: &BTreeSet<String>) -> Seen<Vec<ObjectKey>> {
    let mut unlabelled = Vec::new();
    let places: Vec<Option<&str>> = match places.is_empty() {
        true => vec![None],
        false => places.iter().map(|place| Some(place.as_str())).collect(),
    };
    for place in places {
        unlabelled.extend(of_kind::<ConfigMap>(client, place, CONFIG_MAPS).await?);
        unlabelled.extend(of_kind::<Secret>(client, place, SECRETS).await?);
    }
    Ok(unlabelled)
}

async fn of_kind<K>(client: &Client, place: Option<&str>, fields: &str) -> Seen<Vec<ObjectKey>>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    Slim<K>: Watched + kube::Resource<Scope = NamespaceResourceScope>,
{
    let api: Api<Slim<K>> = match place {
        Some(place) => Api::namespaced(client.clone(), place),
        None => Api::all(client.clone()),
    };
    let without = ListParams::default().fields(fields).labels(&format!("{DECLARES}!={DECLARES_VALUE}"));
    let mut found = Vec::new();
    pages(&api, place, without, |object: Slim<K>| {
        let Changed::Object(key) = object.changed() else { return };
        if object.asks_in_vain() {
            found.push(key);
        }
    })
    .await?;
    Ok(found)
}
