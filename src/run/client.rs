//! The one HTTP stack to the API server.

use std::{sync::Arc, time::Duration};

use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{ServiceBuilder, layer::layer_fn};

use super::answers::Heard;
use crate::reconcile::Throttle;

/// How long any request may wait for the head of its answer (a watch's comes at once): a last resort, for calls
/// that must be faster have limits of their own.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No configuration says where the cluster is.
    #[error("cannot find out where the cluster is: set KUBECONFIG or --kubeconfig, or run in a pod")]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// The kubeconfig is unreadable or names no such context.
    #[error("cannot use the kubeconfig{}", context.as_ref().map(|name| format!(" with context {name}")).unwrap_or_default())]
    Kubeconfig {
        /// The context asked for.
        context: Option<String>,
        /// The cause.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// The configuration cannot be used.
    #[error("cannot make a client from the configuration")]
    Build(#[source] Box<kube::Error>),
}

/// Which cluster, as whom, and how patiently.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// A kubeconfig file; else `KUBECONFIG`, `~/.kube/config`, or the pod's own account.
    pub kubeconfig: Option<std::path::PathBuf>,
    /// A context of it; else the current one.
    pub context: Option<String>,
    /// Ask as this user; else as whom the configuration says.
    pub user: Option<String>,
    /// Ask as a member of these groups; counts with a user only.
    pub groups: Vec<String>,
    /// How long any request may wait for the head of its answer; else 30 seconds.
    pub request_timeout: Option<Duration>,
}

/// A client with a User-Agent of ours; what its answers say of how busy the API server is, the throttle is told.
///
/// Kube's stock stack lacks `TCP_NODELAY`, so that the first request on each new connection waits some 40 ms for a
/// delayed acknowledgement (measured), and retries inside the call while a worker waits. This one does neither.
///
/// # Errors
/// No usable configuration.
pub async fn client(target: &Target, throttle: &Arc<Throttle>) -> Result<Client, ClientError> {
    let mut config = config(target).await?;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(concat!("copyrator/", env!("CARGO_PKG_VERSION"))),
    ));
    config.default_retry = false;
    if let Some(user) = &target.user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = Some(target.groups.clone());
    }
    build(config, target.request_timeout.unwrap_or(ANSWER_TIMEOUT), throttle)
        .map_err(|error| ClientError::Build(Box::new(error)))
}

async fn config(target: &Target) -> Result<Config, ClientError> {
    if target.kubeconfig.is_none() && target.context.is_none() {
        return Config::infer().await.map_err(|error| ClientError::Config(Box::new(error)));
    }
    let failed =
        |source| ClientError::Kubeconfig { context: target.context.clone(), source: Box::new(source) };
    let kubeconfig = match &target.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let options = KubeConfigOptions { context: target.context.clone(), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig.map_err(failed)?, &options).await.map_err(failed)
}

fn build(config: Config, patience: Duration, throttle: &Arc<Throttle>) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    // A connection whose other end is gone without a word: idle ones (watches) and busy ones.
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_tcp_user_timeout(Some(patience.min(ANSWER_TIMEOUT)));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http: HttpClient<_, Body> =
        HttpClient::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(layer_fn(|inner| Heard::new(inner, throttle.clone())))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .timeout(patience)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}
