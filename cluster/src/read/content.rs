//! Fetches the content of sources and used objects, and reduces it to digests. Content that is about to be
//! written is cached within a budget, for no longer than a fan-out takes; no other content stays in memory.

use std::{
    collections::HashMap,
    fmt,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{AsyncBufRead, AsyncBufReadExt};
use http::Request;
use kube::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use super::decoded::{Content, Value, decode};
use super::{content_cache::ContentCache, decoded::KEY_BYTES, fingerprint::fingerprint};
use crate::{
    digest::{DigestKey, Fingerprint},
    names::ObjectKey,
    plan::copy::CopyWrite,
};

/// A body of at most this many bytes is read without waiting for a permit.
const SMALL: usize = 64 << 10;
/// How many larger bodies are in memory at a time, until they are decoded or reduced.
const LARGE_AT_A_TIME: usize = 2;
/// The most bytes that the keys of one fingerprint may take. An object of 1 MB can have a hundred thousand
/// keys.
const MOST_KEY_BYTES: usize = 128 << 10;
/// How long one fetch may take.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Why content could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The object does not exist.
    #[error("{0} is gone")]
    Gone(ObjectKey),
    /// The API server refused, or could not be reached.
    #[error("cannot read {object}")]
    Fetch {
        /// The object whose content was requested.
        object: ObjectKey,
        /// The error of the API server or the client.
        #[source]
        source: Box<kube::Error>,
    },
    /// The answer is no valid object of the kind. The decoder's message could quote values, so the message is
    /// not kept.
    #[error("cannot decode {0}: the answer is not a valid object of its kind")]
    Decode(ObjectKey),
    /// The digests of the object's many keys would take too much memory, whatever their values.
    #[error(
        "{0} has too many keys to be read (their names, with 96 bytes for each key, exceed 128 KiB): split the object"
    )]
    TooManyKeys(ObjectKey),
    /// A page of objects could not be read.
    #[error("cannot read a page of {kind}")]
    Page {
        /// The plural kind: ConfigMaps, Secrets or Namespaces.
        kind: &'static str,
        /// The error of the API server or the client.
        #[source]
        source: Box<kube::Error>,
    },
    /// A page did not arrive in time, or cannot be decoded.
    #[error("cannot read a page of {0}: no valid answer in {FETCH_TIMEOUT:?}")]
    Pages(&'static str),
    /// The API server did not answer in time.
    #[error("cannot read {0}: no answer in {FETCH_TIMEOUT:?}")]
    Timeout(ObjectKey),
}

impl ContentError {
    /// The token that continues a list which has expired (410): the API server no longer remembers the
    /// version with which the list began. The rest of the list shows the current objects.
    pub fn goes_on_from(&self) -> Option<String> {
        let Self::Page { source, .. } = self else { return None };
        goes_on_from(source)
    }
}

/// Returns the token that continues an expired list, from the API server's answer.
pub fn goes_on_from(answer: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = answer else { return None };
    let token = status.metadata.as_ref().filter(|_| status.code == 410)?.continue_.clone();
    token.filter(|token| !token.is_empty())
}

/// Fetches content, once for all callers who ask for the same object at the same time.
pub struct Contents {
    client: Client,
    kept: Mutex<ContentCache>,
    turns: Mutex<HashMap<ObjectKey, Arc<tokio::sync::Mutex<()>>>>,
    large: Arc<Semaphore>,
}

/// An object as the API server sent it. A large object holds a permit.
struct Body {
    text: Vec<u8>,
    _place: Option<OwnedSemaphorePermit>,
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

impl Contents {
    /// Reads objects with this client.
    pub fn new(client: Client) -> Self {
        let large = Arc::new(Semaphore::new(LARGE_AT_A_TIME));
        Self { client, kept: Mutex::default(), turns: Mutex::default(), large }
    }

    /// Returns the content of an object: in the wanted version if that version is cached, else in the current
    /// version. Caches the content for the task that writes it next.
    ///
    /// # Errors
    /// The object is gone, or the API server did not return it.
    pub async fn get(&self, key: &ObjectKey, wanted: &str) -> Result<Arc<Content>, ContentError> {
        let turn =
            self.turns.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default().clone();
        let mine = turn.lock().await;
        let known = self.kept().get(key, wanted);
        let content = match known {
            Some(content) => Ok(content),
            None => self.fetch(key).await.map(Arc::new),
        };
        if let Ok(content) = &content {
            self.kept().put(key, content);
        }
        drop(mine);
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::strong_count(&turn) == 2 {
            // No other caller waits for this object.
            turns.remove(key);
        }
        content
    }

    /// Returns the content that a copy is made of; `None` if its source is gone, or has a new version by now.
    ///
    /// # Errors
    /// The API server did not return the content.
    pub async fn of_write(
        &self,
        slot: &ObjectKey,
        write: &CopyWrite,
    ) -> Result<Option<Arc<Content>>, ContentError> {
        if let Some(body) = &write.rendered {
            let content = decode(slot.kind, body.expose()).map(Arc::new);
            return content.map(Some).ok_or_else(|| ContentError::Decode(slot.clone()));
        }
        let version = &write.source_version;
        match self.get(&write.source, &version.resource_version).await {
            Ok(content) => {
                let is_this =
                    content.uid == version.uid && content.resource_version == version.resource_version;
                Ok(Some(content).filter(|_| is_this))
            }
            Err(ContentError::Gone(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the fingerprint of an object: in the wanted version if that version is cached, else in the
    /// current version. Caches nothing.
    ///
    /// # Errors
    /// The object is gone, or the API server did not return it.
    pub async fn print(
        &self,
        object: &ObjectKey,
        wanted: &str,
        key: &DigestKey,
    ) -> Result<Fingerprint, ContentError> {
        if let Some(content) = self.kept().get(object, wanted) {
            return bounded(object, content.fingerprint(key));
        }
        let body = self.read(object).await?;
        let print = fingerprint(object.kind, &body.text, key);
        bounded(object, print.ok_or_else(|| ContentError::Decode(object.clone()))?)
    }

    /// Returns the fingerprint of an object that is copied, and caches its content for the task that writes
    /// it next.
    ///
    /// # Errors
    /// The object is gone, or the API server did not return it.
    pub async fn print_of_copied(
        &self,
        object: &ObjectKey,
        wanted: &str,
        key: &DigestKey,
    ) -> Result<Fingerprint, ContentError> {
        bounded(object, self.get(object, wanted).await?.fingerprint(key))
    }

    /// Reads the content of an object in its current version, without the cache.
    ///
    /// # Errors
    /// The object is gone, or the API server did not return it.
    pub async fn fetch(&self, key: &ObjectKey) -> Result<Content, ContentError> {
        let body = self.read(key).await?;
        let text = std::str::from_utf8(&body.text).ok();
        text.and_then(|text| decode(key.kind, text)).ok_or_else(|| ContentError::Decode(key.clone()))
    }

    /// Drops cached content that no fan-out can be using any more.
    pub fn expire(&self) {
        self.kept().expire(Instant::now());
    }

    fn kept(&self) -> MutexGuard<'_, ContentCache> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads an object. After its first bytes, a large object waits for a permit; the remaining bytes wait in
    /// the connection meanwhile.
    async fn read(&self, key: &ObjectKey) -> Result<Body, ContentError> {
        let path = format!("{}/{}", key.kind.resource().path(Some(&key.namespace)), key.name);
        let failed = |source| ContentError::Fetch { object: key.clone(), source: Box::new(source) };
        let request =
            Request::get(path).body(Vec::new()).map_err(|error| failed(kube::Error::HttpError(error)))?;
        // A stream and our own decoder are used, since `request` would log a body that cannot be decoded.
        let stream = tokio::time::timeout(FETCH_TIMEOUT, self.client.request_stream(request))
            .await
            .map_err(|_| ContentError::Timeout(key.clone()))?
            .map_err(|error| match error {
                kube::Error::Api(status) if status.code == 404 => ContentError::Gone(key.clone()),
                other => failed(other),
            })?;
        let (mut stream, mut text) = (pin!(stream), Vec::new());
        let mut place = None;
        for most in [SMALL, usize::MAX] {
            let filled = tokio::time::timeout(FETCH_TIMEOUT, fill(stream.as_mut(), &mut text, most)).await;
            let is_whole = filled
                .map_err(|_| ContentError::Timeout(key.clone()))?
                .map_err(|error| failed(kube::Error::Service(error.into())))?;
            if is_whole {
                break;
            }
            place = self.large.clone().acquire_owned().await.ok();
        }
        Ok(Body { text, _place: place })
    }
}

/// Returns the fingerprint, unless its keys take too much memory.
fn bounded(object: &ObjectKey, print: Fingerprint) -> Result<Fingerprint, ContentError> {
    let bytes: usize = print.keys.keys().map(|key| key.len() + KEY_BYTES).sum();
    if bytes > MOST_KEY_BYTES { Err(ContentError::TooManyKeys(object.clone())) } else { Ok(print) }
}

/// Reads on until the text has more than `most` bytes. Returns whether the body has ended.
pub(super) async fn fill(
    mut stream: Pin<&mut impl AsyncBufRead>,
    text: &mut Vec<u8>,
    most: usize,
) -> std::io::Result<bool> {
    while text.len() <= most {
        let chunk = stream.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(true);
        }
        text.extend_from_slice(chunk);
        let read = chunk.len();
        stream.consume_unpin(read);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use http::Response;
    use kube::client::Body as KubeBody;
    use serde_json::json;

    use super::*;
    use crate::names::Kind;

    /// Reads ConfigMaps that all have this content.
    fn contents(data: &serde_json::Value) -> Contents {
        let object =
            json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "data": data}).to_string();
        let service = tower::service_fn(move |_: Request<KubeBody>| {
            let answer = Response::new(KubeBody::from(object.clone().into_bytes()));
            async move { Ok::<_, std::convert::Infallible>(answer) }
        });
        Contents::new(Client::new(service, "default"))
    }

    /// Otherwise a tenant could fill the reconciler with large objects that a workload without pods uses, at
    /// each start.
    #[tokio::test]
    async fn of_what_is_only_compared_nothing_is_kept() {
        let contents = contents(&json!({"k": "x".repeat(1_000_000)}));
        let key = DigestKey::new(&[7; DigestKey::LENGTH]);
        let object = |number: usize| ObjectKey::new(Kind::ConfigMap, "shop", format!("c{number}"));
        for number in 0..20 {
            let print = contents.print(&object(number), "1", &key).await.unwrap();
            assert_eq!(print.keys["k"].size, 1_000_000);
        }
        assert_eq!(contents.kept().bytes(), 0);
        assert!(contents.turns.lock().unwrap().is_empty());
        assert_eq!(contents.large.available_permits(), LARGE_AT_A_TIME, "each has given its place back");
        // Content that will be copied stays cached until it is written.
        contents.print_of_copied(&object(0), "1", &key).await.unwrap();
        assert!(contents.kept().bytes() >= 1_000_000);
    }

    #[tokio::test]
    async fn an_object_of_very_many_keys_is_told_of_instead_of_read() {
        let key = DigestKey::new(&[7; DigestKey::LENGTH]);
        let object = ObjectKey::new(Kind::ConfigMap, "shop", "app");
        let of = |number: usize| -> serde_json::Value {
            (0..number).map(|at| (at.to_string(), json!(""))).collect::<serde_json::Map<_, _>>().into()
        };
        assert_eq!(contents(&of(1000)).print(&object, "1", &key).await.unwrap().keys.len(), 1000);
        let many = contents(&of(100_000));
        for read in [many.print(&object, "1", &key).await, many.print_of_copied(&object, "1", &key).await] {
            assert!(matches!(read, Err(ContentError::TooManyKeys(_))), "{read:?}");
        }
    }
}
