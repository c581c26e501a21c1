//! Reads the key of digests and marks from its Secret.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use ring::rand::{SecureRandom, SystemRandom};

use crate::{connect::WRITE_TIMEOUT, digest::DigestKey, marks::KEY_SECRET};

/// The key in the Secret's data.
pub const KEY: &str = "key";

/// Why no key is available.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The API server refused, or could not be reached.
    #[error("cannot {verb} Secret {namespace}/{KEY_SECRET} with the digest key")]
    Api {
        /// The verb of the attempted request.
        verb: &'static str,
        /// The namespace of Copyrator's own objects.
        namespace: String,
        /// The error of the API server or the client.
        #[source]
        source: Box<kube::Error>,
    },
    /// The Secret exists and contains no key.
    #[error(
        "Secret {namespace}/{KEY_SECRET} has no key {KEY:?} of {} bytes: restore the Secret from a backup, or delete it (a running \
         reconciler writes the key in use again; a starting reconciler makes a new key, and then removes no existing copy until a rule \
         adopts the copy again)",
        DigestKey::LENGTH
    )]
    Torn {
        /// The namespace of Copyrator's own objects.
        namespace: String,
    },
    /// The API server did not answer in time.
    #[error(
        "cannot keep Secret {namespace}/{KEY_SECRET} with the digest key: no answer in {WRITE_TIMEOUT:?}"
    )]
    Timeout {
        /// The namespace of Copyrator's own objects.
        namespace: String,
    },
    /// The operating system gives no random bytes.
    #[error("the operating system returned no random bytes for a new key")]
    Random,
}

/// Reads the key; `None` if none exists yet.
///
/// # Errors
/// Returns an error if the Secret cannot be read, or contains no key.
pub async fn stored_digest_key(client: &Client, namespace: &str) -> Result<Option<DigestKey>, KeyError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let failed =
        |source| KeyError::Api { verb: "read", namespace: namespace.to_owned(), source: Box::new(source) };
    let secret = api.get_opt(KEY_SECRET).await.map_err(failed)?;
    secret.map(|secret| key_of(&secret, namespace)).transpose()
}

/// Returns a random key for digests that are only compared with each other and never written.
///
/// # Errors
/// Returns an error if the operating system gives no random bytes.
pub fn passing_digest_key() -> Result<DigestKey, KeyError> {
    random_key().map(|bytes| DigestKey::new(&bytes))
}

/// Returns random bytes for a new key.
///
/// # Errors
/// Returns an error if the operating system gives no random bytes.
pub fn random_key() -> Result<[u8; DigestKey::LENGTH], KeyError> {
    let mut bytes = [0; DigestKey::LENGTH];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
    Ok(bytes)
}

/// Reads the key from the Secret.
///
/// # Errors
/// Returns an error if the Secret contains no key.
pub fn key_of(secret: &Secret, namespace: &str) -> Result<DigestKey, KeyError> {
    let bytes =
        secret.data.as_ref().and_then(|data| data.get(KEY)).filter(|key| key.0.len() == DigestKey::LENGTH);
    bytes
        .map(|bytes| DigestKey::new(&bytes.0))
        .ok_or_else(|| KeyError::Torn { namespace: namespace.to_owned() })
}
