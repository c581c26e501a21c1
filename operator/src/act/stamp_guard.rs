//! A dry run under a forged author, which shows whether the API server protects author annotations. Users can
//! write a rule only after its definition and the policies are installed. Users can write a ConfigMap before
//! the installation, so the stamp of a ConfigMap proves nothing until a policy or hook guards it. If hooks of
//! ours are not possible, a rule's stamp may be unguarded, too.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, Resource, ResourceExt, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    connect::WRITE_TIMEOUT,
    dry_run::{canary, outcome::brief},
    marks::{AUTHOR, AUTHOR_GROUPS, DECLARES, DECLARES_VALUE, GRANT_MANAGER, RESTART_PODS},
};

const NAME: &str = "copyrator-stamp-probe";
/// The forged author; no user has this name.
const NOBODY: &str = "copyrator.dev:nobody";
/// The policy that refuses forgeries (`webhook-config/policies/annotations-honest.yaml`).
const HONEST: &str = "copyrator-annotations-honest";

/// Whether the API server corrects or refuses a forged stamp on annotations.
///
/// # Errors
/// Returns an error with the reason if the dry run cannot be made now.
pub(crate) async fn is_guarded(client: &Client, own_namespace: &str) -> Result<bool, String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), own_namespace);
    is_put_right(&api, &forgery(), HONEST).await
}

/// Whether the API server corrects or refuses a forged stamp on a rule.
///
/// # Errors
/// Returns an error with the reason if the dry run cannot be made now.
pub(crate) async fn rules_are_guarded(client: &Client, own_namespace: &str) -> Result<bool, String> {
    let api = Api::namespaced(client.clone(), own_namespace);
    let mut forged = canary::harmless_rule();
    forged.metadata.name = Some(NAME.into());
    let stamp = [(AUTHOR, NOBODY), (AUTHOR_GROUPS, "[]")];
    forged.annotations_mut().extend(stamp.map(|(key, value)| (key.to_owned(), value.to_owned())));
    is_put_right(&api, &forged, canary::HONEST).await
}

async fn is_put_right<K>(api: &Api<K>, forged: &K, honest: &str) -> Result<bool, String>
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let params = PostParams { dry_run: true, field_manager: Some(GRANT_MANAGER.into()) };
    match tokio::time::timeout(WRITE_TIMEOUT, api.create(&params, forged)).await {
        Ok(Ok(stored)) => Ok(stored.annotations().get(AUTHOR).map(String::as_str) != Some(NOBODY)),
        Ok(Err(kube::Error::Api(status))) if status.message.contains(honest) => Ok(true),
        Ok(Err(error)) => Err(brief(&error)),
        Err(_) => Err(format!("no answer in {WRITE_TIMEOUT:?}")),
    }
}

fn forgery() -> ConfigMap {
    // The newest annotation: a policy that guards the newest annotation guards all older ones.
    let annotations = [(RESTART_PODS, NAME), (AUTHOR, NOBODY), (AUTHOR_GROUPS, "[]")];
    let annotations: BTreeMap<String, String> =
        annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let metadata = ObjectMeta {
        name: Some(NAME.into()),
        annotations: Some(annotations),
        labels: Some([(DECLARES.to_owned(), DECLARES_VALUE.to_owned())].into()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}
