//! Somebody who talks to the API server.

use std::path::Path;
use std::sync::LazyLock;

use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, client::Body};
use serde_json::Value;

use super::paths;

pub(super) static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
});

/// Somebody who talks to the API server, with the rights of a kubeconfig. Like kubectl, this asks it to refuse fields that it
/// does not know or that are there twice: pruned in silence, a misspelt `match` would have a test judge more than it means.
#[derive(Clone)]
pub struct Person {
    pub(super) client: Client,
    is_strict: bool,
}

/// What the API server said.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// The object, or the refusal.
    pub body: Value,
    /// The warnings that kubectl would print.
    pub warnings: Vec<String>,
}

/// A client of a kubeconfig's cluster that says nothing of who asks: each request does.
pub(super) fn anonymous(kubeconfig: &Path) -> Client {
    let _context = RUNTIME.enter();
    let file = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig is readable");
    let config = RUNTIME.block_on(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()));
    let mut config = config.expect("the kubeconfig is complete");
    config.auth_info = Default::default();
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

impl Person {
    /// The user of a kubeconfig.
    pub fn with(kubeconfig: &Path) -> Person {
        let _context = RUNTIME.enter();
        let file = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig is readable");
        let config = RUNTIME.block_on(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()));
        let client = Client::try_from(config.expect("the kubeconfig is complete")).expect("a client");
        Person { client, is_strict: true }
    }

    /// The same person with a client that does not ask so: what is unknown to the API server it leaves out, and warns.
    pub fn tolerantly(&self) -> Person {
        Person { is_strict: false, ..self.clone() }
    }

    /// One object, if it is there.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let answer = self.send(Method::GET, &paths::object(kind, namespace, name), "application/json", None);
        (answer.code != 404).then(|| answer.ok())
    }

    /// Every object of a kind with these labels; an empty namespace means all namespaces.
    pub fn list(&self, kind: &str, namespace: &str, labels: &str) -> Vec<Value> {
        let path = format!("{}?labelSelector={labels}", paths::collection(kind, namespace));
        let list = self.send(Method::GET, &path, "application/json", None).ok();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// What asking for every object of a kind is answered.
    pub fn try_list(&self, kind: &str) -> Answer {
        self.send(Method::GET, &paths::collection(kind, ""), "application/json", None)
    }

    /// Creates an object.
    pub fn create(&self, object: &Value) -> Answer {
        self.create_with(object, "")
    }

    /// Creates an object that is encoded in Kubernetes' protobuf.
    pub fn create_encoded(&self, kind: &str, namespace: &str, object: Vec<u8>) -> Answer {
        let path = paths::collection(kind, namespace);
        self.send_bytes(Method::POST, &path, "application/vnd.kubernetes.protobuf", object)
    }

    /// Creates an object without storing it.
    pub fn try_create(&self, object: &Value) -> Answer {
        self.create_with(object, "?dryRun=All")
    }

    fn create_with(&self, object: &Value, query: &str) -> Answer {
        let (kind, namespace, _) = paths::identity(object);
        let path = paths::collection(kind, namespace) + query;
        self.send(Method::POST, &path, "application/json", Some(object))
    }

    /// Creates or changes an object by server-side apply, as `kubectl apply --server-side --force-conflicts`.
    pub fn apply(&self, object: &Value) -> Answer {
        self.apply_as("person", object)
    }

    /// The same under the name of another field manager.
    pub fn apply_as(&self, manager: &str, object: &Value) -> Answer {
        let (kind, namespace, name) = paths::identity(object);
        let path = format!("{}?fieldManager={manager}&force=true", paths::object(kind, namespace, name));
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(object))
    }

    /// What server-side apply would make of an object, without force and without storing it.
    pub fn try_apply_as(&self, manager: &str, object: &Value) -> Answer {
        let (kind, namespace, name) = paths::identity(object);
        let path = format!("{}?fieldManager={manager}&dryRun=All", paths::object(kind, namespace, name));
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(object))
    }

    /// The same with force, as [`apply`](Self::apply).
    pub fn try_apply(&self, object: &Value) -> Answer {
        let (kind, namespace, name) = paths::identity(object);
        let path = paths::object(kind, namespace, name) + "?fieldManager=person&force=true&dryRun=All";
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(object))
    }

    /// Replaces an object whole, as `kubectl replace`: what it does not say is taken away.
    pub fn replace(&self, object: &Value) -> Answer {
        let (kind, namespace, name) = paths::identity(object);
        self.send(Method::PUT, &paths::object(kind, namespace, name), "application/json", Some(object))
    }

    /// Replaces an object by way of a subresource, as `kubectl replace --raw`.
    pub fn replace_by(&self, subresource: &str, object: &Value) -> Answer {
        let (kind, namespace, name) = paths::identity(object);
        let path = format!("{}/{subresource}", paths::object(kind, namespace, name));
        self.send(Method::PUT, &path, "application/json", Some(object))
    }

    /// Changes part of an object, as `kubectl patch --type merge` and `kubectl edit`.
    pub fn merge(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> Answer {
        let path = paths::object(kind, namespace, name) + "?fieldManager=kubectl-edit";
        self.send(Method::PATCH, &path, "application/merge-patch+json", Some(patch))
    }

    /// Changes part of an object, as `kubectl patch --type json`.
    pub fn patch_json(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> Answer {
        let path = paths::object(kind, namespace, name) + "?fieldManager=kubectl-patch";
        self.send(Method::PATCH, &path, "application/json-patch+json", Some(patch))
    }

    /// The same as [`merge`](Self::merge) without storing it.
    pub fn try_merge(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> Answer {
        let path = paths::object(kind, namespace, name) + "?fieldManager=kubectl-edit&dryRun=All";
        self.send(Method::PATCH, &path, "application/merge-patch+json", Some(patch))
    }

    /// Changes part of an object's status, past its owner.
    pub fn merge_status(&self, kind: &str, namespace: &str, name: &str, status: &Value) -> Answer {
        self.merge_by_status(kind, namespace, name, &serde_json::json!({ "status": status }))
    }

    /// Changes an object by way of its status.
    pub fn merge_by_status(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> Answer {
        let path = paths::object(kind, namespace, name) + "/status?fieldManager=kubectl-edit";
        self.send(Method::PATCH, &path, "application/merge-patch+json", Some(patch))
    }

    /// Deletes an object.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> Answer {
        self.send(Method::DELETE, &paths::object(kind, namespace, name), "application/json", None)
    }

    /// What deleting an object would be answered.
    pub fn try_delete(&self, kind: &str, namespace: &str, name: &str) -> Answer {
        let path = paths::object(kind, namespace, name) + "?dryRun=All";
        self.send(Method::DELETE, &path, "application/json", None)
    }

    /// Deletes every object of a kind in a namespace, as `kubectl delete --all` of old.
    pub fn delete_all(&self, kind: &str, namespace: &str) -> Answer {
        self.send(Method::DELETE, &paths::collection(kind, namespace), "application/json", None)
    }

    fn send(&self, method: Method, path: &str, content_type: &str, body: Option<&Value>) -> Answer {
        let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let path = if body.is_some() && self.is_strict { strictly(path) } else { path.to_owned() };
        self.send_bytes(method, &path, content_type, bytes)
    }

    fn send_bytes(&self, method: Method, path: &str, content_type: &str, bytes: Vec<u8>) -> Answer {
        let request = Request::builder().method(method).uri(path).header("Content-Type", content_type);
        let request = request.header("Accept", "application/json");
        let request = request.body(Body::from(bytes)).expect("a request");
        RUNTIME.block_on(async {
            let response = self.client.send(request).await.expect("the API server answers");
            let code = response.status().as_u16();
            let warnings = response.headers().get_all("Warning").iter();
            let warnings =
                warnings.filter_map(|header| warning(&String::from_utf8_lossy(header.as_bytes()))).collect();
            let bytes =
                response.into_body().collect_bytes().await.expect("the API server answers to the end");
            let text = || Value::from(String::from_utf8_lossy(&bytes).into_owned());
            Answer { code, body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()), warnings }
        })
    }
}

/// A write's path that also says what becomes of unknown fields.
fn strictly(path: &str) -> String {
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}fieldValidation=Strict")
}

/// The text of a warning header: `299 - "text"`.
fn warning(header: &str) -> Option<String> {
    let quoted = header.strip_prefix("299 ")?.split_once('"')?.1;
    Some(quoted.trim_end_matches('"').replace("\\\"", "\""))
}

impl Answer {
    /// The object; the test fails if there is a refusal instead.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.code < 300, "refused with {}: {}", self.code, self.message());
        self.body
    }

    /// What a refusal says; the test fails if there is none.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(self.code >= 400, "should be refused, but: {} {}", self.code, self.body);
        self.message()
    }

    fn message(&self) -> String {
        self.body["message"].as_str().map_or_else(|| self.body.to_string(), str::to_owned)
    }
}
