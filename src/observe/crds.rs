//! Are our own kinds there to stay? `kubectl delete crd` looks like every rule being deleted.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};

const TIMEOUT: Duration = Duration::from_secs(5);

/// The definitions that must be there while anything is removed.
pub const DEFINITIONS: [&str; 3] =
    ["copyratorrules.copyrator.dev", "configmonitors.copyrator.dev", "configpolicies.copyrator.dev"];

/// What keeps us from removing anything: the first definition that is absent, terminating or not served,
/// or an API server that does not say.
pub async fn missing_definition(client: &Client) -> Option<String> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in DEFINITIONS {
        let definition = match tokio::time::timeout(TIMEOUT, api.get_opt(name)).await {
            Ok(Ok(Some(definition))) => definition,
            Ok(Ok(None)) => return Some(format!("CustomResourceDefinition {name} is gone")),
            Ok(Err(error)) => {
                return Some(format!("CustomResourceDefinition {name} cannot be read: {error}"));
            }
            Err(_) => return Some(format!("CustomResourceDefinition {name} cannot be read in {TIMEOUT:?}")),
        };
        if definition.metadata.deletion_timestamp.is_some() {
            return Some(format!("CustomResourceDefinition {name} is being deleted"));
        }
        let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
        let is = |type_: &str| conditions.iter().any(|one| one.type_ == type_ && one.status == "True");
        if is("Terminating") || !is("Established") {
            return Some(format!("CustomResourceDefinition {name} is not served"));
        }
    }
    None
}
