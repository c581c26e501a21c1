//! Checks that the API server serves a kind that is known at run time only as the chart names it: under this
//! plural, and in namespaces.

use std::time::Duration;

use kube::{Client, api::ApiResource};

use crate::model::InstancesRead;

/// How long the API server may take to name the kinds that it serves.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns why the objects of a kind cannot be watched, judging by the published API resources. A list does
/// not show the reason: the API server also lists cluster-scoped objects, and objects of a different kind.
/// `None` also if the API server does not answer; in that case the list shows the error.
pub async fn hindered(client: &Client, kind: &ApiResource) -> Option<InstancesRead> {
    let served = async {
        match &*kind.group {
            "" => client.list_core_api_resources(&kind.version).await,
            _ => client.list_api_group_resources(&kind.api_version).await,
        }
    };
    let served = match tokio::time::timeout(TIMEOUT, served).await {
        Ok(Ok(served)) => served.resources,
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Some(InstancesRead::NotServed),
        Ok(Err(error @ kube::Error::Api(_))) => return Some(InstancesRead::Failed(error.to_string())),
        Ok(Err(_)) | Err(_) => return None,
    };
    let ApiResource { api_version, kind, plural, .. } = kind;
    let is_kind = |name: &str, of: &str| of == kind && !name.contains('/');
    let other = served.iter().find(|one| is_kind(&one.name, &one.kind));
    let why = match (served.iter().find(|one| one.name == *plural), other) {
        (None, None) => return Some(InstancesRead::NotServed),
        (None, Some(other)) => format!(
            "the API server serves {kind} of {api_version} as {}, but the chart's value templates.kinds has {plural}: correct the entry",
            other.name
        ),
        (Some(one), _) if one.kind != *kind => {
            format!("{plural} of {api_version} are of kind {}, not {kind}", one.kind)
        }
        (Some(one), _) if !one.namespaced => {
            format!(
                "{kind} is cluster-scoped, but rules and templates need namespaced objects: remove {kind} from the chart's value \
                 templates.kinds"
            )
        }
        (Some(_), _) => return None,
    };
    Some(InstancesRead::Failed(why))
}
