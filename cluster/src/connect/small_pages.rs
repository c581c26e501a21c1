//! A client layer that keeps pages of lists small in bytes, whatever the objects contain.
//!
//! A limit in objects does not bound memory: a tenant can write a hundred objects of 1.4 MB each. If a page
//! becomes too large while it arrives, this layer drops the page and asks again for fewer objects. The layer
//! remembers the number of objects for each list until the objects are small again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::{future::BoxFuture, stream};
use http::{Method, Request, Response, Uri, request::Parts};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{BoxError, Service, ServiceExt as _};

use super::answers::Answer;

/// The largest page, in bytes. A page with a single object may be larger: no smaller page exists.
const MOST_BYTES: usize = 2 << 20;
/// A page of at most this many bytes needs no permit.
const SMALL: usize = 512 << 10;
/// Maximum number of larger pages in memory at a time, until they are decoded.
const LARGE_AT_A_TIME: usize = 2;
/// Factor by which the next try asks for fewer objects.
const FEWER: u32 = 8;
/// Maximum number of lists with a remembered page size.
const MOST_LISTS: usize = 64;
/// Longest wait for the next bytes of a page.
const STALLED: Duration = Duration::from_secs(30);

/// Passes requests on, and keeps the pages of lists small.
#[derive(Clone)]
pub(super) struct SmallPages<S> {
    inner: S,
    lists: Arc<Lists>,
}

/// The remembered page sizes of one client's lists, and the permits for large pages.
struct Lists {
    places: Arc<Semaphore>,
    /// Objects per page, by the path of the list; only for lists that get fewer than the caller asks for.
    limits: Mutex<HashMap<String, u32>>,
}

impl<S> SmallPages<S> {
    /// Wraps the client stack `inner`.
    pub(super) fn new(inner: S) -> Self {
        let places = Arc::new(Semaphore::new(LARGE_AT_A_TIME));
        Self { inner, lists: Arc::new(Lists { places, limits: Mutex::default() }) }
    }
}

impl<S> Service<Request<Body>> for SmallPages<S>
where
    S: Service<Request<Body>, Response = Response<Answer>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each request waits for its own clone of the inner service.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = self.inner.clone();
        match asked_for(&request) {
            Some(asked) => Box::pin(page(inner, self.lists.clone(), request.into_parts().0, asked)),
            None => Box::pin(inner.oneshot(request)),
        }
    }
}

/// Returns the maximum number of objects, if the request asks for a page of a list.
fn asked_for(request: &Request<Body>) -> Option<u32> {
    let query = request.uri().query().filter(|query| !query.contains("watch=true"))?;
    let limit = query.split('&').find_map(|part| part.strip_prefix("limit="))?.parse().ok()?;
    (request.method() == Method::GET && limit > 0).then_some(limit)
}

/// Replaces the limit in the query.
fn with_limit(uri: &Uri, limit: u32) -> Result<Uri, BoxError> {
    let part = |part: &str| match part.starts_with("limit=") {
        true => format!("limit={limit}"),
        false => part.to_owned(),
    };
    let query: Vec<String> = uri.query().unwrap_or_default().split('&').map(part).collect();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{}", uri.path(), query.join("&")).parse()?);
    Ok(Uri::from_parts(parts)?)
}

/// Returns one page, with fewer objects than `asked` if they are large.
async fn page<S>(inner: S, lists: Arc<Lists>, head: Parts, asked: u32) -> Result<Response<Answer>, BoxError>
where
    S: Service<Request<Body>, Response = Response<Answer>, Error = BoxError> + Clone,
{
    let path = head.uri.path().to_owned();
    let mut limit = lists.limit(&path, asked);
    loop {
        let mut head = head.clone();
        head.uri = with_limit(&head.uri, limit)?;
        let answer = inner.clone().oneshot(Request::from_parts(head, Body::empty())).await?;
        if !answer.status().is_success() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let most = if limit > 1 { MOST_BYTES } else { usize::MAX };
        if let Some(read) = read(body, most, &lists.places).await? {
            lists.page_has(path, limit, asked, read.bytes);
            return Ok(Response::from_parts(head, read.answer()));
        }
        limit = (limit / FEWER).max(1);
    }
}

/// A page as it arrived, with its permit if it is large.
#[derive(Default)]
struct Read {
    parts: Vec<Bytes>,
    bytes: usize,
    place: Option<OwnedSemaphorePermit>,
}

/// Reads a page; `None` if it has more than `most` bytes. A large page waits for its permit once its first
/// bytes have arrived; meanwhile, TCP flow control holds back the rest of the page.
async fn read(mut body: Answer, most: usize, places: &Arc<Semaphore>) -> Result<Option<Read>, BoxError> {
    let mut read = Read::default();
    loop {
        let frame = tokio::time::timeout(STALLED, body.frame()).await;
        let Some(frame) =
            frame.map_err(|_| format!("the API server sent no part of a list for {STALLED:?}"))?
        else {
            return Ok(Some(read));
        };
        let Ok(part) = frame?.into_data() else { continue };
        read.bytes += part.len();
        read.parts.push(part);
        if read.bytes > most {
            return Ok(None);
        }
        if read.bytes > SMALL && read.place.is_none() {
            read.place = Some(places.clone().acquire_owned().await?);
        }
    }
}

impl Read {
    /// Returns the page for the caller. The page's permit becomes free when the caller has read the whole
    /// page.
    fn answer(self) -> Answer {
        let Self { parts, place, .. } = self;
        let frames = parts.into_iter().map(move |part| {
            let _taken = &place;
            Ok(Frame::data(part))
        });
        StreamBody::new(stream::iter(frames)).boxed_unsync()
    }
}

impl Lists {
    /// Returns how many objects to ask for.
    fn limit(&self, path: &str, asked: u32) -> u32 {
        self.limits().get(path).map_or(asked, |limit| asked.min(*limit))
    }

    /// Remembers the number of objects for the next page, after this page had `bytes` bytes.
    fn page_has(&self, path: String, limit: u32, asked: u32, bytes: usize) {
        let next = if bytes < MOST_BYTES / 4 { limit.saturating_mul(2) } else { limit };
        let mut limits = self.limits();
        if next >= asked {
            limits.remove(&path);
        } else if limits.len() < MOST_LISTS || limits.contains_key(&path) {
            limits.insert(path, next);
        }
    }

    fn limits(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::{StreamExt as _, TryStreamExt as _, poll};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, Config, ResourceExt, api::ListParams};
    use serde_json::json;
    use tower::util::BoxCloneSyncService;

    use super::*;
    use crate::connect::client::over;

    /// Objects of these sizes, and what was asked for and sent of them.
    #[derive(Clone)]
    struct Server {
        sizes: Arc<Vec<usize>>,
        limits: Arc<Mutex<Vec<usize>>>,
        sent: Arc<AtomicUsize>,
    }

    impl Server {
        fn of(sizes: Vec<usize>) -> Self {
            Self { sizes: Arc::new(sizes), limits: Arc::default(), sent: Arc::default() }
        }

        fn service(&self) -> BoxCloneSyncService<Request<Body>, Response<Answer>, BoxError> {
            let server = self.clone();
            BoxCloneSyncService::new(tower::service_fn(move |request| {
                let answer = server.answer(&request);
                async move { Ok(answer) }
            }))
        }

        fn answer(&self, request: &Request<Body>) -> Response<Answer> {
            let value = |name: &str| {
                let mut parts = request.uri().query().unwrap().split('&');
                parts.find_map(|part| part.strip_prefix(name)?.parse::<usize>().ok())
            };
            let (from, limit) = (value("continue=").unwrap_or(0), value("limit=").unwrap());
            self.limits.lock().unwrap().push(limit);
            let to = self.sizes.len().min(from + limit);
            let item = |at: usize| json!({"metadata": {"name": at.to_string()}, "data": {"k": "x".repeat(self.sizes[at])}});
            let next = if to < self.sizes.len() { to.to_string() } else { String::new() };
            let page =
                json!({"metadata": {"continue": next}, "items": (from..to).map(item).collect::<Vec<_>>()});
            let parts: Vec<Bytes> =
                page.to_string().into_bytes().chunks(64 << 10).map(Bytes::copy_from_slice).collect();
            let sent = self.sent.clone();
            let frames = stream::iter(parts).map(move |part| {
                sent.fetch_add(part.len(), Ordering::Relaxed);
                Ok::<_, BoxError>(Frame::data(part))
            });
            Response::new(StreamBody::new(frames).boxed_unsync())
        }

        fn limits(&self) -> Vec<usize> {
            std::mem::take(&mut self.limits.lock().unwrap())
        }
    }

    /// Returns the names of all objects, from pages of at most a hundred; and the largest number of bytes
    /// that the server sent for a page.
    async fn listed(server: &Server) -> (Vec<String>, usize) {
        let config = Config::new("https://127.0.0.1".parse().unwrap());
        let (client, _) = over(server.service(), &config, &Arc::default(), |_| ()).unwrap();
        let (api, mut params) = (Api::<ConfigMap>::all(client), ListParams::default().limit(100));
        let (mut names, mut most) = (Vec::new(), 0);
        loop {
            let page = api.list(&params).await.unwrap();
            most = most.max(page.items.iter().map(|it| it.data.as_ref().unwrap()["k"].len()).sum());
            names.extend(page.items.iter().map(ResourceExt::name_any));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return (names, most),
            }
        }
    }

    #[tokio::test]
    async fn a_page_is_small_whatever_the_objects_contain() {
        let all: Vec<String> = (0..120).map(|at| at.to_string()).collect();
        let large = Server::of(vec![500_000; 120]);
        let (names, most) = listed(&large).await;
        assert_eq!(names, all);
        assert!(most <= MOST_BYTES, "{most}");
        let (bytes, limits) = (large.sent.load(Ordering::Relaxed), large.limits());
        assert!(bytes < 120 * 500_000 + 8 * MOST_BYTES, "given up pages are not read to their end: {bytes}");
        assert_eq!(limits[..4], [100, 12, 1, 2], "{limits:?}");

        let small = Server::of(vec![500; 120]);
        assert_eq!((listed(&small).await.0, small.limits()), (all, vec![100, 100]));
    }

    /// Otherwise one large object would stop the list for ever, or slow down all that comes after it.
    #[tokio::test]
    async fn one_object_is_read_whatever_its_size_and_small_ones_come_in_large_pages_again() {
        let mut sizes = vec![500; 400];
        sizes[0] = 3 * MOST_BYTES;
        let server = Server::of(sizes);
        assert_eq!(listed(&server).await.0.len(), 400);
        assert_eq!(server.limits()[..12], [100, 12, 1, 1, 2, 4, 8, 16, 32, 64, 100, 100]);
    }

    #[tokio::test]
    async fn only_a_few_large_pages_are_in_memory_at_a_time() {
        let server = Server::of(vec![SMALL + 1]);
        let pages = SmallPages::new(server.service());
        let get = || pages.clone().oneshot(Request::get("/api?limit=1").body(Body::empty()).unwrap());
        let (first, _second) = (get().await.unwrap(), get().await.unwrap());
        let mut third = Box::pin(get());
        assert!(poll!(&mut third).is_pending());
        // A small page waits for no permit.
        let small = SmallPages { inner: Server::of(vec![1]).service(), lists: pages.lists.clone() };
        small.oneshot(Request::get("/api?limit=1").body(Body::empty()).unwrap()).await.unwrap();
        let read: Vec<Bytes> = first.into_body().into_data_stream().try_collect().await.unwrap();
        assert!(read.iter().map(Bytes::len).sum::<usize>() > SMALL);
        third.await.unwrap();
    }

    #[test]
    fn only_pages_of_lists_have_a_limit() {
        let of = |method: &str, uri: &str| {
            asked_for(&Request::builder().method(method).uri(uri).body(Body::empty()).unwrap())
        };
        assert_eq!(of("GET", "/api/v1/pods?&limit=500&labelSelector=a"), Some(500));
        assert_eq!(of("GET", "/api/v1/pods?&limit=500&watch=true"), None);
        assert_eq!(of("GET", "/api/v1/pods"), None);
        assert_eq!(of("GET", "/api/v1/pods?limit=0"), None);
        assert_eq!(of("DELETE", "/api/v1/pods?limit=5"), None);
        let uri = "https://a/api/v1/pods?&limit=500&continue=limit".parse().unwrap();
        assert_eq!(with_limit(&uri, 3).unwrap().to_string(), "https://a/api/v1/pods?&limit=3&continue=limit");
    }
}
