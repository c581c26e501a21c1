//! Reads the input of an import from a cluster; of ConfigMaps and Secrets, only the metadata.

use copyrator_import::{ImportInput, Tool, is_of_interest};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, TypeMeta},
    core::{DynamicResourceScope, GroupVersionKind, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    decoded::{Decoded, Unreadable},
    terminal::{Exit, refused::words},
};

/// Why nothing can be imported.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The API server refused for lack of a right.
    #[error(
        "cannot list {plural} {scope}: {message}; import one namespace with -n NAMESPACE, or manifests with -f FILE"
    )]
    Refused {
        /// The resource to list.
        plural: String,
        /// The namespace to list, or all namespaces, in words.
        scope: String,
        /// The API server's message.
        message: String,
    },
    /// The API server did not answer.
    #[error("cannot reach the cluster")]
    Unreachable(#[source] Box<kube::Error>),
}

impl ReadError {
    /// The exit code of the command.
    pub(super) fn exit(&self) -> Exit {
        if matches!(self, Self::Unreachable(_)) { Exit::Unreachable } else { Exit::Findings }
    }
}

/// How many objects a page has.
const PAGE: u32 = 500;

/// A kind that is read.
struct Looked {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    in_namespaces: bool,
    /// Whether objects are read whole: custom resources and workloads have their declarations in their specs.
    whole: bool,
    /// The tool that the kind belongs to, if little is lost when the kind may not be read.
    optional: Option<Tool>,
}

const fn core(kind: &'static str, plural: &'static str) -> Looked {
    Looked { group: "", version: "v1", kind, plural, in_namespaces: true, whole: false, optional: None }
}

/// A kind of workload that Reloader restarts.
const fn restarted(group: &'static str, kind: &'static str, plural: &'static str) -> Looked {
    Looked { group, whole: true, optional: Some(Tool::Reloader), ..core(kind, plural) }
}

/// A kind of policies in no namespace.
const fn policy(tool: Tool, group: &'static str, kind: &'static str, plural: &'static str) -> Looked {
    Looked { group, in_namespaces: false, whole: true, optional: Some(tool), ..core(kind, plural) }
}

/// The exceptions of Kyverno in a version.
const fn exception(version: &'static str) -> Looked {
    Looked { version, ..policy(Tool::Kyverno, "kyverno.io", "PolicyException", "policyexceptions") }
}

/// A kind of Kyverno that is named, and not translated.
const fn generating(kind: &'static str, plural: &'static str) -> Looked {
    Looked { whole: false, ..policy(Tool::Kyverno, "policies.kyverno.io", kind, plural) }
}

const fn onboarding(kind: &'static str, plural: &'static str) -> Looked {
    Looked { version: "v1alpha1", ..policy(Tool::NamespaceConfig, "redhatcop.redhat.io", kind, plural) }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const REPLICATOR: Option<Tool> = Some(Tool::Replicator);

const KINDS: [Looked; 23] = [
    core("ConfigMap", "configmaps"),
    core("Secret", "secrets"),
    Looked { optional: REPLICATOR, ..core("ServiceAccount", "serviceaccounts") },
    Looked { optional: REPLICATOR, group: RBAC, ..core("Role", "roles") },
    Looked { optional: REPLICATOR, group: RBAC, ..core("RoleBinding", "rolebindings") },
    Looked {
        group: "clustersecret.io",
        in_namespaces: false,
        whole: true,
        optional: Some(Tool::ClusterSecret),
        ..core("ClusterSecret", "clustersecrets")
    },
    policy(Tool::Kyverno, "kyverno.io", "ClusterPolicy", "clusterpolicies"),
    Looked { in_namespaces: true, ..policy(Tool::Kyverno, "kyverno.io", "Policy", "policies") },
    // Exceptions apply to ClusterPolicies from any namespace. For exceptions and the kinds below, the API
    // server may serve one or two versions.
    exception("v2beta1"),
    exception("v2"),
    Looked { version: "v1alpha1", ..generating("GeneratingPolicy", "generatingpolicies") },
    generating("GeneratingPolicy", "generatingpolicies"),
    Looked {
        in_namespaces: true,
        ..generating("NamespacedGeneratingPolicy", "namespacedgeneratingpolicies")
    },
    onboarding("NamespaceConfig", "namespaceconfigs"),
    onboarding("GroupConfig", "groupconfigs"),
    onboarding("UserConfig", "userconfigs"),
    Looked {
        group: "flant.com",
        whole: true,
        optional: Some(Tool::Seed),
        ..core("CopyratorRule", "copyrators")
    },
    Looked {
        group: "magalix.com",
        whole: true,
        optional: Some(Tool::SeedMonitor),
        ..core("ConfigMonitor", "configmonitors")
    },
    restarted("apps", "Deployment", "deployments"),
    restarted("apps", "StatefulSet", "statefulsets"),
    restarted("apps", "DaemonSet", "daemonsets"),
    Looked { whole: false, ..restarted("batch", "CronJob", "cronjobs") },
    Looked { version: "v1alpha1", ..restarted("argoproj.io", "Rollout", "rollouts") },
];

/// The objects in a cluster that an import needs.
#[derive(Default)]
pub(super) struct Read {
    pub(super) input: ImportInput,
    /// The objects that cannot be read, each with the reason.
    pub(super) unreadable: Vec<String>,
}

/// A list of one kind.
struct Listing<'a> {
    client: &'a Client,
    resource: &'a ApiResource,
    /// The only namespace to read.
    place: Option<&'a str>,
    first: &'a ListParams,
}

/// Everything that other tools read or write, in one namespace or in all.
pub(super) async fn read(
    client: &Client,
    namespace: Option<&str>,
    of_labels: Option<&str>,
) -> Result<Read, ReadError> {
    let mut found = Read::default();
    labels(client, namespace, &mut found).await;
    let page = ListParams::default().limit(PAGE);
    let page = of_labels.map_or(page.clone(), |labels| page.labels(labels));
    for looked in &KINDS {
        let gvk = GroupVersionKind::gvk(looked.group, looked.version, looked.kind);
        let resource = &ApiResource::from_gvk_with_plural(&gvk, looked.plural);
        let place = namespace.filter(|_| looked.in_namespaces);
        let scope = match place {
            Some(name) => format!("in namespace {name}"),
            None if looked.in_namespaces => "in all namespaces".into(),
            None => "in the cluster".into(),
        };
        let listing = Listing { client, resource, place, first: &page };
        let listed = match looked.whole {
            true => listing.whole(&mut found).await,
            false => listing.metadata(&mut found).await,
        };
        match (listed, looked.optional) {
            (Ok(()), _) => {}
            // The tool is not installed.
            (Err(kube::Error::Api(status)), Some(_)) if status.code == 404 => {}
            (Err(kube::Error::Api(status)), Some(tool)) => {
                found.input.unread(tool, looked.kind, &scope, &status.message)
            }
            (Err(kube::Error::Api(status)), None) => {
                return Err(ReadError::Refused {
                    plural: looked.plural.into(),
                    scope,
                    message: words(&status),
                });
            }
            (Err(error), _) => return Err(ReadError::Unreachable(Box::new(error))),
        }
    }
    Ok(found)
}

/// Reads the labels of namespaces. Without the labels a few consents cannot be judged, and are reported.
async fn labels(client: &Client, namespace: Option<&str>, found: &mut Read) {
    let resource =
        &ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Namespace"), "namespaces");
    match namespace {
        Some(name) => {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
            if let Ok(one) = api.get_metadata(name).await {
                found.input.take(document(resource, &one), None);
            }
        }
        None => {
            let first = &ListParams::default().limit(PAGE);
            drop(Listing { client, resource, place: None, first }.metadata(found).await);
        }
    }
}

/// The relevant part of an object's metadata. The remaining metadata, which may contain whole Secrets
/// (`last-applied-configuration`), is dropped page by page.
fn document(resource: &ApiResource, object: &PartialObjectMeta<DynamicObject>) -> Value {
    let annotations = object.annotations().iter().filter(|(key, _)| is_of_interest(key));
    let annotations: Value = annotations.map(|(key, value)| (key.clone(), json!(value))).collect();
    json!({ "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {
        "name": object.name_any(), "namespace": object.namespace(), "labels": object.labels(), "annotations": annotations,
    } })
}

impl Listing<'_> {
    /// Reads the metadata of all objects.
    async fn metadata(&self, found: &mut Read) -> kube::Result<()> {
        self.each(found, |object| document(self.resource, &object)).await
    }

    /// Reads all objects whole. Items of a list have no kind.
    async fn whole(&self, found: &mut Read) -> kube::Result<()> {
        let ApiResource { api_version, kind, .. } = self.resource;
        let types = TypeMeta { api_version: api_version.clone(), kind: kind.clone() };
        self.each(found, |object: DynamicObject| {
            json!(DynamicObject { types: Some(types.clone()), ..object })
        })
        .await
    }

    /// Reads all objects, page by page.
    async fn each<K>(&self, found: &mut Read, document: impl Fn(K) -> Value) -> kube::Result<()>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let client = self.client.clone();
        let api: Api<Decoded<K>> = match self.place {
            Some(place) => Api::namespaced_with(client, place, self.resource),
            None => Api::all_with(client, self.resource),
        };
        let mut page = self.first.clone();
        loop {
            let list = api.list(&page).await?;
            for object in list.items {
                match object.read() {
                    Ok(object) => found.input.take(document(object), None),
                    Err(left) => found.unreadable.push(self.unreadable(&left)),
                }
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    fn unreadable(&self, left: &Unreadable) -> String {
        let Unreadable { metadata, why } = left;
        let name = metadata.name.as_deref().unwrap_or("without a name");
        let place = metadata.namespace.iter().map(|place| format!("{place}/")).collect::<String>();
        format!(
            "cannot read {} {place}{name} ({why}), so the result lacks this object's rule, template or monitor",
            self.resource.kind
        )
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn an_object_that_cannot_be_read_is_named_and_the_others_are_imported() {
        let annotations = json!({"replicator.v1.mittwald.de/replicate-to": "shop"});
        let whole = json!({"metadata": {"namespace": "home", "name": "a", "annotations": annotations}});
        let poison = json!({"metadata": {"namespace": "home", "name": "b", "labels": 7}});
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_it = request.uri().path().ends_with("/secrets");
            let items = if is_it { json!([poison, whole]) } else { json!([]) };
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items});
            async move { Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes()))) }
        });
        let found = read(&Client::new(service, "default"), None, None).await.unwrap();
        let [unreadable] = &found.unreadable[..] else { panic!("{:?}", found.unreadable) };
        assert!(unreadable.starts_with("cannot read Secret home/b ("), "{unreadable}");
        let printed = format!("{:?}", found.input);
        assert!(printed.contains("replicate-to"), "{printed}");
    }
}
