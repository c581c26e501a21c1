//! Finds the leader. The check watches whether the leader renews the Lease, since clocks and so timestamps
//! differ.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, Client};

use super::{
    facts::{LeaseFacts, Readable},
    read::get,
};
use crate::{config::LEASE_DURATION, installed::LEASE, terminal::Console};

/// How often the Lease is read while it looks stale.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reads the Lease. Unless one of our pods clearly renews the Lease, waits as long as a candidate waits
/// before it takes over.
pub(super) async fn look(
    client: &Client,
    namespace: &str,
    account: &str,
    now: Timestamp,
    console: &Console,
) -> Readable<LeaseFacts> {
    let first = read(client, namespace).await?;
    let mut facts = facts(client, namespace, account, &first).await?;
    let is_young = |at: Timestamp| at.duration_until(now).unsigned_abs() < LEASE_DURATION;
    facts.is_renewed = facts.is_ours && facts.renewed_at.is_some_and(is_young);
    if facts.is_renewed || first.is_none() {
        return Ok(facts);
    }
    console.note(&format!(
        "checking for up to {} s whether a reconciler renews the Lease {namespace}/{LEASE}",
        LEASE_DURATION.as_secs() + 1
    ));
    // As in leader election, a new resourceVersion with the same content is not a renewal.
    let mut seen = first.and_then(|lease| lease.spec);
    for _ in 0..=LEASE_DURATION.as_secs() {
        tokio::time::sleep(LOOK_EVERY).await;
        let lease = read(client, namespace).await?;
        let spec = lease.as_ref().and_then(|lease| lease.spec.clone());
        if spec == seen {
            continue;
        }
        seen = spec;
        facts = self::facts(client, namespace, account, &lease).await?;
        facts.is_renewed = !facts.holder.is_empty();
        if facts.is_renewed && facts.is_ours {
            break;
        }
    }
    Ok(facts)
}

async fn read(client: &Client, namespace: &str) -> Readable<Option<Lease>> {
    get(Api::namespaced(client.clone(), namespace), Some(namespace), LEASE).await
}

async fn facts(
    client: &Client,
    namespace: &str,
    account: &str,
    lease: &Option<Lease>,
) -> Readable<LeaseFacts> {
    let spec = lease.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let holder = spec.holder_identity.unwrap_or_default();
    // The holder is a pod's name with a random suffix (`operator/src/run/lease.rs`).
    let is_ours = match holder.rsplit_once('_') {
        None => false,
        Some((pod, _)) => {
            let pod: Option<Pod> =
                get(Api::namespaced(client.clone(), namespace), Some(namespace), pod).await?;
            let runs_as = pod.and_then(|pod| pod.spec?.service_account_name);
            runs_as.as_deref() == Some(account)
        }
    };
    Ok(LeaseFacts { holder, is_ours, is_renewed: false, renewed_at: spec.renew_time.map(|time| time.0) })
}
