//! The key of digests and marks, kept in a Secret of ours: made once, never changed.

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};
use ring::rand::{SecureRandom, SystemRandom};

use crate::{digest::DigestKey, marks::KEY_SECRET};

const KEY: &str = "key";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The API server refused or could not be reached.
    #[error("cannot {verb} Secret {namespace}/{KEY_SECRET}, which holds the key of digests")]
    Api {
        /// What was attempted.
        verb: &'static str,
        /// Our namespace.
        namespace: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// The Secret is there but holds no key.
    #[error(
        "Secret {namespace}/{KEY_SECRET} has no key {KEY:?} of {} bytes: restore it from a backup, or delete it \
         (copies are then kept but not removed until they are adopted again)",
        DigestKey::LENGTH
    )]
    Torn {
        /// Our namespace.
        namespace: String,
    },
    /// The machine gives no random bytes.
    #[error("the system gives no random bytes for a new key")]
    Random,
}

/// Reads the key, and makes none: `None` where there is none yet.
///
/// # Errors
/// The Secret cannot be read, or holds no key.
pub async fn stored_digest_key(client: &Client, namespace: &str) -> Result<Option<DigestKey>, KeyError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let failed =
        |source| KeyError::Api { verb: "read", namespace: namespace.to_owned(), source: Box::new(source) };
    let secret = api.get_opt(KEY_SECRET).await.map_err(failed)?;
    secret.map(|secret| read(&secret, namespace)).transpose()
}

/// A key of one's own, for digests that are compared with each other and never written.
///
/// # Errors
/// The machine gives no random bytes.
pub fn passing_digest_key() -> Result<DigestKey, KeyError> {
    random().map(|bytes| DigestKey::new(&bytes))
}

/// Reads the key, making it where there is none.
///
/// # Errors
/// The Secret can be neither read nor made, or holds no key.
pub async fn digest_key(client: &Client, namespace: &str) -> Result<DigestKey, KeyError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let failed = |verb| {
        move |source| KeyError::Api { verb, namespace: namespace.to_owned(), source: Box::new(source) }
    };
    if let Some(key) = stored_digest_key(client, namespace).await? {
        return Ok(key);
    }
    let bytes = random()?;
    let secret = Secret {
        metadata: ObjectMeta { name: Some(KEY_SECRET.into()), ..ObjectMeta::default() },
        data: Some([(KEY.to_owned(), ByteString(bytes.to_vec()))].into()),
        ..Secret::default()
    };
    match api.create(&PostParams::default(), &secret).await {
        Ok(made) => read(&made, namespace),
        // Another replica was faster: its key counts.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            read(&api.get(KEY_SECRET).await.map_err(failed("read"))?, namespace)
        }
        Err(error) => Err(failed("make")(error)),
    }
}

fn random() -> Result<[u8; DigestKey::LENGTH], KeyError> {
    let mut bytes = [0; DigestKey::LENGTH];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
    Ok(bytes)
}

fn read(secret: &Secret, namespace: &str) -> Result<DigestKey, KeyError> {
    let bytes =
        secret.data.as_ref().and_then(|data| data.get(KEY)).filter(|key| key.0.len() == DigestKey::LENGTH);
    bytes
        .map(|bytes| DigestKey::new(&bytes.0))
        .ok_or_else(|| KeyError::Torn { namespace: namespace.to_owned() })
}
