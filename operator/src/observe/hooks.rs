//! Reads our webhook configurations from the cluster, even if another tool has written them.

use std::time::Duration;

use copyrator_certs::Carried;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::{Api, Client, Resource, core::ClusterResourceScope};
use serde::de::DeserializeOwned;

use crate::hooks::NAME;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Our two webhook configurations, as read.
#[derive(Debug)]
pub(crate) struct LiveHooks {
    /// The validating configuration, if it exists.
    pub validating: Option<ValidatingWebhookConfiguration>,
    /// The mutating configuration, if it exists.
    pub mutating: Option<MutatingWebhookConfiguration>,
}

impl LiveHooks {
    /// The CA bundle of each hook.
    pub(crate) fn carried(&self) -> Vec<Carried> {
        let validating = self.validating.iter().flat_map(|it| it.webhooks.iter().flatten());
        let mutating = self.mutating.iter().flat_map(|it| it.webhooks.iter().flatten());
        let hooks = validating.map(|hook| (&hook.name, &hook.client_config));
        let hooks = hooks.chain(mutating.map(|hook| (&hook.name, &hook.client_config)));
        hooks.map(|(hook, config)| Carried { hook: hook.clone(), bundle: bundle(config) }).collect()
    }
}

fn bundle(config: &WebhookClientConfig) -> String {
    config.ca_bundle.as_ref().map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
}

/// Why the configurations could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LiveHooksError {
    /// The API server refused, or could not be reached.
    #[error("cannot read {kind} {NAME}")]
    Api {
        /// Kind of the configuration.
        kind: String,
        /// The error of the API server or the client.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("cannot read {kind} {NAME}: no answer in {TIMEOUT:?}")]
    Timeout {
        /// Kind of the configuration.
        kind: String,
    },
}

impl LiveHooksError {
    /// Whether this process lacks the right to read the configurations.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api { source, .. } if matches!(&**source, kube::Error::Api(status) if status.code == 403))
    }
}

/// Reads the validating and the mutating configuration.
///
/// # Errors
/// A configuration could not be read; an absent configuration is no error.
pub(crate) async fn live_hooks(client: &Client) -> Result<LiveHooks, LiveHooksError> {
    Ok(LiveHooks { validating: read(client).await?, mutating: read(client).await? })
}

async fn read<K>(client: &Client) -> Result<Option<K>, LiveHooksError>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let kind = K::kind(&()).into_owned();
    let api: Api<K> = Api::all(client.clone());
    match tokio::time::timeout(TIMEOUT, api.get_opt(NAME)).await {
        Ok(found) => found.map_err(|source| LiveHooksError::Api { kind, source: Box::new(source) }),
        Err(_) => Err(LiveHooksError::Timeout { kind }),
    }
}
