//! Checks our processes: they are installed and ready, one process leads, and the key that proves marks
//! exists.

use k8s_openapi::api::apps::v1::Deployment;

use super::{
    facts::Facts,
    finding::{Findings, Id},
};
use crate::{
    installed::{Install, LEASE, Role},
    marks::KEY_SECRET,
};

/// Checks that Copyrator is installed.
pub(super) fn installed(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    match &facts.deployments {
        Err(unread) => found.unknown(&[Id::NotInstalled, Id::PodsNotReady], unread),
        Ok(deployments) if deployments.is_empty() => {
            let what = "has no Deployment of Copyrator (label app.kubernetes.io/part-of=copyrator), so doctor checked nothing else: if \
             Copyrator is in another namespace, name it with -n";
            found.error(Id::NotInstalled, format!("Namespace {}", facts.namespace), what, install.repair());
        }
        Ok(_) => {}
    }
}

/// Finds everything that is wrong with our processes.
pub(super) fn check(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    for deployment in facts.deployments.iter().flatten() {
        ready(&facts.namespace, deployment, found);
    }
    led(facts, install, found);
    match &facts.digest_key {
        Err(unread) => found.unknown(&[Id::DigestKeyMissing], unread),
        Ok(true) => {}
        Ok(false) => {
            let namespace = &facts.namespace;
            let what = "does not exist, although a leading reconciler would create it again: restore the Secret from a backup. Otherwise \
             the next start makes a new key, and Copyrator no longer deletes orphaned copies";
            let restart = install.start(Role::Reconciler);
            found.error(Id::DigestKeyMissing, format!("Secret {namespace}/{KEY_SECRET}"), what, restart);
        }
    }
}

/// How many pods the Deployment wants, and how many are ready.
pub(super) fn readiness(deployment: &Deployment) -> (i32, i32) {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    (wanted, ready)
}

fn ready(namespace: &str, deployment: &Deployment, found: &mut Findings) {
    let (wanted, ready) = readiness(deployment);
    if ready >= wanted {
        return;
    }
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let what = format!("has {ready} ready pods of {wanted}: each pod's /readyz shows why it is not ready");
    let look = format!("kubectl -n {namespace} describe pods -l app.kubernetes.io/part-of=copyrator");
    found.warning(Id::PodsNotReady, format!("Deployment {namespace}/{name}"), what, look);
}

fn led(facts: &Facts, install: &Install<'_>, found: &mut Findings) {
    let lease = match &facts.lease {
        Ok(lease) => lease,
        Err(unread) => return found.unknown(&[Id::LeaseStale, Id::LeaseStolen], unread),
    };
    let namespace = &facts.namespace;
    let object = format!("Lease {namespace}/{LEASE}");
    let holder = &lease.holder;
    if lease.is_renewed && !holder.is_empty() {
        if !lease.is_ours {
            let what = format!(
                "is renewed by {holder:?}, which is not a pod of this Copyrator, so no reconciler can lead. Find its holder: kubectl -n \
                 {namespace} get lease {LEASE} --show-managed-fields -o yaml"
            );
            found.error(
                Id::LeaseStolen,
                object,
                what,
                format!("kubectl -n {namespace} delete lease {LEASE}"),
            );
        }
        return;
    }
    let since = lease.renewed_at.map(|at| format!(", last renewed at {at:.0}")).unwrap_or_default();
    let what = match holder.as_str() {
        "" => format!("has no holder{since}, so Copyrator copies, restarts and repairs nothing"),
        holder => {
            format!(
                "is no longer renewed by {holder:?}{since}, so Copyrator copies, restarts and repairs nothing"
            )
        }
    };
    let restart = install.start(Role::Reconciler);
    found.error(Id::LeaseStale, object, what, restart);
}
