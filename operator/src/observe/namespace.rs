//! Polls one namespace, if the account may not watch all namespaces: a Role in the namespace can grant `get`
//! on the namespace, but not `watch`.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::observer::Observer;
use crate::{
    decoded::Decoded,
    intake::watched::namespace_facts,
    model::{NamespaceRead, Store},
};

/// How often the namespace is read: this is the delay until a changed label is noticed.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads a namespace again and again, until `stop`.
pub(crate) async fn poll(client: Client, place: Arc<str>, observer: Observer, stop: CancellationToken) {
    let api: Api<Decoded<Namespace>> = Api::all(client);
    let mut told = None;
    while !stop.is_cancelled() {
        let seen = tokio::select! {
            () = stop.cancelled() => return,
            seen = tokio::time::timeout(TIMEOUT, api.get_opt(&place)) => seen,
        };
        let failed = match seen {
            Ok(Ok(Some(Decoded::Read(namespace)))) => {
                observer.look(&place, NamespaceRead::Namespace(namespace_facts(&namespace)));
                None
            }
            Ok(Ok(Some(Decoded::Unreadable(left)))) => Some(left.why),
            Ok(Ok(None)) => {
                let why = format!("namespaces {place:?} not found");
                observer.look(&place, NamespaceRead::Refused(Store::Namespaces, why.clone()));
                Some(why)
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                observer.look(&place, NamespaceRead::Refused(Store::Namespaces, status.message.clone()));
                Some(status.message.clone())
            }
            // The facts from the last successful read stay in use.
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer in {TIMEOUT:?}")),
        };
        if failed.is_some() && failed != told {
            tracing::warn!(namespace = %place, error = failed, "cannot read a namespace; Copyrator tries again");
        }
        told = failed;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}
