//! Reads the Secret with the webhook's CA, and the annotations with the state of a rotation.

use std::time::SystemTime;

use copyrator_certs::{CaSecret, CaSecretError, Rotation};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::{
    connect::WRITE_TIMEOUT,
    marks::{CA_PUBLISHED, CA_SECRET, CA_SWITCHED, ROTATE},
};

/// Why the CA cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaReadError {
    /// The API server refused, or could not be reached.
    #[error("cannot read Secret {namespace}/{CA_SECRET} with the webhook's CA")]
    Api {
        /// The namespace of Copyrator's own objects.
        namespace: String,
        /// The error of the API server or the client.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error(
        "cannot read Secret {namespace}/{CA_SECRET} with the webhook's CA: no answer in {WRITE_TIMEOUT:?}"
    )]
    Timeout {
        /// The namespace of Copyrator's own objects.
        namespace: String,
    },
    /// The Secret does not hold a CA.
    #[error(
        "Secret {namespace}/{CA_SECRET} has no usable CA: restore the Secret, or delete it, and Copyrator makes a new CA"
    )]
    Torn {
        /// The namespace of Copyrator's own objects.
        namespace: String,
        /// The fault in the Secret's data.
        #[source]
        source: CaSecretError,
    },
}

/// Reads the CA; `None` if none exists yet.
///
/// # Errors
/// Returns an error if the Secret cannot be read, or contains no CA.
pub async fn read_ca(client: &Client, namespace: &str) -> Result<Option<CaSecret>, CaReadError> {
    Ok(read_rotation(client, namespace).await?.map(|rotation| rotation.secret))
}

/// Reads the CA with the rotation state of its Secret; `None` if no CA exists yet.
///
/// # Errors
/// Returns an error if the Secret cannot be read, or contains no CA.
pub async fn read_rotation(client: &Client, namespace: &str) -> Result<Option<Rotation>, CaReadError> {
    let found = read_ca_secret(client, namespace).await?;
    let torn = |source| CaReadError::Torn { namespace: namespace.to_owned(), source };
    found.map(|secret| rotation_of(&secret).map_err(torn)).transpose()
}

/// Reads the Secret of the CA, whatever it contains; `None` if it does not exist.
///
/// # Errors
/// Returns an error if the Secret cannot be read.
pub async fn read_ca_secret(client: &Client, namespace: &str) -> Result<Option<Secret>, CaReadError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let namespace = || namespace.to_owned();
    match tokio::time::timeout(WRITE_TIMEOUT, api.get_opt(CA_SECRET)).await {
        Ok(result) => {
            result.map_err(|source| CaReadError::Api { namespace: namespace(), source: Box::new(source) })
        }
        Err(_) => Err(CaReadError::Timeout { namespace: namespace() }),
    }
}

/// Reads the rotation from the Secret.
///
/// # Errors
/// Returns an error if the Secret has no CA. A time that cannot be read is treated as absent; the next write
/// replaces the time.
pub fn rotation_of(secret: &Secret) -> Result<Rotation, CaSecretError> {
    let data = secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect();
    let annotation = |key: &str| secret.metadata.annotations.as_ref().and_then(|all| all.get(key));
    let time =
        |key: &str| annotation(key).and_then(|text| text.parse::<Timestamp>().ok()).map(SystemTime::from);
    Ok(Rotation {
        secret: CaSecret::from_data(&data)?,
        asked: annotation(ROTATE).is_some(),
        published: time(CA_PUBLISHED),
        switched: time(CA_SWITCHED),
    })
}
