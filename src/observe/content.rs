//! Content of ConfigMaps and Secrets: fetched only for sources and used objects, reduced to digests, and kept for
//! no longer than a fan-out takes.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Request;
use kube::Client;
use serde::Deserialize;

use crate::{
    digest::DigestKey,
    marks::never_carried,
    model::{Fingerprint, KeyPrint, Kind, ObjectKey},
};

/// How long fetched content is kept for the writes that follow.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// How long one fetch may take.
pub(super) const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The content of one version of one object. Has no `Debug`, no `Serialize`: it cannot reach a formatter.
pub struct Content {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resource version.
    pub resource_version: Box<str>,
    /// Its annotations, but for those that are never carried over.
    pub annotations: BTreeMap<String, String>,
    /// A Secret's type.
    pub type_: Option<String>,
    /// Whether it is immutable.
    pub immutable: bool,
    /// Values by key.
    pub values: BTreeMap<String, Value>,
}

/// One value.
pub struct Value {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Lives in `binaryData`, or would have to in a ConfigMap.
    pub binary: bool,
}

/// Why content could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The object is gone.
    #[error("{0} is gone")]
    Gone(ObjectKey),
    /// The API server refused or could not be reached.
    #[error("cannot read {object}")]
    Fetch {
        /// The object.
        object: ObjectKey,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// The answer was no such object. The decoder's own message could quote values, so it is not kept.
    #[error("cannot decode {0}: the answer is no valid object of its kind")]
    Decode(ObjectKey),
    /// A page of objects could not be had.
    #[error("cannot read a page of {kind}")]
    Page {
        /// ConfigMaps, Secrets or Namespaces.
        kind: &'static str,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// No page in time, or none that can be decoded.
    #[error("cannot read a page of {0}: no valid answer in {FETCH_TIMEOUT:?}")]
    Pages(&'static str),
    /// No answer in time.
    #[error("cannot read {0}: no answer in {FETCH_TIMEOUT:?}")]
    Timeout(ObjectKey),
}

impl ContentError {
    /// Where a list goes on that has taken longer than the API server remembers where it began (410): as things are now.
    pub fn goes_on_from(&self) -> Option<String> {
        let Self::Page { source, .. } = self else { return None };
        let kube::Error::Api(status) = &**source else { return None };
        let token = status.metadata.as_ref().filter(|_| status.code == 410)?.continue_.clone();
        token.filter(|token| !token.is_empty())
    }
}

/// Fetches content, once for all who ask for the same object at the same time.
pub struct Contents {
    client: Client,
    kept: Mutex<HashMap<ObjectKey, Kept>>,
    turns: Mutex<HashMap<ObjectKey, Arc<tokio::sync::Mutex<()>>>>,
}

struct Kept {
    content: Arc<Content>,
    since: Instant,
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

impl Contents {
    /// Reads through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, kept: Mutex::default(), turns: Mutex::default() }
    }

    /// The content of an object in a version the caller wants, or in whatever version it now has.
    ///
    /// # Errors
    /// The object is gone, or the API server did not give it.
    pub async fn get(&self, key: &ObjectKey, wanted: Option<&str>) -> Result<Arc<Content>, ContentError> {
        let turn =
            self.turns.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default().clone();
        let _mine = turn.lock().await;
        if let Some(content) = self.kept(key, wanted) {
            return Ok(content);
        }
        let content = Arc::new(self.fetch(key).await?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(key.clone(), Kept { content: content.clone(), since: Instant::now() });
        Ok(content)
    }

    /// Drops what no fan-out can be using any more.
    pub fn expire(&self) {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, kept| kept.since.elapsed() < KEPT_FOR);
        self.turns
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, turn| Arc::strong_count(turn) > 1);
    }

    fn kept(&self, key: &ObjectKey, wanted: Option<&str>) -> Option<Arc<Content>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get(key)?;
        (wanted? == &*found.content.resource_version).then(|| found.content.clone())
    }

    /// The content of an object in the version it now has, read anew and not kept.
    ///
    /// # Errors
    /// The object is gone, or the API server did not give it.
    pub async fn fetch(&self, key: &ObjectKey) -> Result<Content, ContentError> {
        let path = format!("/api/v1/namespaces/{}/{}/{}", key.namespace, plural(key.kind), key.name);
        let failed = |source| ContentError::Fetch { object: key.clone(), source: Box::new(source) };
        let request =
            Request::get(path).body(Vec::new()).map_err(|error| failed(kube::Error::HttpError(error)))?;
        // `request_text` and our own decoder: `request` would log an undecodable body as a whole.
        let text = tokio::time::timeout(FETCH_TIMEOUT, self.client.request_text(request))
            .await
            .map_err(|_| ContentError::Timeout(key.clone()))?
            .map_err(|error| match error {
                kube::Error::Api(status) if status.code == 404 => ContentError::Gone(key.clone()),
                other => failed(other),
            })?;
        decode(key.kind, &text).ok_or_else(|| ContentError::Decode(key.clone()))
    }
}

impl Content {
    /// Reduces the content to digests.
    pub fn fingerprint(&self, key: &DigestKey) -> Fingerprint {
        let print = |value: &Value| KeyPrint {
            digest: key.value(&value.bytes),
            size: value.bytes.len() as u64,
            binary: value.binary,
        };
        Fingerprint {
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
            type_: self.type_.clone(),
            immutable: self.immutable,
            keys: self.values.iter().map(|(key, value)| (key.clone(), print(value))).collect(),
            annotations: self.annotations.clone(),
        }
    }
}

pub(super) fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::ConfigMap => "configmaps",
        Kind::Secret => "secrets",
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    metadata: RawMeta,
    #[serde(default)]
    data: BTreeMap<String, String>,
    #[serde(default)]
    binary_data: BTreeMap<String, String>,
    #[serde(default)]
    immutable: bool,
    #[serde(rename = "type")]
    type_: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta {
    uid: Box<str>,
    resource_version: Box<str>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Reads an object as the API server writes it; `None` where it is none.
pub(crate) fn decode(kind: Kind, text: &str) -> Option<Content> {
    let Raw { metadata, data, binary_data, immutable, type_ } = serde_json::from_str(text).ok()?;
    let mut values = BTreeMap::new();
    for (key, value) in data {
        let bytes = match kind {
            Kind::ConfigMap => value.into_bytes(),
            Kind::Secret => STANDARD.decode(value).ok()?,
        };
        let binary = kind == Kind::Secret && std::str::from_utf8(&bytes).is_err();
        values.insert(key, Value { bytes, binary });
    }
    for (key, value) in binary_data {
        values.insert(key, Value { bytes: STANDARD.decode(value).ok()?, binary: true });
    }
    let mut annotations = metadata.annotations;
    annotations.retain(|key, _| !never_carried(key));
    let type_ = type_.filter(|_| kind == Kind::Secret);
    Some(Content {
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        annotations,
        type_,
        immutable,
        values,
    })
}
