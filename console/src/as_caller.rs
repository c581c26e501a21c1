//! Writes of a person through `copyrator console`: CopyratorTemplates, with that person's own credentials.
//! The operator takes no part: a person's write needs no lease, and the API server authorizes the write as
//! for any user.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use kube::{
    Client, Resource as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions, ValidationDirective},
    client::Body,
    core::{Request, request},
};
use secrecy::SecretString;
use serde_json::Value;

use crate::{
    api::CopyratorTemplate,
    connect::{ApiServer, ClientError, Target, WriteClient, clients},
    marks::CONSOLE_MANAGER,
    names::NamespacedName,
};

/// Writes CopyratorTemplates as the caller, and cannot write anything else.
#[derive(Clone)]
pub(crate) struct AsCaller(WriteClient);

/// The clients with one caller's rights.
pub(crate) struct CallerClients {
    /// Reads with the caller's rights, and cannot write.
    pub(crate) reads: Client,
    /// Writes templates with the caller's rights, and nothing else.
    pub(crate) writes: AsCaller,
}

/// Why the API server gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsent {
    /// The request is malformed.
    #[error("this is not a valid HTTP request")]
    Malformed(#[source] request::Error),
    /// The request is not about one template, and was not sent.
    #[error("{method} {path} was not sent: this client writes templates only")]
    NotATemplate { method: Method, path: String },
    /// The request had no answer; the request may have been sent.
    #[error("the API server did not answer: read the template to see whether it was written")]
    Unanswered(#[source] Box<kube::Error>),
}

/// Returns a client that reads with the caller's rights, and a writer of templates with the same rights.
///
/// # Errors
/// Returns an error if no usable configuration exists.
pub(crate) async fn connect(target: &Target) -> Result<CallerClients, ClientError> {
    // The few requests of a person need no throttle.
    let (reads, writes) = clients(target, &Arc::default()).await?;
    Ok(CallerClients { reads, writes: AsCaller::new(writes) })
}

/// Returns clients for a caller who has sent a token: a reader, and a writer of templates. The API server
/// gets only this token of the caller's request. `heard` receives the status code of each answer.
///
/// # Errors
/// Returns an error if the token cannot be sent.
pub(crate) fn with_token(
    server: &ApiServer,
    token: &SecretString,
    home: &str,
    heard: impl Fn(StatusCode) + Clone + Send + Sync + 'static,
) -> Result<CallerClients, ClientError> {
    let (reads, writes) = server.with_token(token, home, heard)?;
    Ok(CallerClients { reads, writes: AsCaller::new(writes) })
}

impl AsCaller {
    /// Creates a writer that sends requests through this client, which has the caller's credentials.
    pub(crate) fn new(client: WriteClient) -> Self {
        Self(client)
    }

    /// Creates or changes a template, by server-side apply without force.
    ///
    /// # Errors
    /// Returns an error if the API server gives no answer; a refusal is an answer.
    pub(crate) async fn apply(
        &self,
        name: &NamespacedName,
        template: &Value,
        dry_run: bool,
    ) -> Result<Response<Body>, Unsent> {
        let params = PatchParams {
            dry_run,
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::apply(CONSOLE_MANAGER)
        };
        self.send(name, of(name).patch(&name.name, &params, &Patch::Apply(template))).await
    }

    /// Deletes a template if it still meets the `preconditions`.
    ///
    /// # Errors
    /// Returns an error if the API server gives no answer; a refusal is an answer.
    pub(crate) async fn delete(
        &self,
        name: &NamespacedName,
        preconditions: Preconditions,
        dry_run: bool,
    ) -> Result<Response<Body>, Unsent> {
        let params = DeleteParams { dry_run, preconditions: Some(preconditions), ..DeleteParams::default() };
        self.send(name, of(name).delete(&name.name, &params)).await
    }

    async fn send(
        &self,
        name: &NamespacedName,
        request: Result<http::Request<Vec<u8>>, request::Error>,
    ) -> Result<Response<Body>, Unsent> {
        let request = request.map_err(Unsent::Malformed)?.map(Body::from);
        let (method, path) = (request.method(), request.uri().path());
        if !is_of_one_template(method, path, name) {
            return Err(Unsent::NotATemplate { method: method.clone(), path: path.to_owned() });
        }
        self.0.client().send(request).await.map_err(|error| Unsent::Unanswered(Box::new(error)))
    }
}

/// Returns a request builder for the templates of a namespace.
fn of(name: &NamespacedName) -> Request {
    Request::new(CopyratorTemplate::url_path(&(), Some(&name.namespace)))
}

/// Whether the request applies or deletes the template of this name. A collection has a different path, and a
/// malformed name could lead to a different path.
fn is_of_one_template(method: &Method, path: &str, name: &NamespacedName) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_plain);
    let is_named = [&name.namespace, &name.name].iter().all(|part| part.split('.').all(is_label));
    let collection = CopyratorTemplate::url_path(&(), Some(&name.namespace));
    [Method::PATCH, Method::DELETE].contains(method)
        && is_named
        && path == format!("{collection}/{}", name.name)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Mutex, PoisonError},
    };

    use serde_json::json;

    use super::*;

    /// The requests that were sent: method and path, and the body.
    type Sent = Arc<Mutex<Vec<(String, Value)>>>;

    fn listening() -> (AsCaller, Sent) {
        let sent = Sent::default();
        let log = sent.clone();
        let server = tower::service_fn(move |request: http::Request<Body>| {
            let log = log.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let line = format!("{} {}", head.method, head.uri);
                log.lock().unwrap_or_else(PoisonError::into_inner).push((line, body));
                Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
            }
        });
        (AsCaller::new(WriteClient::of(Client::new(server, "shop"))), sent)
    }

    #[tokio::test]
    async fn a_template_is_applied_without_force_and_deleted_as_it_was_seen() {
        let (caller, sent) = listening();
        let name = NamespacedName::new("shop", "team");
        let template = json!({ "metadata": { "name": "team" } });
        caller.apply(&name, &template, true).await.unwrap();
        let seen = Preconditions { uid: Some("u".into()), resource_version: Some("7".into()) };
        caller.delete(&name, seen, true).await.unwrap();
        let sent = sent.lock().unwrap().clone();
        let path = "/apis/copyrator.dev/v1alpha1/namespaces/shop/copyratortemplates/team?";
        assert_eq!(
            sent[0],
            (
                format!("PATCH {path}&dryRun=All&fieldManager=copyrator-console&fieldValidation=Strict"),
                template
            )
        );
        assert_eq!(sent[1].0, format!("DELETE {path}"));
        let options = json!({ "dryRun": ["All"], "preconditions": { "uid": "u", "resourceVersion": "7" } });
        assert_eq!(sent[1].1, options);
    }

    #[tokio::test]
    async fn nothing_else_is_sent() {
        let (caller, sent) = listening();
        let none = Preconditions::default;
        for (namespace, name) in
            [("shop", ".."), ("shop", "."), ("shop", ""), ("shop", "a/../b"), ("shop", "a?b"), ("..", "a")]
        {
            let name = NamespacedName::new(namespace, name);
            assert!(caller.delete(&name, none(), false).await.is_err(), "{name}");
            assert!(caller.apply(&name, &json!({}), true).await.is_err(), "{name}");
        }
        assert!(sent.lock().unwrap().is_empty());
        let path = "/apis/copyrator.dev/v1alpha1/namespaces/shop/copyratortemplates";
        let name = NamespacedName::new("shop", "team");
        for (method, path, is_sent) in [
            (Method::DELETE, format!("{path}/team"), true),
            (Method::PATCH, format!("{path}/team"), true),
            (Method::PATCH, format!("{path}/team/status"), false),
            (Method::PATCH, format!("{path}/other"), false),
            (Method::PUT, format!("{path}/team"), false),
            (Method::GET, format!("{path}/team"), false),
            (Method::DELETE, path.to_owned(), false),
            (Method::DELETE, format!("{path}/"), false),
            (Method::DELETE, path.replace("templates", "rules") + "/team", false),
            (Method::DELETE, "/api/v1/namespaces/shop/secrets/team".to_owned(), false),
        ] {
            assert_eq!(is_of_one_template(&method, &path, &name), is_sent, "{method} {path}");
        }
    }
}
