//! The filter of clients that cannot write: they send only reads, access reviews and dry runs.

use http::{Method, Request};

/// The error for a request that would change something, from a client that cannot write. The request is not
/// sent.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path} was not sent: this client is read-only; write through the operator's act::writer")]
pub(super) struct NotARead {
    method: Method,
    path: String,
}

/// API groups whose objects are questions: the API server answers a creation and stores nothing.
const REVIEWS: [&str; 2] = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];

/// Passes on a request that changes nothing in the cluster.
///
/// # Errors
/// Returns an error for a request that would change something.
pub(super) fn reads_only<B>(request: Request<B>) -> Result<Request<B>, NotARead> {
    let (method, uri) = (request.method(), request.uri());
    let is_read = [Method::GET, Method::HEAD].contains(method);
    let is_review = *method == Method::POST && REVIEWS.iter().any(|group| uri.path().starts_with(group));
    let is_dry_run = || uri.query().is_some_and(|query| query.split('&').any(|one| one == "dryRun=All"));
    match is_read || is_review || is_dry_run() {
        true => Ok(request),
        false => Err(NotARead { method: method.clone(), path: uri.path().to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use http::Response;
    use k8s_openapi::api::{authorization::v1::LocalSubjectAccessReview, core::v1::ConfigMap};
    use kube::{
        Api, Client,
        api::{DeleteParams, Patch, PatchParams, PostParams},
        client::Body,
    };
    use tower::ServiceBuilder;

    use super::*;

    /// As kube words the requests: a path or query that it changes is noticed here.
    #[tokio::test]
    async fn what_would_change_something_is_not_sent() {
        let sent = Arc::new(AtomicUsize::new(0));
        let seen = sent.clone();
        let server = tower::service_fn(move |_: Request<Body>| {
            seen.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, Infallible>(Response::new(Body::from(b"{\"metadata\": {}}".to_vec()))) }
        });
        let client = Client::new(ServiceBuilder::new().filter(reads_only).service(server), "shop");
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let (mut map, post) = (ConfigMap::default(), PostParams::default());
        map.metadata.name = Some("app".into());
        let patch = Patch::Apply(&map);

        maps.get("app").await.unwrap();
        let reviews: Api<LocalSubjectAccessReview> = Api::namespaced(client, "shop");
        reviews.create(&post, &LocalSubjectAccessReview::default()).await.unwrap();
        maps.create(&PostParams { dry_run: true, ..post.clone() }, &map).await.unwrap();
        maps.patch("app", &PatchParams { dry_run: true, ..PatchParams::apply("us") }, &patch).await.unwrap();
        assert_eq!(sent.load(Ordering::Relaxed), 4);

        for refused in [
            maps.create(&post, &map).await.map(drop),
            maps.replace("app", &post, &map).await.map(drop),
            maps.patch("app", &PatchParams::apply("us"), &patch).await.map(drop),
            maps.delete("app", &DeleteParams::default()).await.map(drop),
            maps.delete_collection(&DeleteParams::default(), &Default::default()).await.map(drop),
        ] {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains(" /api/v1/namespaces/shop/configmaps"), "{said}");
        }
        assert_eq!(sent.load(Ordering::Relaxed), 4, "something was written");
    }
}
