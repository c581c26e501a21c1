//! `copyrator serve --roles=console`: the console for everyone with a token of the cluster. The process has
//! no credentials of its own.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use copyrator_cli::installed::Installed;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::{
    callers::Callers,
    door::Door,
    entry::NoRandomness,
    guard::{AllowedHost, Guard},
    routes::routes,
    sealed::Seal,
    seats::Seats,
    site::{BasePath, Session, Site},
};
use crate::{
    config::Config,
    connect::{ApiServer, ClientError},
    serve::{
        self, ConnectionMetrics, Drain, Limits, Readiness, ServeError, ServingCert,
        administer::{administer, listen},
        mounted_pair::keep_pair,
        serve_https, serve_plain,
        tasks::{Tasks, signals},
    },
};

/// The maximum number of connections. Behind a proxy, all connections come from one address.
const CONNECTIONS: usize = 512;
/// The maximum number of connections of one address.
const CONNECTIONS_A_PEER: usize = 256;
/// How often unused seats and old surveys are dropped.
const SWEEP: Duration = Duration::from_secs(5);
/// How long requests may take after a signal, in addition to the drain delay.
const LAST_REQUESTS: Duration = Duration::from_secs(15);

/// The flags of the role.
#[derive(Debug, clap::Args)]
pub struct ConsoleArgs {
    /// The address that the console listens on, in plain HTTP unless --tls-dir has a certificate for it. Leave it to loopback
    /// where nothing encrypts the way to it: people's tokens go that way.
    #[arg(long, env = "COPYRATOR_CONSOLE_ADDR", default_value = "127.0.0.1:8001", value_name = "ADDR")]
    console_addr: SocketAddr,
    /// The path that the console is found below, as an Ingress sends it.
    #[arg(long, env = "COPYRATOR_BASE_PATH", default_value = "/", value_name = "PATH")]
    base_path: BasePath,
    /// The hosts by which the console is found: HOST:PORT, or HOST for any port. Requests that name another one are refused.
    #[arg(
        long,
        env = "COPYRATOR_ALLOWED_HOSTS",
        value_delimiter = ',',
        default_value = "localhost,127.0.0.1,[::1]",
        value_name = "HOST,…"
    )]
    allowed_hosts: Vec<AllowedHost>,
}

/// Why the console ends with a failure.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// Building the client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The process cannot listen or set up TLS, or a task has failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The operating system gives no random bytes.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// Serves until a signal arrives.
///
/// # Errors
/// The console cannot start, or a task failed or ended too early.
pub async fn serve(args: ConsoleArgs, config: Config) -> Result<(), ConsoleError> {
    let signals = signals().map_err(ServeError::Signals)?;
    let server = ApiServer::connect(&config.cluster).await?;
    let stop = CancellationToken::new();
    let mut tasks = Tasks::new(stop.clone());
    let readiness = Readiness::new(stop.clone());
    let mut metrics = Registry::with_prefix("copyrator");
    let site = Site { base: args.base_path, session: Session::Token };
    let seats = Arc::new(Seats::new(server, Installed::of(&config), site.clone(), stop.clone()));
    sweep(&mut tasks, seats.clone());
    let callers = Callers::Tokens { seal: Box::new(Seal::new()?), seats };
    let router = routes(Arc::new(Door::new(Guard::named(args.allowed_hosts), site, callers)));

    let connections = ConnectionMetrics::default();
    let registry = metrics.sub_registry_with_prefix("console");
    connections.register(registry);
    let tls = mounted(&mut tasks, &config, &readiness, registry)?;
    let listener = listen(args.console_addr, "the console").await?;
    let address = listener.local_addr().unwrap_or(args.console_addr);
    if tls.is_none() && !address.ip().is_loopback() {
        tracing::warn!(%address, "plain HTTP: anyone on the network can read the tokens, unless a proxy in front encrypts the connection");
    }
    let limits = Limits {
        max_connections: CONNECTIONS,
        max_connections_a_peer: CONNECTIONS_A_PEER,
        makes_room: true,
        ..Limits::default()
    };
    let drain = Drain { propagation_delay: config.drain_delay, ..Drain::on(stop) };
    tasks.spawn("console", async move {
        match tls {
            Some(tls) => {
                let anybody = serve::Callers::default();
                serve_https(listener, tls, anybody, router, drain, limits, connections).await
            }
            None => serve_plain(listener, router, drain, limits, connections).await,
        };
        Ok::<(), Infallible>(())
    });
    administer(&mut tasks, config.admin_addr, config.drain_delay, readiness, metrics).await?;
    tracing::info!(%address, "serving the console with the rights of its users");
    let grace = config.drain_delay + LAST_REQUESTS;
    Ok(tasks.run(signals, grace).await.map_err(ServeError::Tasks)?)
}

/// Drops unused seats and old surveys periodically.
fn sweep(tasks: &mut Tasks, seats: Arc<Seats>) {
    let stop = tasks.shutdown();
    tasks.spawn("seats", async move {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(SWEEP) => seats.sweep(Instant::now()),
            }
        }
        Ok::<(), Infallible>(())
    });
}

/// TLS with the mounted certificate, if one is mounted.
fn mounted(
    tasks: &mut Tasks,
    config: &Config,
    readiness: &Readiness,
    metrics: &mut Registry,
) -> Result<Option<Arc<rustls::ServerConfig>>, ServeError> {
    let Some(dir) = config.tls_dir.clone() else { return Ok(None) };
    let serving = ServingCert::new();
    serving.register(metrics);
    let tls = serving.server_config(None).map_err(ServeError::Tls)?;
    let served = serving.clone();
    readiness.check("certificate", move || served.is_valid_at(SystemTime::now()));
    let (mounted, stop) = (readiness.require("mounted"), tasks.shutdown());
    tasks.spawn("certificate", async move {
        keep_pair(dir, serving, mounted, stop).await;
        Ok::<(), Infallible>(())
    });
    Ok(Some(tls))
}
