//! The schemas that the API server publishes (OpenAPI v3), by group and version. Every user may read them. They are large, so one is kept
//! for a moment only; the index has an address for each, which changes with it.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{sync::Mutex, time::Instant};

use super::content::fill;

/// How long an answer may take: templates wait for it.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long an answer serves.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// How long a failure does.
const FAILED_FOR: Duration = Duration::from_secs(30);
/// The largest answer that is read. Those of Kubernetes have 2 MiB at most.
const LARGEST: usize = 8 << 20;
/// How many bytes of schemas are kept.
const MOST_KEPT: usize = 16 << 20;
/// Where all of it is.
const INDEX: &str = "/openapi/v3";

/// Why a schema is not known.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum OpenApiError {
    /// The API server did not answer in time.
    #[error("no answer from {0} in {TIMEOUT:?}")]
    TimedOut(String),
    /// The API server refused, or could not be reached.
    #[error("cannot read {0}")]
    Failed(String, #[source] Arc<kube::Error>),
    /// The answer is larger than what is read.
    #[error("the answer of {address} is larger than {} MiB", LARGEST >> 20)]
    TooLarge {
        /// The path and query that were asked for.
        address: String,
    },
    /// The answer is no such document.
    #[error("the answer of {0} is no OpenAPI document")]
    Unreadable(String),
}

type Answer<T> = Result<Arc<T>, OpenApiError>;
/// The address of each group and version.
pub(crate) type Addresses = BTreeMap<String, String>;

/// Reads what the API server publishes. One request is under way at a time: many templates ask for the same.
pub(crate) struct OpenApi {
    client: Client,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    index: Option<(Instant, Answer<Addresses>)>,
    documents: BTreeMap<String, (Instant, Answer<str>)>,
}

impl OpenApi {
    /// Reads with this client.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Where the schemas of each apiVersion are.
    ///
    /// # Errors
    /// The API server did not say.
    pub(crate) async fn addresses(&self) -> Answer<Addresses> {
        let mut known = self.known.lock().await;
        if let Some((_, answer)) = known.index.as_ref().filter(|(at, answer)| serves(*at, answer)) {
            return answer.clone();
        }
        let answer = self.read(INDEX).await.and_then(|text| index(&text));
        known.index.insert((Instant::now(), answer)).1.clone()
    }

    /// The text of `components` of the document at this address.
    ///
    /// # Errors
    /// The API server did not give it.
    pub(crate) async fn components(&self, address: &str) -> Answer<str> {
        let mut known = self.known.lock().await;
        if let Some((_, answer)) = known.documents.get(address).filter(|(at, answer)| serves(*at, answer)) {
            return answer.clone();
        }
        let answer = self.read(address).await.and_then(|text| components(address, &text));
        known.documents.insert(address.to_owned(), (Instant::now(), answer.clone()));
        known.shrink();
        answer
    }

    /// Drops what is old.
    pub(crate) fn expire(&self) {
        // A task that holds the lock is using the documents; the next call drops what is old.
        if let Ok(mut known) = self.known.try_lock() {
            known.documents.retain(|_, (at, answer)| serves(*at, answer));
        }
    }

    async fn read(&self, path: &str) -> Result<String, OpenApiError> {
        let timed_out = |_| OpenApiError::TimedOut(path.to_owned());
        tokio::time::timeout(TIMEOUT, self.read_all(path)).await.map_err(timed_out)?
    }

    async fn read_all(&self, path: &str) -> Result<String, OpenApiError> {
        let failed = |error| OpenApiError::Failed(path.to_owned(), Arc::new(error));
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
        let stream = self.client.request_stream(request).await.map_err(failed)?;
        let (mut stream, mut text) = (pin!(stream), Vec::new());
        let filled = fill(stream.as_mut(), &mut text, LARGEST).await;
        if !filled.map_err(|error| failed(kube::Error::Service(error.into())))? {
            return Err(OpenApiError::TooLarge { address: path.to_owned() });
        }
        String::from_utf8(text).map_err(|_| OpenApiError::Unreadable(path.to_owned()))
    }
}

impl Known {
    /// Keeps the total of what is kept within bounds; the oldest goes first.
    fn shrink(&mut self) {
        let bytes = |answer: &Answer<str>| answer.as_ref().map_or(INDEX.len(), |text| text.len());
        while self.documents.len() > 1
            && self.documents.values().map(|(_, answer)| bytes(answer)).sum::<usize>() > MOST_KEPT
        {
            let oldest =
                self.documents.iter().min_by_key(|(_, (at, _))| *at).map(|(address, _)| address.clone());
            oldest.map(|address| self.documents.remove(&address));
        }
    }
}

fn serves<T: ?Sized>(at: Instant, answer: &Answer<T>) -> bool {
    at.elapsed() < if answer.is_ok() { KEPT_FOR } else { FAILED_FOR }
}

/// The addresses in an index.
fn index(text: &str) -> Answer<Addresses> {
    #[derive(Deserialize)]
    struct Index {
        paths: BTreeMap<String, Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        #[serde(rename = "serverRelativeURL")]
        server_relative_url: String,
    }
    let index: Index = serde_json::from_str(text).map_err(|_| OpenApiError::Unreadable(INDEX.into()))?;
    let known = index.paths.into_iter().filter_map(|(path, Entry { server_relative_url })| {
        let api_version = path.strip_prefix("apis/").or_else(|| path.strip_prefix("api/"))?;
        // No other path is read.
        server_relative_url.starts_with(INDEX).then(|| (api_version.to_owned(), server_relative_url))
    });
    Ok(Arc::new(known.collect()))
}

fn components(address: &str, text: &str) -> Answer<str> {
    #[derive(Deserialize)]
    struct Document<'d> {
        #[serde(borrow)]
        components: &'d RawValue,
    }
    let document: Document<'_> =
        serde_json::from_str(text).map_err(|_| OpenApiError::Unreadable(address.to_owned()))?;
    Ok(document.components.get().into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// A server that publishes this, and counts what it is asked.
    fn serving(
        answer: impl Fn(&str) -> (u16, String) + Clone + Send + Sync + 'static,
    ) -> (OpenApi, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let seen = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            seen.fetch_add(1, Ordering::Relaxed);
            let (code, text) = answer(&request.uri().to_string());
            async move {
                let body = Body::from(text.into_bytes());
                Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        (OpenApi::new(Client::new(service, "default")), asked)
    }

    #[tokio::test]
    async fn an_answer_serves_everybody_who_asks() {
        let (openapi, asked) = serving(|path| match path {
            INDEX => {
                let entry = |url: &str| format!(r#"{{"serverRelativeURL": "{url}"}}"#);
                let (apps, core, odd) = (
                    entry("/openapi/v3/apis/apps/v1?hash=A"),
                    entry("/openapi/v3/api/v1?hash=B"),
                    entry("/api/v1/secrets"),
                );
                (
                    200,
                    format!(
                        r#"{{"paths": {{"apis/apps/v1": {apps}, "api/v1": {core}, "apis/odd/v1": {odd}, "version": {core}}}}}"#
                    ),
                )
            }
            "/openapi/v3/apis/apps/v1?hash=A" => {
                (200, r#"{"paths": {"x": 1}, "components": {"schemas": {}}}"#.into())
            }
            "/openapi/v3/large" => (200, " ".repeat(LARGEST + 1)),
            "/openapi/v3/odd" => (200, "[]".into()),
            other => (403, format!("no {other}")),
        });
        for _ in 0..3 {
            let addresses = openapi.addresses().await.unwrap();
            assert_eq!(addresses.keys().collect::<Vec<_>>(), ["apps/v1", "v1"]);
            assert_eq!(&*openapi.components(&addresses["apps/v1"]).await.unwrap(), r#"{"schemas": {}}"#);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        for _ in 0..3 {
            assert!(matches!(
                openapi.components("/openapi/v3/large").await,
                Err(OpenApiError::TooLarge { .. })
            ));
            assert!(matches!(openapi.components("/openapi/v3/odd").await, Err(OpenApiError::Unreadable(_))));
            assert!(matches!(openapi.components("/openapi/v3/none").await, Err(OpenApiError::Failed(..))));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_answer_is_not_waited_for_again_and_again() {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
        });
        let openapi = OpenApi::new(Client::new(service, "default"));
        let begun = Instant::now();
        for _ in 0..9 {
            assert!(matches!(openapi.addresses().await, Err(OpenApiError::TimedOut(_))));
        }
        assert_eq!(begun.elapsed().as_secs(), TIMEOUT.as_secs());
        tokio::time::advance(FAILED_FOR).await;
        assert!(openapi.addresses().await.is_err());
        assert!(begun.elapsed() >= FAILED_FOR + TIMEOUT);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut known = Known::default();
        let large: Arc<str> = " ".repeat(LARGEST - 1).into();
        for at in 0..9 {
            known.documents.insert(at.to_string(), (Instant::now(), Ok(large.clone())));
            known.shrink();
        }
        assert_eq!(known.documents.keys().collect::<Vec<_>>(), ["7", "8"]);
    }
}
