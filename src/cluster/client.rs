//! The one HTTP stack to the API server.

use std::{sync::Arc, time::Duration};

use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use tower::{ServiceBuilder, layer::layer_fn};

use super::{answers::ObserveOverload, target::Target, throttle::Throttle};

/// How long any request may wait for the head of its answer (a watch's head comes at once). It is a last
/// resort: calls that must be faster have their own limits.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No kubeconfig, address or in-cluster configuration was found.
    #[error(
        "cannot find out where the cluster is: set KUBECONFIG, --kubeconfig or --server, or run in a pod"
    )]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// The kubeconfig cannot be read, or lacks the context.
    #[error("cannot use the kubeconfig{}", context.as_ref().map(|name| format!(" with context {name}")).unwrap_or_default())]
    Kubeconfig {
        /// The context that was asked for, if any.
        context: Option<String>,
        /// What kube found wrong.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// The kubeconfig lacks the user that was asked for.
    #[error("the kubeconfig has no user {name}: kubectl config get-users lists them")]
    NoSuchUser {
        /// Name of that user.
        name: String,
    },
    /// The file with the CA certificates cannot be read.
    #[error("cannot read certificates of authorities from {}", path.display())]
    Authority {
        /// The file's path, as given.
        path: std::path::PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// Kube cannot build a client from the configuration.
    #[error("cannot make a client from the configuration")]
    Build(#[source] Box<kube::Error>),
}

/// A client with our User-Agent, whose answers tell the throttle how busy the API server is.
///
/// Kube's stock stack lacks `TCP_NODELAY`, so that the first request on each new connection waits some 40 ms
/// for a delayed acknowledgement (measured), and it retries inside the call while a worker waits. This one
/// does neither.
///
/// # Errors
/// There is no usable configuration.
pub async fn client(target: &Target, throttle: &Arc<Throttle>) -> Result<Client, ClientError> {
    let mut config = target.config().await?;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(concat!("copyrator/", env!("CARGO_PKG_VERSION"))),
    ));
    config.default_retry = false;
    build(config, target.request_timeout.unwrap_or(ANSWER_TIMEOUT), throttle)
        .map_err(|error| ClientError::Build(Box::new(error)))
}

/// No connection to the API server; names its address.
#[derive(Debug, thiserror::Error)]
#[error("no connection to {address}")]
struct Unconnected {
    address: String,
    #[source]
    source: tower::BoxError,
}

/// Adds the address to an error about connecting; other errors stay as they were.
fn with_address(address: &str, error: tower::BoxError) -> tower::BoxError {
    let is_unconnected =
        error.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|error| error.is_connect());
    match is_unconnected {
        true => Box::new(Unconnected { address: address.to_owned(), source: error }),
        false => error,
    }
}

fn build(config: Config, patience: Duration, throttle: &Arc<Throttle>) -> kube::Result<Client> {
    let address = config.cluster_url.to_string();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    // Detects connections whose other end disappeared silently: idle ones (watches) and busy ones.
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_tcp_user_timeout(Some(patience.min(ANSWER_TIMEOUT)));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http: HttpClient<_, Body> =
        HttpClient::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(layer_fn(|inner| ObserveOverload::new(inner, throttle.clone())))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(move |error: tower::BoxError| with_address(&address, error))
        .timeout(patience)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}
