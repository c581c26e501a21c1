//! Checks that the CustomResourceDefinitions of our own kinds exist and are not being deleted: to a watch,
//! `kubectl delete crd` looks like the deletion of every rule. A process that may not read definitions reads
//! the published API resources instead, which lack the verb `create` while a definition is being deleted.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use tokio::{sync::Mutex, time::Instant};

use crate::model::Definition;

const TIMEOUT: Duration = Duration::from_secs(5);

/// The CustomResourceDefinitions of our own kinds. Any deletion requires the first three definitions. Only
/// the deletion of objects that templates made requires the last definition, since an earlier version had no
/// templates.
pub const DEFINITIONS: [&str; 4] = [
    "copyratorrules.copyrator.dev",
    "configmonitors.copyrator.dev",
    "configpolicies.copyrator.dev",
    "copyratortemplates.copyrator.dev",
];

/// The CustomResourceDefinition of rules.
pub const RULES: &str = DEFINITIONS[0];

/// The CustomResourceDefinition of templates.
pub const TEMPLATES: &str = DEFINITIONS[3];

/// The kinds, in the plural, that the published API resources must have. Policies and templates may be
/// missing.
const KINDS: [&str; 2] = ["copyratorrules", "configmonitors"];

/// The published API resources follow the definitions with this delay.
const PUBLISHED_AFTER: Duration = Duration::from_secs(1);

/// How long the next deletions reuse an answer.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// Checks the definitions of our own kinds; concurrent deletions share one answer.
pub struct Definitions {
    client: Client,
    /// Whether to read the published API resources, for an account that may not read definitions.
    published: bool,
    last: Mutex<Option<Answer>>,
}

/// The UID of each definition, or the fault of the definition.
type Seen = BTreeMap<&'static str, Result<String, String>>;

struct Answer {
    /// `Ok(Some(…))`: the state of each definition. `Ok(None)`: the published API resources lack nothing.
    /// `Err`: what the published API resources lack.
    seen: Result<Option<Seen>, String>,
    rules_gone: u64,
    at: Instant,
}

impl Definitions {
    /// Reads definitions with this client.
    pub fn new(client: Client) -> Self {
        Self { client, published: false, last: Mutex::default() }
    }

    /// Reads the published API resources with this client; every account may read them.
    pub fn published(client: Client) -> Self {
        Self { published: true, ..Self::new(client) }
    }

    /// Returns why nothing may be deleted now: a definition is absent, terminating or not served, the API
    /// server does not answer, or the rules were listed under a different definition. `rules_gone` counts the
    /// rules deleted so far: an answer from before the last deletion cannot explain that deletion.
    pub async fn missing(
        &self,
        rules_gone: u64,
        name: &str,
        listed_under: Option<&Definition>,
    ) -> Option<String> {
        let mut last = self.last.lock().await;
        let serves = |one: &&Answer| one.rules_gone == rules_gone && one.at.elapsed() < KEPT_FOR;
        if let Some(answer) = last.as_ref().filter(serves) {
            return answer.missing(name, listed_under);
        }
        let seen = match self.published {
            false => Ok(Some(uids(&self.client).await)),
            true => {
                if last.as_ref().is_none_or(|one| one.rules_gone != rules_gone) {
                    tokio::time::sleep(PUBLISHED_AFTER).await;
                }
                missing_kind(&self.client).await.map_or(Ok(None), Err)
            }
        };
        let answer = Answer { seen, rules_gone, at: Instant::now() };
        last.insert(answer).missing(name, listed_under)
    }
}

impl Answer {
    fn missing(&self, name: &str, listed_under: Option<&Definition>) -> Option<String> {
        match &self.seen {
            Err(missing) => Some(missing.clone()),
            Ok(None) => None,
            Ok(Some(uids)) => {
                let mut needed =
                    DEFINITIONS.into_iter().filter(|other| *other == name || *other != TEMPLATES);
                let gone = needed.find_map(|other| uids.get(other)?.as_ref().err().cloned());
                let is_listed = listed_under.is_some_and(|listed| {
                    uids.get(name).is_some_and(|seen| seen.as_deref() == Ok(&*listed.uid))
                });
                let unlisted =
                    || format!("Copyrator has not listed the objects of CustomResourceDefinition {name} yet");
                gone.or_else(|| (!is_listed).then(unlisted))
            }
        }
    }
}

/// Returns the definition of this name, if it exists.
///
/// # Errors
/// The API server did not return it.
pub async fn definition(client: &Client, name: &str) -> kube::Result<Option<Definition>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = api.get_metadata_opt(name).await?;
    Ok(found.map(|found| Definition {
        uid: found.metadata.uid.unwrap_or_default().into(),
        created: found.metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    }))
}

/// Returns the UID of each definition that exists and is served, and the fault of each other definition.
async fn uids(client: &Client) -> Seen {
    let mut uids = Seen::new();
    for name in DEFINITIONS {
        uids.insert(name, uid(client, name).await);
    }
    uids
}

async fn uid(client: &Client, name: &str) -> Result<String, String> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = match tokio::time::timeout(TIMEOUT, api.get_opt(name)).await {
        Ok(Ok(Some(definition))) => definition,
        Ok(Ok(None)) => return Err(format!("CustomResourceDefinition {name} not found")),
        Ok(Err(error)) => {
            return Err(format!("cannot read CustomResourceDefinition {name}: {error}"));
        }
        Err(_) => {
            return Err(format!("cannot read CustomResourceDefinition {name}: no answer in {TIMEOUT:?}"));
        }
    };
    if definition.metadata.deletion_timestamp.is_some() {
        return Err(format!("CustomResourceDefinition {name} is being deleted"));
    }
    let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
    let is = |type_: &str| conditions.iter().any(|one| one.type_ == type_ && one.status == "True");
    if is("Terminating") || !is("Established") {
        return Err(format!("CustomResourceDefinition {name} is not served"));
    }
    Ok(definition.metadata.uid.unwrap_or_default())
}

async fn missing_kind(client: &Client) -> Option<String> {
    let version = format!("{}/v1alpha1", crate::api::GROUP);
    let published = match tokio::time::timeout(TIMEOUT, client.list_api_group_resources(&version)).await {
        Ok(Ok(published)) => published.resources,
        Ok(Err(error)) => {
            return Some(format!("cannot read which kinds of {version} the API server serves: {error}"));
        }
        Err(_) => {
            return Some(format!(
                "cannot read which kinds of {version} the API server serves: no answer in {TIMEOUT:?}"
            ));
        }
    };
    for kind in KINDS {
        match published.iter().find(|resource| resource.name == kind) {
            None => return Some(format!("the API server does not serve {kind} of {version}")),
            Some(resource) if !resource.verbs.iter().any(|verb| verb == "create") => {
                return Some(format!("the definition of {kind} is being deleted"));
            }
            Some(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicUsize, Ordering},
        },
    };

    use http::{Request, Response};
    use http_body_util::Full;
    use hyper::body::Bytes;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// Counts requests, and says whether the definitions are being deleted.
    #[derive(Clone, Default)]
    struct Server {
        asked: Arc<AtomicUsize>,
        going: Arc<AtomicBool>,
    }

    impl Server {
        fn definitions(&self) -> Definitions {
            let server = self.clone();
            let service = tower::service_fn(move |request: Request<Body>| {
                server.asked.fetch_add(1, Ordering::Relaxed);
                let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
                let deleted = server.going.load(Ordering::Relaxed).then_some("2026-01-01T00:00:00Z");
                let spec = json!({"group": "g", "names": {"kind": "K", "plural": "p"}, "scope": "Namespaced", "versions": []});
                let conditions = json!([{"type": "Established", "status": "True"}]);
                let body = json!({"metadata": {"name": name, "uid": "u", "deletionTimestamp": deleted}, "spec": spec,
                    "status": {"conditions": conditions}});
                let answer = Response::new(Full::new(Bytes::from(body.to_string())));
                async move { Ok::<_, Infallible>(answer) }
            });
            Definitions::new(Client::new(service, "default"))
        }

        fn asked(&self) -> usize {
            self.asked.swap(0, Ordering::Relaxed)
        }
    }

    /// A thousand deletions at once do not need three thousand requests; each rule that was deleted needs
    /// one.
    #[tokio::test(start_paused = true)]
    async fn removals_share_an_answer_but_none_from_before_a_rule_went() {
        let server = Server::default();
        let definitions = server.definitions();
        let under = Definition { uid: "u".into(), created: Timestamp::UNIX_EPOCH };
        let listed = Some(&under);
        let answers =
            futures::future::join_all((0..100).map(|_| definitions.missing(0, RULES, listed))).await;
        assert!(answers.iter().all(Option::is_none), "{answers:?}");
        assert_eq!(server.asked(), DEFINITIONS.len());

        server.going.store(true, Ordering::Relaxed);
        assert_eq!(
            definitions.missing(0, RULES, listed).await,
            None,
            "nothing that is gone now was there for a rule to go with"
        );
        assert_eq!(server.asked(), 0);
        assert!(
            definitions
                .missing(1, RULES, listed)
                .await
                .is_some_and(|missing| missing.contains("is being deleted"))
        );
        assert_eq!(server.asked(), DEFINITIONS.len());

        server.going.store(false, Ordering::Relaxed);
        assert!(definitions.missing(1, RULES, listed).await.is_some());
        tokio::time::advance(KEPT_FOR).await;
        assert_eq!(definitions.missing(1, RULES, listed).await, None);
        let other = Definition { uid: "before".into(), ..under };
        for listed in [None, Some(&other)] {
            let missing = definitions.missing(1, RULES, listed).await;
            assert!(missing.is_some_and(|missing| missing.contains("has not listed the objects of")));
        }
    }

    /// While a definition is being deleted, its published resource lacks the verb `create`.
    #[tokio::test(start_paused = true)]
    async fn what_is_published_tells_of_a_definition_that_goes() {
        let missing = |resources: serde_json::Value| async move {
            let list = json!({"kind": "APIResourceList", "groupVersion": "copyrator.dev/v1alpha1", "resources": resources});
            let service = tower::service_fn(move |request: Request<Body>| {
                assert_eq!(request.uri().path(), "/apis/copyrator.dev/v1alpha1");
                let answer = Response::new(Full::new(Bytes::from(list.to_string())));
                async move { Ok::<_, Infallible>(answer) }
            });
            Definitions::published(Client::new(service, "default")).missing(0, RULES, None).await
        };
        let kind = |name: &str, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": true, "kind": "K", "verbs": verbs});
        let (all, going) = (["create", "get", "list"], ["delete", "get", "list"]);
        let (rules, monitors) = (kind("copyratorrules", &all), kind("configmonitors", &all));
        assert_eq!(missing(json!([rules, monitors])).await, None);
        let said = missing(json!([kind("copyratorrules", &going), monitors])).await.unwrap();
        assert_eq!(said, "the definition of copyratorrules is being deleted");
        assert!(missing(json!([rules])).await.unwrap().contains("does not serve configmonitors of "));
    }
}
