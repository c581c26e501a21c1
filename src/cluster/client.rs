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

use super::{answers::Heard, target::Target, throttle::Throttle};

/// How long any request may wait for the head of its answer (a watch's comes at once): a last resort, for
/// calls that must be faster have limits of their own.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No configuration says where the cluster is.
    #[error(
        "cannot find out where the cluster is: set KUBECONFIG, --kubeconfig or --server, or run in a pod"
    )]
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
    /// The kubeconfig has no such user.
    #[error("the kubeconfig has no user {name}: kubectl config get-users lists them")]
    NoSuchUser {
        /// Who was asked for.
        name: String,
    },
    /// What is to say whose certificates count does not.
    #[error("cannot read certificates of authorities from {}", path.display())]
    Authority {
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The configuration cannot be used.
    #[error("cannot make a client from the configuration")]
    Build(#[source] Box<kube::Error>),
}

/// A client with a User-Agent of ours; what its answers say of how busy the API server is, the throttle is
/// told.
///
/// Kube's stock stack lacks `TCP_NODELAY`, so that the first request on each new connection waits some 40 ms
/// for a delayed acknowledgement (measured), and retries inside the call while a worker waits. This one does
/// neither.
///
/// # Errors
/// No usable configuration.
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

/// There is no connection to the API server.
#[derive(Debug, thiserror::Error)]
#[error("no connection to {address}")]
struct Unconnected {
    address: String,
    #[source]
    source: tower::BoxError,
}

/// Names the address that could not be connected to; other errors are as they were.
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
        .map_err(move |error: tower::BoxError| with_address(&address, error))
        .timeout(patience)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}
