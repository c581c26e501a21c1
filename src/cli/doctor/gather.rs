//! Reads what the checks look at. Whatever may not be read is noted, and the rest is read all the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        core::v1::Secret,
        discovery::v1::EndpointSlice,
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    facts::{Ca, Facts, Held, Pair, Seen, Unread},
    foreign, held, labels, leader, rights,
};
use crate::{
    access::{Authorizer as _, CallerAuthorizer},
    act::{
        canary::{self, Canary},
        certificates::{CaError, read_rotation},
    },
    api::ConfigPolicy,
    authority::Question,
    cli::{
        operator::{Install, PART_OF, Role},
        terminal::{Console, refused::words},
    },
    crds::{KubeVersion, manifests},
    hooks::NAME,
    intake::AsWritten,
    marks::{CA_SECRET, KEY_SECRET},
    observe::{content::goes_on_from, crds::DEFINITIONS},
};

/// Objects a page.
const PAGE: u32 = 500;

/// Reads everything.
///
/// # Errors
/// The cluster does not answer.
pub(super) async fn gather(
    client: &Client,
    namespace: &str,
    now: Timestamp,
    console: &Console,
) -> Result<Facts, Box<kube::Error>> {
    let server = server(client).await?;
    let parts = ListParams::default().labels(&format!("app.kubernetes.io/part-of={PART_OF}"));
    let deployments: Seen<Vec<Deployment>> =
        list(namespaced(client, namespace), Some(namespace), &parts).await;
    let install = Install::new(namespace, deployments.as_deref().unwrap_or_default());
    let account = install.account(Role::Reconciler);
    let stem = install.stem();
    let (lease, rest, rights, owner, unlabelled) = tokio::join!(
        leader::look(client, namespace, &account, now, console),
        quick(client, namespace, &server),
        rights::look(client, &install),
        get(Api::<ClusterRole>::all(client.clone()), None, &stem),
        async {
            match install.reads_annotations() {
                true => labels::look(client, &install).await,
                false => Ok(Vec::new()),
            }
        },
    );
    let Quick { definitions, admission, hooks, endpoints, policies, canary, ca, digest_key, held } = rest;
    let namespace = namespace.to_owned();
    Ok(Facts {
        namespace,
        now,
        server,
        deployments,
        definitions,
        admission,
        hooks,
        endpoints,
        policies,
        canary,
        ca,
        digest_key,
        lease,
        rights,
        owner,
        held,
        unlabelled,
    })
}

/// What takes no time.
struct Quick {
    definitions: Vec<(String, Seen<Option<CustomResourceDefinition>>)>,
    admission: Vec<Pair>,
    hooks: Seen<Vec<Value>>,
    endpoints: BTreeMap<(String, String), Seen<bool>>,
    policies: Seen<Vec<ConfigPolicy>>,
    canary: Option<Seen<Result<(), String>>>,
    ca: Seen<Ca>,
    digest_key: Seen<bool>,
    held: Seen<Option<Held>>,
}

async fn quick(client: &Client, namespace: &str, server: &Seen<KubeVersion>) -> Quick {
    let mut definitions = Vec::new();
    for name in DEFINITIONS {
        definitions.push((name.to_owned(), get(Api::all(client.clone()), None, name).await));
    }
    let hooks = hooks(client).await;
    let mut endpoints = BTreeMap::new();
    for service in foreign::services(hooks.as_deref().unwrap_or_default()) {
        let ready = has_endpoint(client, &service).await;
        endpoints.insert(service, ready);
    }
    let canary = match &hooks {
        Ok(hooks) if !hooks.iter().any(|one| one["metadata"]["name"] == NAME) => None,
        _ => Some(canary(client, namespace).await),
    };
    Quick {
        definitions,
        admission: admission(client, server).await,
        hooks,
        endpoints,
        policies: policies(client).await,
        canary,
        ca: ca(client, namespace).await,
        digest_key: digest_key(client, namespace).await,
        held: held::look(client).await,
    }
}

/// The policies that the reconciler takes: it leaves alone what a newer version wrote.
async fn policies(client: &Client) -> Seen<Vec<ConfigPolicy>> {
    let all = list(Api::<AsWritten<ConfigPolicy>>::all(client.clone()), None, &ListParams::default()).await?;
    Ok(all.into_iter().filter_map(AsWritten::understood).collect())
}

async fn server(client: &Client) -> Result<Seen<KubeVersion>, Box<kube::Error>> {
    let unread = |failure: String| Unread {
        verb: "get",
        resource: "/version".into(),
        namespace: None,
        failure: Some(failure),
    };
    match client.apiserver_version().await {
        Ok(info) => Ok(info.git_version.parse::<KubeVersion>().map_err(|error| unread(error.to_string()))),
        Err(kube::Error::Api(status)) => Ok(Err(unread(words(&status)))),
        Err(error) => Err(Box::new(error)),
    }
}

async fn hooks(client: &Client) -> Seen<Vec<Value>> {
    let all = ListParams::default();
    let validating: Vec<ValidatingWebhookConfiguration> = list(Api::all(client.clone()), None, &all).await?;
    let mutating: Vec<MutatingWebhookConfiguration> = list(Api::all(client.clone()), None, &all).await?;
    let values = validating.iter().map(serde_json::to_value).chain(mutating.iter().map(serde_json::to_value));
    Ok(values.filter_map(Result::ok).collect())
}

async fn has_endpoint(client: &Client, (namespace, service): &(String, String)) -> Seen<bool> {
    let of = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let slices: Vec<EndpointSlice> = list(namespaced(client, namespace), Some(namespace), &of).await?;
    let mut endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    Ok(endpoints.any(|one| one.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false)))
}

/// Our admission policies and bindings, but for those that this server does not know.
async fn admission(client: &Client, server: &Seen<KubeVersion>) -> Vec<Pair> {
    let stamps = server.as_ref().map_or(true, |server| server.stamps());
    let mut pairs = Vec::new();
    for wanted in manifests() {
        let kind = wanted["kind"].as_str().unwrap_or_default();
        if !kind.contains("AdmissionPolicy") || (kind.starts_with("Mutating") && !stamps) {
            continue;
        }
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        let (group, version) =
            wanted["apiVersion"].as_str().and_then(|version| version.split_once('/')).unwrap_or_default();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let named = format!("{}.{group}/{name}", resource.plural);
        let live = api.get_opt(name).await.map_err(|error| unread("get", named, None, error));
        let live = live.map(|live| live.and_then(|live| serde_json::to_value(live).ok()));
        pairs.push(Pair { live, wanted });
    }
    pairs
}

/// A dry run of a rule, which nobody sees: its refusal tells nothing to a caller who may not write rules.
async fn canary(client: &Client, namespace: &str) -> Seen<Result<(), String>> {
    let resource = "copyratorrules.copyrator.dev";
    let unread = |failure| Unread {
        verb: "create",
        resource: resource.into(),
        namespace: Some(namespace.into()),
        failure,
    };
    let caller =
        CallerAuthorizer::new(client.clone()).await.map_err(|error| unread(Some(error.to_string())))?;
    let question = Question {
        subject: caller.caller().clone(),
        verb: "create",
        group: "copyrator.dev",
        resource: "copyratorrules",
        subresource: None,
        name: None,
        namespace: namespace.into(),
    };
    match caller.allowed(&question).await {
        Ok(true) => {}
        Ok(false) => return Err(unread(None)),
        Err(error) => return Err(unread(Some(error.to_string()))),
    }
    let token = Timestamp::now().as_nanosecond().to_string();
    Ok(canary::send(client, namespace, Canary::Arrives, &token).await.heard)
}

async fn ca(client: &Client, namespace: &str) -> Seen<Ca> {
    match read_rotation(client, namespace).await {
        Ok(None) => Ok(Ca::Absent),
        Ok(Some(rotation)) => Ok(Ca::There(Box::new(rotation))),
        Err(CaError::Api { source, .. }) => {
            Err(unread("get", format!("secrets/{CA_SECRET}"), Some(namespace), *source))
        }
        Err(error) => Ok(Ca::Torn(crate::cli::terminal::with_causes(&error))),
    }
}

/// Its metadata only: the key itself is nothing to us.
async fn digest_key(client: &Client, namespace: &str) -> Seen<bool> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = api.get_metadata_opt(KEY_SECRET).await;
    found
        .map(|found| found.is_some())
        .map_err(|error| unread("get", format!("secrets/{KEY_SECRET}"), Some(namespace), error))
}

fn namespaced<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), namespace)
}

/// Every object; a kind that is not served has none.
pub(super) async fn list<K>(api: Api<K>, namespace: Option<&str>, which: &ListParams) -> Seen<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    match api.list(which).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(unread("list", plural::<K>(), namespace, error)),
    }
}

/// Every object, a page at a time, of which nothing is kept but what `each` keeps. A list that takes longer than the API
/// server remembers where it began goes on as things are then.
pub(super) async fn pages<K>(
    api: &Api<K>,
    namespace: Option<&str>,
    which: ListParams,
    mut each: impl FnMut(K),
) -> Seen<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let first = which.limit(PAGE);
    let mut params = first.clone();
    loop {
        let next = match api.list(&params).await {
            Ok(page) => {
                page.items.into_iter().for_each(&mut each);
                page.metadata.continue_.filter(|token| !token.is_empty())
            }
            Err(error) => match goes_on_from(&error) {
                None => return Err(unread("list", plural::<K>(), namespace, error)),
                next => next,
            },
        };
        match next {
            Some(token) => params = first.clone().continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// One object, if it is there.
pub(super) async fn get<K>(api: Api<K>, namespace: Option<&str>, name: &str) -> Seen<Option<K>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    api.get_opt(name)
        .await
        .map_err(|error| unread("get", format!("{}/{name}", plural::<K>()), namespace, error))
}

/// As kubectl takes it.
pub(super) fn plural<K: Resource<DynamicType = ()>>() -> String {
    match K::group(&()) {
        group if group.is_empty() => K::plural(&()).into_owned(),
        group => format!("{}.{group}", K::plural(&())),
    }
}

pub(super) fn unread(
    verb: &'static str,
    resource: String,
    namespace: Option<&str>,
    error: kube::Error,
) -> Unread {
    let failure = match error {
        kube::Error::Api(status) if status.code == 403 => None,
        kube::Error::Api(status) => Some(words(&status)),
        other => Some(other.to_string()),
    };
    Unread { verb, resource, namespace: namespace.map(str::to_owned), failure }
}
