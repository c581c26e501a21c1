//! Lists one kind once, in pages, for commands that read the cluster once.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource,
    api::ListParams,
    core::{DynamicObject, NamespaceResourceScope, PartialObjectMeta},
};

use serde::de::DeserializeOwned;

use super::instances::{api, resource};
use crate::{
    decoded::Decoded,
    intake::{
        granted::Declared,
        instance::Instance,
        watched::{Watched, namespace_facts},
    },
    marks::OF_COPIES,
    model::NamespaceFacts,
    names::{Kind, NamespacedName, TemplateKind},
};

/// Objects per page. A watch's first list has smaller pages, since the serving process keeps its memory.
const PAGE: u32 = 500;
/// The most attempts at a list whose continue token expires.
const TRIES: usize = 3;

/// A type that can be listed.
trait Listed: Clone + std::fmt::Debug + DeserializeOwned {}

impl<K: Clone + std::fmt::Debug + DeserializeOwned> Listed for K {}

/// Why a kind could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The API server refused for lack of a right.
    #[error("cannot read {resource} in {scope}: {message}")]
    Refused {
        /// The resource to list.
        resource: String,
        /// `namespace NAME`, or `all namespaces`.
        scope: String,
        /// The API server's message.
        message: String,
    },
    /// The API server does not know the kind.
    #[error(
        "cannot list {resource}: the API server does not serve this kind; is Copyrator installed? \
         copyrator crds | kubectl apply --server-side -f -"
    )]
    NotServed {
        /// The resource to list.
        resource: String,
    },
    /// The API server answered with a different error.
    #[error("cannot list {resource}: {message}")]
    Failed {
        /// The resource to list.
        resource: String,
        /// The HTTP status code of the answer.
        code: u16,
        /// The API server's message.
        message: String,
    },
    /// The API server did not answer.
    #[error("cannot reach the cluster")]
    Unreachable(#[source] Box<kube::Error>),
}

/// Lists all objects of a kind that this field selector matches.
///
/// # Errors
/// The API server refused, or did not answer.
pub async fn list<W: Watched>(client: &Client, fields: Option<&str>) -> Result<Vec<Decoded<W>>, ListError> {
    all(Api::all(client.clone()), "all namespaces", fields).await
}

/// Lists the objects of a kind that this field selector matches, in one namespace.
///
/// # Errors
/// The API server refused, or did not answer.
pub async fn list_in<W>(
    client: &Client,
    namespace: &str,
    fields: Option<&str>,
) -> Result<Vec<Decoded<W>>, ListError>
where
    W: Watched + Resource<Scope = NamespaceResourceScope>,
{
    all(Api::namespaced(client.clone(), namespace), &format!("namespace {namespace}"), fields).await
}

/// Returns the facts of a namespace; `None` for a namespace that does not exist.
///
/// # Errors
/// The API server refused, or did not answer.
pub async fn read_namespace(client: &Client, name: &str) -> Result<Option<NamespaceFacts>, ListError> {
    let (resource, scope) = ("namespaces".to_owned(), format!("namespace {name}"));
    match Api::<Decoded<Namespace>>::all(client.clone()).get_opt(name).await {
        Ok(found) => match found.map(Decoded::read).transpose() {
            Ok(found) => Ok(found.as_ref().map(namespace_facts)),
            Err(left) => {
                let message = format!("cannot read Namespace {name}: {}", left.why);
                Err(ListError::Failed { resource, code: 500, message })
            }
        },
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Err(ListError::Refused { resource, scope, message: status.message.clone() })
        }
        Err(kube::Error::Api(status)) => {
            Err(ListError::Failed { resource, code: status.code, message: status.message.clone() })
        }
        Err(error) => Err(ListError::Unreachable(Box::new(error))),
    }
}

/// Lists all objects of a kind that templates are rendered for.
///
/// # Errors
/// The API server refused, or did not answer.
pub async fn list_instances(
    client: &Client,
    kind: &TemplateKind,
) -> Result<Vec<Decoded<Instance>>, ListError> {
    let first = ListParams::default().limit(PAGE);
    let listed = every(api(client, kind), first, kind.plural.clone(), "all namespaces").await?;
    Ok(listed.into_iter().map(|object| object.map(|object| Instance::new(&kind.kind, object))).collect())
}

/// Whether the instance of this name and UID exists and is not being deleted. The answer is not older than the
/// call, whereas a watch may lag behind the watch of another kind. The reconciler may list instances, and may
/// not get one, so this reads a list of one name.
///
/// # Errors
/// The API server refused, or did not answer.
pub async fn is_instance_live(
    client: &Client,
    kind: &TemplateKind,
    name: &NamespacedName,
    uid: &str,
) -> Result<bool, ListError> {
    let api: Api<Decoded<PartialObjectMeta<DynamicObject>>> =
        Api::namespaced_with(client.clone(), &name.namespace, &resource(kind));
    let first = ListParams::default().limit(PAGE).fields(&format!("metadata.name={}", name.name));
    let listed = every(api, first, kind.plural.clone(), &format!("namespace {}", name.namespace)).await?;
    let is_it = |object: PartialObjectMeta<DynamicObject>| {
        object.metadata.uid.as_deref() == Some(uid) && object.metadata.deletion_timestamp.is_none()
    };
    Ok(listed.into_iter().filter_map(|object| object.read().ok()).any(is_it))
}

/// Lists objects of a kind that is known at run time only, in one namespace or in all: all objects if rules
/// copy the kind, else objects with our labels.
///
/// # Errors
/// The API server refused, or did not answer.
pub async fn list_declared(
    client: &Client,
    kind: Kind,
    place: Option<&str>,
) -> Result<Vec<Decoded<Declared>>, ListError> {
    let resource = kind.resource();
    let api: Api<Decoded<PartialObjectMeta<DynamicObject>>> = match place {
        Some(place) => Api::namespaced_with(client.clone(), place, &resource.into()),
        None => Api::all_with(client.clone(), &resource.into()),
    };
    let scope = place.map_or("all namespaces".to_owned(), |place| format!("namespace {place}"));
    let first = ListParams::default().limit(PAGE);
    let first = if kind.is_copied() { first } else { first.labels(OF_COPIES) };
    let listed = every(api, first, resource.plural.to_owned(), &scope).await?;
    let declared = |object: Decoded<PartialObjectMeta<_>>| {
        object.filter_map(|object| Declared::new(kind, &object.metadata))
    };
    Ok(listed.into_iter().filter_map(declared).collect())
}

async fn all<W: Watched>(
    api: Api<Decoded<W>>,
    scope: &str,
    fields: Option<&str>,
) -> Result<Vec<Decoded<W>>, ListError> {
    let first = ListParams::default().limit(PAGE);
    let first = fields.map_or(first.clone(), |fields| first.fields(fields));
    let first = W::LABELS.map_or(first.clone(), |labels| first.labels(labels));
    every(api, first, W::plural(&()).into_owned(), scope).await
}

async fn every<K: Listed>(
    api: Api<K>,
    first: ListParams,
    resource: String,
    scope: &str,
) -> Result<Vec<K>, ListError> {
    for _ in 0..TRIES {
        match pages(&api, &first).await {
            Ok(all) => return Ok(all),
            // The API server no longer remembers the version of this list.
            Err(kube::Error::Api(status)) if status.code == 410 => {}
            Err(kube::Error::Api(status)) => {
                let message = status.message.clone();
                return Err(match status.code {
                    403 => ListError::Refused { resource, scope: scope.to_owned(), message },
                    404 => ListError::NotServed { resource },
                    code => ListError::Failed { resource, code, message },
                });
            }
            Err(error) => return Err(ListError::Unreachable(Box::new(error))),
        }
    }
    let message = format!("the list expired {TRIES} times before Copyrator could read all of it");
    Err(ListError::Failed { resource, code: 503, message })
}

async fn pages<K: Listed>(api: &Api<K>, first: &ListParams) -> kube::Result<Vec<K>> {
    let (mut all, mut params) = (Vec::new(), first.clone());
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = first.clone().continue_token(&token),
            None => return Ok(all),
        }
    }
}
