//! Finds objects with annotations that declare something, but without the label that enables them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, api::ListParams, core::NamespaceResourceScope};

use super::{
    facts::{Facts, Readable},
    finding::{Findings, Id},
    read::pages,
};
use crate::{
    decoded::Decoded,
    installed::Install,
    intake::{object::Slim, watched::Watched},
    marks::{DECLARES, DECLARES_VALUE},
    model::{CONFIG_MAPS, SECRETS},
    names::ObjectKey,
    plan::Changed,
    validate::labelling,
};

/// How many objects are named; the rest are counted.
const MOST: usize = 20;

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    let objects = match &facts.unlabelled {
        Ok(objects) => objects,
        Err(unread) => return found.unknown(&[Id::LabelMissing], unread),
    };
    for object in objects.iter().take(MOST) {
        let what = format!(
            "has annotations for copies or restarts but lacks the label {DECLARES}={DECLARES_VALUE}, so Copyrator ignores the \
             annotations. The user who adds the label becomes their author and needs the rights for them"
        );
        found.warning(Id::LabelMissing, object.to_string(), what, labelling(object));
    }
    if let Some(object) = objects.get(MOST) {
        let what =
            format!("and {} more objects lack the label {DECLARES}={DECLARES_VALUE}", objects.len() - MOST);
        found.warning(Id::LabelMissing, object.to_string(), what, labelling(object));
    }
}

/// Finds unlabelled objects in the namespaces that Copyrator reads, except system namespaces: objects in
/// system namespaces belong to Kubernetes and other operators, and users do not label them.
pub(super) async fn look(client: &Client, install: &Install<'_>) -> Readable<Vec<ObjectKey>> {
    let mut unlabelled = Vec::new();
    let (places, system) = (install.namespaces(), install.system_namespaces());
    let places: Vec<Option<&str>> = match places.is_empty() {
        true => vec![None],
        false => places.iter().map(|place| Some(place.as_str())).collect(),
    };
    for place in places {
        unlabelled.extend(of_kind::<ConfigMap>(client, place, &outside(&system, CONFIG_MAPS)).await?);
        unlabelled.extend(of_kind::<Secret>(client, place, &outside(&system, SECRETS)).await?);
    }
    Ok(unlabelled)
}

/// A field selector that also excludes these namespaces.
fn outside(namespaces: &BTreeSet<String>, fields: &str) -> String {
    let not = namespaces.iter().map(|namespace| format!(",metadata.namespace!={namespace}"));
    not.fold(fields.to_owned(), |all, one| all + &one)
}

async fn of_kind<K>(client: &Client, place: Option<&str>, fields: &str) -> Readable<Vec<ObjectKey>>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    Slim<K>: Watched + kube::Resource<Scope = NamespaceResourceScope>,
{
    let api: Api<Decoded<Slim<K>>> = match place {
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

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::commands::doctor::tests::sound::{deployment, object};

    /// The second page of ConfigMaps is too old, and the list continues with the token that the API server
    /// gives.
    #[tokio::test]
    async fn a_list_that_expires_goes_on_and_system_namespaces_are_left_out() {
        let asked: &'static Mutex<Vec<String>> = Box::leak(Box::default());
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let at = |token: &str| query.contains(&format!("continue={token}"));
            let page = |name: &str, next: &str| {
                let metadata = json!({"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "1",
                    "annotations": {"copyrator.dev/copy-to": "web"}});
                json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"continue": next}, "items": [{"metadata": metadata}]})
            };
            let (code, answer) = match request.uri().path() {
                "/api/v1/configmaps" if at("late") => {
                    let expired = json!({"kind": "Status", "status": "Failure", "reason": "Expired",
                        "message": "too old", "metadata": {"continue": "anew"}, "code": 410});
                    (410, expired)
                }
                "/api/v1/configmaps" if at("anew") => (200, page("second", "")),
                "/api/v1/configmaps" => (200, page("first", "late")),
                _ => (200, json!({"metadata": {}, "items": []})),
            };
            asked.lock().unwrap().push(query);
            let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        let mut reconciler = deployment("reconciler");
        let arguments = &mut reconciler["spec"]["template"]["spec"]["containers"][0]["args"];
        arguments.as_array_mut().unwrap().push("--system-namespaces=theirs,other".into());
        let deployments = [object(reconciler)];
        let install = Install::new("ours", &deployments);
        let found = look(&Client::new(service, "default"), &install).await.unwrap();
        let named: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(named, ["ConfigMap shop/first", "ConfigMap shop/second"]);
        for query in asked.lock().unwrap().iter() {
            for system in ["kube-system", "kube-public", "kube-node-lease", "ours", "theirs", "other"] {
                assert!(query.contains(&format!("metadata.namespace%21%3D{system}")), "{system}: {query}");
            }
        }
    }
}
