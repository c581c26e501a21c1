//! Whether a reconciler keeps the shown statuses up to date.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

use crate::{config::LEASE_DURATION, installed::LEASE};

/// A note that no reconciler has renewed its Lease for so long that the shown statuses may be outdated;
/// `None` if a reconciler has renewed the Lease, or if the Lease may not be read. Clocks differ, so a few
/// lease durations are tolerated.
pub(super) async fn unrenewed(client: &Client, namespace: &str, now: Timestamp) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let spec = leases.get_opt(LEASE).await.ok()??.spec?;
    let renewed = spec.renew_time?.0;
    said(namespace, spec.holder_identity.as_deref().unwrap_or_default(), renewed, now)
}

fn said(namespace: &str, holder: &str, renewed: Timestamp, now: Timestamp) -> Option<String> {
    let seconds = now.duration_since(renewed).as_secs();
    let is_held = !holder.is_empty() && seconds <= 4 * LEASE_DURATION.as_secs() as i64;
    (!is_held).then(|| {
        format!(
            "no reconciler has renewed the Lease {namespace}/{LEASE} for {seconds} s: Copyrator copies, restarts and repairs nothing, and \
             statuses are outdated; copyrator doctor shows the fix"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_nobody_renews_is_told() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(said("ours", "pod_1", at(100), at(110)), None);
        assert_eq!(said("ours", "pod_1", at(100), at(90)), None, "a clock that is behind");
        let told = said("ours", "pod_1", at(100), at(412)).unwrap();
        assert!(
            told.starts_with("no reconciler has renewed the Lease ours/copyrator-reconciler for 312 s: "),
            "{told}"
        );
        assert!(said("ours", "", at(100), at(110)).is_some(), "given back");
    }
}
