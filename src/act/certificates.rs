//! The webhook's CA, kept in a Secret of ours: made and renewed by whoever reconciles, with optimistic concurrency.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use copyrator_certs::{Authority, CaSecret, CaSecretError, CertError};
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::PostParams};

use crate::marks::CA_SECRET;

const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why there is no CA.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// The API server refused or could not be reached.
    #[error("cannot {verb} Secret {namespace}/{CA_SECRET}, which holds the webhook's CA")]
    Api {
        /// What was attempted.
        verb: &'static str,
        /// Our namespace.
        namespace: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// The Secret does not hold a CA.
    #[error(
        "Secret {namespace}/{CA_SECRET} holds no usable CA: restore it, or delete it and a new one is made"
    )]
    Torn {
        /// Our namespace.
        namespace: String,
        /// What is wrong with it.
        #[source]
        source: CaSecretError,
    },
    /// No certificate could be issued.
    #[error("cannot issue the webhook's CA")]
    Issue(#[source] CertError),
}

/// Reads the CA; `None` where there is none yet.
///
/// # Errors
/// The Secret cannot be read, or holds no CA.
pub async fn read_ca(client: &Client, namespace: &str) -> Result<Option<CaSecret>, CaError> {
    let found = secrets(client, namespace).get_opt(CA_SECRET).await.map_err(failed("read", namespace))?;
    found.map(|secret| decode(&secret, namespace)).transpose()
}

/// Reads the CA, making it where there is none and renewing it when two thirds of its life are over; the one
/// before stays trusted for as long as it is valid. Of several replicas one succeeds, and the others read.
///
/// # Errors
/// The Secret cannot be read or written, or holds no CA.
pub async fn keep_ca(client: &Client, namespace: &str, now: SystemTime) -> Result<CaSecret, CaError> {
    let api = secrets(client, namespace);
    let Some(secret) = api.get_opt(CA_SECRET).await.map_err(failed("read", namespace))? else {
        let ca =
            CaSecret::new(Authority::issue("copyrator webhook CA", now, LIFETIME).map_err(CaError::Issue)?);
        let made = Secret {
            metadata: ObjectMeta { name: Some(CA_SECRET.into()), ..ObjectMeta::default() },
            data: Some(encode(&ca)),
            ..Secret::default()
        };
        return match api.create(&PostParams::default(), &made).await {
            Ok(_) => Ok(ca),
            Err(kube::Error::Api(status)) if status.code == 409 => reread(&api, namespace).await,
            Err(error) => Err(failed("make", namespace)(error)),
        };
    };
    let ca = decode(&secret, namespace)?;
    if !ca.renewal_due(now) {
        return Ok(ca);
    }
    let renewed = ca.renew(now).map_err(CaError::Issue)?;
    // With its resourceVersion: a slower replica does not undo a faster one's renewal.
    let secret = Secret { data: Some(encode(&renewed)), ..secret };
    match api.replace(CA_SECRET, &PostParams::default(), &secret).await {
        Ok(_) => Ok(renewed),
        Err(kube::Error::Api(status)) if status.code == 409 => reread(&api, namespace).await,
        Err(error) => Err(failed("renew", namespace)(error)),
    }
}

async fn reread(api: &Api<Secret>, namespace: &str) -> Result<CaSecret, CaError> {
    decode(&api.get(CA_SECRET).await.map_err(failed("read", namespace))?, namespace)
}

fn secrets(client: &Client, namespace: &str) -> Api<Secret> {
    Api::namespaced(client.clone(), namespace)
}

fn failed(verb: &'static str, namespace: &str) -> impl FnOnce(kube::Error) -> CaError {
    let namespace = namespace.to_owned();
    move |source| CaError::Api { verb, namespace, source: Box::new(source) }
}

fn decode(secret: &Secret, namespace: &str) -> Result<CaSecret, CaError> {
    let data = secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect();
    CaSecret::from_data(&data).map_err(|source| CaError::Torn { namespace: namespace.to_owned(), source })
}

fn encode(ca: &CaSecret) -> BTreeMap<String, ByteString> {
    ca.to_data().into_iter().map(|(key, value)| (key, ByteString(value))).collect()
}
