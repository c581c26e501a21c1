//! One namespace, read by its name again and again, where the account may not watch all of them: `get` of a
//! namespace is a right that a Role in it can give, and a watch of it is not.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::watch::Observer;
use crate::{
    intake::watched::namespace_facts,
    model::{Look, Store},
};

/// How soon a label that was changed is seen.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads a namespace until told to stop.
pub async fn look_after(client: Client, place: Arc<str>, observer: Observer, stop: CancellationToken) {
    let api: Api<Namespace> = Api::all(client);
    let mut told = None;
    while !stop.is_cancelled() {
        let seen = tokio::select! {
            () = stop.cancelled() => return,
            seen = tokio::time::timeout(TIMEOUT, api.get_opt(&place)) => seen,
        };
        let failed = match seen {
            Ok(Ok(Some(namespace))) => {
                observer.look(&place, Look::Namespace(namespace_facts(&namespace)));
                None
            }
            Ok(Ok(None)) => {
                let why = format!("namespaces {place:?} not found");
                observer.look(&place, Look::Refused(Store::Namespaces, why.clone()));
                Some(why)
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                observer.look(&place, Look::Refused(Store::Namespaces, status.message.clone()));
                Some(status.message.clone())
            }
            // What was known of it is still the best there is.
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer in {TIMEOUT:?}")),
        };
        if failed.is_some() && failed != told {
            tracing::warn!(namespace = %place, error = failed, "a namespace cannot be read; it is tried again");
        }
        told = failed;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}
