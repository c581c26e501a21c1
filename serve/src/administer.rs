//! The port for probes and metrics, which every serving process has.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::{error::ServeError, tasks::Tasks};
use crate::{Admin, ConnectionMetrics, Drain, Limits, Readiness, admin_router, serve_plain};

/// Largest age of the heartbeat. If the heartbeat is older, the runtime is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Serves probes and metrics at this address, and keeps accepting connections for the propagation delay after
/// a signal.
///
/// # Errors
/// Returns an error if the process cannot listen at the address.
pub async fn administer(
    tasks: &mut Tasks,
    address: SocketAddr,
    propagation_delay: Duration,
    readiness: Readiness,
    metrics: Registry,
) -> Result<(), ServeError> {
    let listener = listen(address, "probes and metrics").await?;
    let beat = Arc::new(Mutex::new(Instant::now()));
    let (heart, stop) = (beat.clone(), tasks.shutdown());
    tasks.spawn("heartbeat", async move {
        while !stop.is_cancelled() {
            *heart.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
        }
        Ok::<(), Infallible>(())
    });
    let live = Arc::new(move || {
        let age = beat.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if age < STUCK_AFTER { Ok(()) } else { Err(format!("the async runtime has run no task for {age:?}")) }
    });
    let router = admin_router(Admin { readiness, live, metrics: Arc::new(metrics) });
    let drain = Drain { propagation_delay, ..Drain::on(tasks.shutdown()) };
    tasks.spawn("admin", async move {
        serve_plain(listener, router, drain, Limits::default(), ConnectionMetrics::default()).await;
        Ok::<(), Infallible>(())
    });
    Ok(())
}

/// Opens a listener at this address.
///
/// # Errors
/// Returns an error if the address is in use, or does not belong to this machine.
pub async fn listen(address: SocketAddr, purpose: &'static str) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, purpose, source })
}
