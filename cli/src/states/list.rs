//! Lists objects of our kinds. If the user may not list the objects, the error has a hint at what may work
//! instead.

use jiff::Timestamp;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, ListParams},
    core::Object,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    decoded::Decoded,
    installed::ReadScope,
    plan::copy::ProblemReason,
    terminal::{Exit, refused::words},
};

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The API server refused for lack of a right.
    #[error("cannot list {plural} {scope}: {message}{hint}")]
    Refused {
        /// The resource to list.
        plural: String,
        /// The scope of the list, in words.
        scope: String,
        /// The API server's message.
        message: String,
        /// A hint at what may work instead.
        hint: &'static str,
    },
    /// The API server did not answer.
    #[error("cannot reach the cluster")]
    Unreachable(#[source] Box<kube::Error>),
}

impl ReadError {
    /// The exit code of the command.
    pub(crate) fn exit(&self) -> Exit {
        if matches!(self, Self::Unreachable(_)) { Exit::Unreachable } else { Exit::Findings }
    }
}

/// An object of ours whose spec may be of a newer version: only its status is shown.
pub(super) type Reported<Status> = Object<Value, Status>;

/// The scope of a list.
pub(super) enum Scope<'s> {
    /// The objects of a single namespace.
    One(&'s str),
    /// A single namespace that Copyrator does not read.
    Unserved(&'s str),
    /// The objects of all namespaces.
    All,
    /// The cluster, for a kind without namespaces.
    Cluster,
}

impl Scope<'_> {
    /// The scope in words.
    fn said(&self) -> String {
        match self {
            Self::One(namespace) | Self::Unserved(namespace) => format!("in namespace {namespace}"),
            Self::All => "in all namespaces".into(),
            Self::Cluster => "in the cluster".into(),
        }
    }

    /// A hint for a user who may not list in this scope.
    fn hint(&self) -> &'static str {
        match self {
            Self::One(_) => {
                "; a Role in this namespace that allows you to list copyratorrules and configmonitors (copyrator.dev) is enough"
            }
            Self::Unserved(_) => "; this Copyrator does not read the namespace (--namespaces)",
            Self::All => "; to see one namespace: copyrator status -n NAMESPACE",
            Self::Cluster => {
                "; you need a ClusterRole to list configpolicies (copyrator.dev). For one namespace you do not need it: copyrator status \
                 -n NAMESPACE"
            }
        }
    }
}

/// Lists the objects in these scopes. Also returns whether a namespace was left out that the caller may not
/// read.
pub(super) async fn list<K, Status>(
    client: &Client,
    read_scope: &ReadScope,
    scopes: &[Option<&str>],
    labels: Option<&str>,
) -> Result<(Vec<Reported<Status>>, bool), ReadError>
where
    K: Resource<DynamicType = ()>,
    Status: Clone + std::fmt::Debug + Default + DeserializeOwned,
{
    let resource = ApiResource::erase::<K>(&());
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for scope in scopes {
        let (api, scope) = match scope {
            Some(namespace) => {
                let is_served = read_scope.namespaces().is_none_or(|places| places.contains(*namespace));
                let scope = if is_served { Scope::One(namespace) } else { Scope::Unserved(namespace) };
                (Api::namespaced_with(client.clone(), namespace, &resource), scope)
            }
            None => (Api::all_with(client.clone(), &resource), Scope::All),
        };
        match items(api, &resource, &scope, labels).await {
            Ok(items) => all.extend(items),
            Err(error @ ReadError::Refused { .. }) => refused.push(error),
            Err(error) => return Err(error),
        }
    }
    match refused.pop() {
        Some(error) if refused.len() + 1 == scopes.len() => Err(error),
        last => Ok((all, last.is_some())),
    }
}

/// Lists the objects in one scope.
pub(super) async fn items<Status>(
    api: Api<Decoded<Reported<Status>>>,
    resource: &ApiResource,
    scope: &Scope<'_>,
    labels: Option<&str>,
) -> Result<Vec<Reported<Status>>, ReadError>
where
    Status: Clone + std::fmt::Debug + Default + DeserializeOwned,
{
    let refused = |message: String, hint| ReadError::Refused {
        plural: resource.plural.clone(),
        scope: scope.said(),
        message,
        hint,
    };
    let params = labels.map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
    match api.list(&params).await {
        Ok(list) => Ok(list.items.into_iter().map(reported).collect()),
        Err(kube::Error::Api(status)) if status.code == 403 => Err(refused(status.message, scope.hint())),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(refused(
            "the API server does not serve this kind".into(),
            "; is Copyrator installed? copyrator crds | kubectl apply --server-side -f -",
        )),
        Err(kube::Error::Api(status)) => Err(refused(words(&status), "")),
        Err(error) => Err(ReadError::Unreachable(Box::new(error))),
    }
}

/// Returns the object; for an object that cannot be decoded, its metadata and a `Ready` condition with the
/// reason.
fn reported<Status: Clone + std::fmt::Debug + DeserializeOwned>(
    object: Decoded<Reported<Status>>,
) -> Reported<Status> {
    object.read().unwrap_or_else(|left| {
        let reason = ProblemReason::Unreadable.as_str();
        let message = format!("cannot be decoded: {}", left.why);
        let ready = json!({"type": "Ready", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": Timestamp::UNIX_EPOCH, "observedGeneration": left.metadata.generation});
        let status = json!({"observedGeneration": left.metadata.generation, "conditions": [ready]});
        let status = serde_json::from_value(status).ok();
        Object { types: None, metadata: left.metadata, spec: Value::Null, status }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_may_not_list_is_told_what_lets_users_list_there() {
        let said = |scope: &Scope<'_>, plural: &str| {
            let (plural, message) = (plural.to_owned(), "forbidden".to_owned());
            ReadError::Refused { plural, scope: scope.said(), message, hint: scope.hint() }.to_string()
        };
        assert_eq!(
            said(&Scope::One("shop"), "copyratorrules"),
            "cannot list copyratorrules in namespace shop: forbidden; a Role in this namespace that allows you to list \
             copyratorrules and configmonitors (copyrator.dev) is enough"
        );
        assert_eq!(
            said(&Scope::Unserved("shop"), "copyratorrules"),
            "cannot list copyratorrules in namespace shop: forbidden; this Copyrator does not read the namespace (--namespaces)"
        );
        assert_eq!(
            said(&Scope::All, "copyratorrules"),
            "cannot list copyratorrules in all namespaces: forbidden; to see one namespace: copyrator status -n NAMESPACE"
        );
        assert_eq!(
            said(&Scope::Cluster, "configpolicies"),
            "cannot list configpolicies in the cluster: forbidden; you need a ClusterRole to list configpolicies (copyrator.dev). For one \
             namespace you do not need it: copyrator status -n NAMESPACE"
        );
    }
}
