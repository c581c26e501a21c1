//! A dry run of a ConfigMap that asks for restarts in another's name, which nobody sees: whether the API server keeps the
//! stamps on annotations honest. A rule cannot be written before its definition is there, and the policies with it; a
//! ConfigMap can, so its stamp is worth nothing where nothing guards it.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};

use super::{lead::WRITE_TIMEOUT, outcome::brief};
use crate::marks::{AUTHOR, AUTHOR_GROUPS, GRANT_MANAGER, RESTART_PODS};

const NAME: &str = "copyrator-stamp-probe";
/// Nobody's name: a forgery, if it comes through.
const NOBODY: &str = "copyrator.dev:nobody";
/// The policy that refuses forgeries (`webhook-config/policies/annotations-honest.yaml`).
const HONEST: &str = "copyrator-annotations-honest";

/// Whether a forged stamp is put right or refused.
///
/// # Errors
/// Why that cannot be seen now.
pub async fn is_guarded(client: &Client, own_namespace: &str) -> Result<bool, String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), own_namespace);
    let params = PostParams { dry_run: true, field_manager: Some(GRANT_MANAGER.into()) };
    match tokio::time::timeout(WRITE_TIMEOUT, api.create(&params, &forgery())).await {
        Ok(Ok(stored)) => {
            let author = stored.metadata.annotations.and_then(|mut all| all.remove(AUTHOR));
            Ok(author.as_deref() != Some(NOBODY))
        }
        Ok(Err(kube::Error::Api(status))) if status.message.contains(HONEST) => Ok(true),
        Ok(Err(error)) => Err(brief(&error)),
        Err(_) => Err(format!("no answer in {WRITE_TIMEOUT:?}")),
    }
}

fn forgery() -> ConfigMap {
    // The annotation that was added last: what guards it is a policy that guards all of them.
    let annotations = [(RESTART_PODS, NAME), (AUTHOR, NOBODY), (AUTHOR_GROUPS, "[]")];
    let annotations: BTreeMap<String, String> =
        annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let metadata =
        ObjectMeta { name: Some(NAME.into()), annotations: Some(annotations), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}
