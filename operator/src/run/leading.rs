//! The work of the leader: it opens the queue, workers take keys, and periodic tasks reconcile everything.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::lease::Leader;
use crate::reconcile::{NEW_NAMESPACE_LANE, Reconciler};

/// How often the leader drops expired content and other short-lived records.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);
/// How often the leader checks whether the policies that guard annotations are in force.
const GUARD_EVERY: Duration = Duration::from_secs(60);
/// How often the leader checks these policies while they are not in force yet, or while the check fails.
const GUARD_AGAIN: Duration = Duration::from_secs(2);
/// How long a worker may take to finish its current key when the process stops.
const FINISH: Duration = Duration::from_secs(5);

/// Opens the queue when this process becomes the leader, and closes the queue when the process loses
/// leadership, until `stop`.
pub(super) async fn lead(
    reconciler: Arc<Reconciler>,
    leader: Leader,
    sweep_interval: Duration,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    loop {
        let term = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            term = leader.acquired() => term,
        };
        tracing::info!("this process is the leader and reconciles everything");
        reconciler.begin_term();
        let mut sweeping = pin!(sweep(&reconciler, sweep_interval));
        let mut guarding = pin!(guard(&reconciler));
        let mut scanning = pin!(reconciler.scan());
        let mut recalling = pin!(recall(&reconciler));
        let mut expire = tokio::time::interval(EXPIRE_EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    reconciler.close();
                    return Ok(());
                }
                () = leader.lost(term) => break,
                never = &mut sweeping => match never {},
                never = &mut guarding => match never {},
                never = &mut scanning => match never {},
                never = &mut recalling => match never {},
                _ = expire.tick() => reconciler.expire(),
            }
        }
        tracing::warn!("this process is no longer the leader");
        reconciler.lose_lease();
    }
}

/// Reconciles everything: at once by metadata, then at each interval by metadata and content.
async fn sweep(reconciler: &Reconciler, interval: Duration) -> Infallible {
    reconciler.sweep();
    loop {
        tokio::time::sleep(interval).await;
        reconciler.sweep();
        reconciler.verify().await;
    }
}

/// Reads once which annotation grants the previous leader listed.
async fn recall(reconciler: &Reconciler) -> Infallible {
    reconciler.recall_grants().await;
    std::future::pending().await
}

/// Checks each minute whether author annotations are protected against forgery.
async fn guard(reconciler: &Reconciler) -> Infallible {
    let mut told = None;
    loop {
        let seen = reconciler.look_at_stamps().await;
        let guarded = seen == Ok(true);
        let why = seen.err();
        if let Some(why) = why.as_ref().filter(|why| told.as_ref() != Some(*why)) {
            tracing::warn!(
                why,
                "cannot check the admission policy by a dry run of a ConfigMap in Copyrator's namespace: until the check succeeds, \
                 Copyrator ignores new annotations copyrator.dev/copy-to and restart-pods"
            );
        }
        told = why;
        tokio::time::sleep(if guarded { GUARD_EVERY } else { GUARD_AGAIN }).await;
    }
}

/// Runs `in_flight` workers, and a few more for new namespaces, until `stop`. Releases the lease, so that
/// another replica may write, only after the workers have finished their current keys.
pub(super) async fn work(
    reconciler: Arc<Reconciler>,
    in_flight: usize,
    stop: CancellationToken,
    release: CancellationToken,
) -> Result<(), tokio::task::JoinError> {
    let mut workers = JoinSet::new();
    for _ in 0..in_flight + NEW_NAMESPACE_LANE {
        let (reconciler, stop) = (reconciler.clone(), stop.clone());
        workers.spawn(async move { reconciler.work(&stop).await });
    }
    let mut outcome = Ok(());
    let mut finished = pin!(finished(&stop));
    while let Some(ended) = tokio::select! {
        ended = workers.join_next() => ended,
        () = &mut finished => None,
    } {
        // A worker that ends before `stop` has panicked; the panic ends the process.
        if let Err(panicked) = ended {
            outcome = Err(panicked);
            break;
        }
    }
    workers.shutdown().await;
    release.cancel();
    outcome
}

async fn finished(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(FINISH).await;
}
