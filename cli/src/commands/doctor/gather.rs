//! Reads the facts. A fact that the caller may not read is noted, and all other facts are still read.

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
use serde_json::Value;

use super::{
    facts::{Ca, Facts, Pair, Readable, Unread},
    foreign,
    held::{self, Marked},
    instances, labels, leader, policies,
    read::{self, get, list},
    rights, unread,
};
use crate::{
    access::{Authorizer as _, CallerAuthorizer},
    api::ConfigPolicy,
    authority::Question,
    crds::{KubeVersion, manifests},
    dry_run::canary::{self, Canary},
    hooks::NAME,
    installed::{Install, PART_OF, Role},
    intake::AsWritten,
    marks::{CA_SECRET, KEY_SECRET},
    names::GrantedKinds,
    read::{
        ca::{CaReadError, read_rotation},
        crds::DEFINITIONS,
    },
    terminal::{Console, refused::words},
};

/// Reads all facts.
///
/// # Errors
/// The API server does not answer.
pub(super) async fn gather(
    client: &Client,
    namespace: &str,
    now: Timestamp,
    console: &Console,
    kinds: &GrantedKinds,
) -> Result<Facts, Box<kube::Error>> {
    let server = server(client).await?;
    let parts = ListParams::default().labels(&format!("app.kubernetes.io/part-of={PART_OF}"));
    let deployments: Readable<Vec<Deployment>> =
        list(namespaced(client, namespace), Some(namespace), &parts).await;
    let install = Install::new(namespace, deployments.as_deref().unwrap_or_default()).with_kinds(kinds);
    let account = install.account(Role::Reconciler);
    let stem = install.stem();
    let (lease, rest, rights, owner, owned, unread, unlabelled) = tokio::join!(
        leader::look(client, namespace, &account, now, console),
        quick(client, &install, &server),
        rights::look(client, &install),
        get(Api::<ClusterRole>::all(client.clone()), None, &stem),
        instances::look(client, &install),
        unread::look(client, &install),
        async {
            match install.reads_annotations() {
                true => labels::look(client, &install).await,
                false => Ok(Vec::new()),
            }
        },
    );
    let Quick { definitions, admission, hooks, endpoints, policies, by_user, canary, ca, digest_key, held } =
        rest;
    let (policies, inert_policies) = match policies.map(policies::sorted) {
        Ok((policies, inert)) => (Ok(policies), Ok(inert)),
        Err(unread) => (Err(unread.clone()), Err(unread)),
    };
    let namespace = namespace.to_owned();
    let (held, stray) = match held {
        Ok(Marked { held, stray }) => (Ok(held), stray),
        Err(unread) => (Err(unread), Vec::new()),
    };
    Ok(Facts {
        kinds: kinds.clone(),
        namespace,
        now,
        server,
        deployments,
        definitions,
        admission,
        hooks,
        endpoints,
        policies,
        inert_policies,
        by_user,
        canary,
        ca,
        digest_key,
        lease,
        rights,
        owner,
        held,
        stray,
        unlabelled,
        unread,
        owned,
    })
}

/// The facts that are read quickly.
struct Quick {
    definitions: Vec<(String, Readable<Option<CustomResourceDefinition>>)>,
    admission: Vec<Pair>,
    hooks: Readable<Vec<Value>>,
    endpoints: BTreeMap<(String, String), Readable<bool>>,
    policies: Readable<Vec<AsWritten<ConfigPolicy>>>,
    by_user: Readable<Vec<String>>,
    canary: Option<Readable<Result<(), String>>>,
    ca: Readable<Ca>,
    digest_key: Readable<bool>,
    held: Readable<Marked>,
}

async fn quick(client: &Client, install: &Install<'_>, server: &Readable<KubeVersion>) -> Quick {
    let namespace = install.namespace();
    let mut definitions = Vec::new();
    for name in DEFINITIONS {
        definitions.push((name.to_owned(), get(Api::all(client.clone()), None, name).await));
    }
    let hooks = hooks(client).await;
    let mut endpoints = BTreeMap::new();
    for service in foreign::services(hooks.as_deref().unwrap_or_default()) {
        let ready = has_endpoint(client, &service.0, &service.1).await;
        endpoints.insert(service, ready);
    }
    let canary = match &hooks {
        Ok(hooks) if !hooks.iter().any(|one| one["metadata"]["name"] == NAME) => None,
        _ => Some(canary(client, namespace).await),
    };
    let by_user = policies::look(client, &hooks).await;
    Quick {
        definitions,
        admission: admission(client, server).await,
        hooks,
        endpoints,
        policies: list(Api::all(client.clone()), None, &ListParams::default()).await,
        by_user,
        canary,
        ca: ca(client, namespace).await,
        digest_key: digest_key(client, namespace).await,
        held: held::look(client, &install.copy_kinds()).await,
    }
}

async fn server(client: &Client) -> Result<Readable<KubeVersion>, Box<kube::Error>> {
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

async fn hooks(client: &Client) -> Readable<Vec<Value>> {
    let all = ListParams::default();
    let validating: Vec<ValidatingWebhookConfiguration> = list(Api::all(client.clone()), None, &all).await?;
    let mutating: Vec<MutatingWebhookConfiguration> = list(Api::all(client.clone()), None, &all).await?;
    let values = validating.iter().map(serde_json::to_value).chain(mutating.iter().map(serde_json::to_value));
    Ok(values.filter_map(Result::ok).collect())
}

async fn has_endpoint(client: &Client, namespace: &str, service: &str) -> Readable<bool> {
    let of = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let slices: Vec<EndpointSlice> = list(namespaced(client, namespace), Some(namespace), &of).await?;
    let mut endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    Ok(endpoints.any(|one| one.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false)))
}

/// Our admission policies and bindings, except those that this server does not support.
async fn admission(client: &Client, server: &Readable<KubeVersion>) -> Vec<Pair> {
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
        let live = api.get_opt(name).await.map_err(|error| read::unread("get", named, None, error));
        let live = live.map(|live| live.and_then(|live| serde_json::to_value(live).ok()));
        pairs.push(Pair { live, wanted });
    }
    pairs
}

/// Sends a dry run of a rule, unless the caller may not write rules: in that case a refusal would come from
/// RBAC.
async fn canary(client: &Client, namespace: &str) -> Readable<Result<(), String>> {
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
        group: "copyrator.dev".into(),
        resource: "copyratorrules".into(),
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

async fn ca(client: &Client, namespace: &str) -> Readable<Ca> {
    match read_rotation(client, namespace).await {
        Ok(None) => Ok(Ca::Absent),
        Ok(Some(rotation)) => Ok(Ca::There(Box::new(rotation))),
        Err(CaReadError::Api { source, .. }) => {
            Err(read::unread("get", format!("secrets/{CA_SECRET}"), Some(namespace), *source))
        }
        Err(error) => Ok(Ca::Torn(crate::terminal::with_distinct_causes(&error))),
    }
}

/// Reads metadata only, since the key itself is not needed.
async fn digest_key(client: &Client, namespace: &str) -> Readable<bool> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = api.get_metadata_opt(KEY_SECRET).await;
    found
        .map(|found| found.is_some())
        .map_err(|error| read::unread("get", format!("secrets/{KEY_SECRET}"), Some(namespace), error))
}

fn namespaced<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), namespace)
}
