//! The one HTTP stack to the API server.

use std::{sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use tower::{ServiceBuilder, layer::layer_fn, util::BoxCloneSyncService};

use super::{
    answers::{Answer, ObserveOverload},
    error::ClientError,
    protobuf::{as_json, preferring_protobuf},
    read_only::reads_only,
    small_pages::SmallPages,
    target::Target,
    throttle::Throttle,
};

/// Longest wait of any request for the head of its answer (a watch's head comes at once). Calls that must be
/// faster have their own timeouts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Connections to one API server, without credentials: sends requests and returns streamed answers.
pub(super) type Http = BoxCloneSyncService<Request<Body>, Response<Answer>, tower::BoxError>;

/// A client that can write. A function that takes a plain [`Client`] cannot write, whatever credentials it
/// has: each plain client of this process refuses requests that would change something.
#[derive(Clone)]
pub struct WriteClient(Client);

impl WriteClient {
    /// Returns the client, for one request or for a component of kube that sends requests itself.
    pub fn client(&self) -> Client {
        self.0.clone()
    }

    /// Wraps a client of tests, which have no cluster.
    #[doc(hidden)]
    pub fn of(client: Client) -> Self {
        Self(client)
    }
}

/// Returns a client that reads. The client also sends access reviews and dry runs, and refuses all other
/// requests.
///
/// # Errors
/// Returns an error if there is no usable configuration.
pub async fn client(target: &Target, throttle: &Arc<Throttle>) -> Result<Client, ClientError> {
    Ok(clients(target, throttle).await?.0)
}

/// Returns a reading client and a writing client, over the same connections and with our User-Agent. The
/// answers show the throttle how busy the API server is.
///
/// We build our own stack for two reasons. Kube's stack lacks `TCP_NODELAY`, so the first request on each new
/// connection waits some 40 ms for a delayed acknowledgement (measured); and kube's stack retries inside the
/// call, while a worker waits.
///
/// # Errors
/// Returns an error if there is no usable configuration.
pub async fn clients(
    target: &Target,
    throttle: &Arc<Throttle>,
) -> Result<(Client, WriteClient), ClientError> {
    let config = configured(target).await?;
    let http = connections(&config, patience(target))?;
    over(http, &config, throttle, |_| ())
}

/// Returns the configuration, with our User-Agent and without retries.
///
/// # Errors
/// Returns an error if there is no usable configuration.
pub(super) async fn configured(target: &Target) -> Result<Config, ClientError> {
    let mut config = target.config().await?;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(concat!("copyrator/", env!("CARGO_PKG_VERSION"))),
    ));
    config.default_retry = false;
    Ok(config)
}

/// Returns how long a request may wait for the head of its answer.
pub(super) fn patience(target: &Target) -> Duration {
    target.request_timeout.unwrap_or(ANSWER_TIMEOUT)
}

/// A connection error with the API server's address.
#[derive(Debug, thiserror::Error)]
#[error("no connection to {address}")]
struct Unconnected {
    address: String,
    #[source]
    source: tower::BoxError,
}

/// Adds the address to a connection error; leaves other errors as they are.
fn with_address(address: &str, error: tower::BoxError) -> tower::BoxError {
    let is_unconnected =
        error.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|error| error.is_connect());
    match is_unconnected {
        true => Box::new(Unconnected { address: address.to_owned(), source: error }),
        false => error,
    }
}

/// Opens connections as the configuration defines them: address, trusted CA, client certificate.
///
/// # Errors
/// Returns an error if the configuration is invalid.
pub(super) fn connections(config: &Config, patience: Duration) -> Result<Http, ClientError> {
    let address = config.cluster_url.to_string();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    // Detects connections whose other end disappeared silently, whether the connection is idle (a watch) or
    // busy.
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_tcp_user_timeout(Some(patience.min(ANSWER_TIMEOUT)));
    let connector = config.rustls_https_connector_with_connector(connector).map_err(unbuilt)?;
    let http: HttpClient<_, Body> =
        HttpClient::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
    let service = ServiceBuilder::new()
        .map_response(|answer: Response<Incoming>| {
            answer.map(|body| body.map_err(tower::BoxError::from).boxed_unsync())
        })
        .map_err(move |error: tower::BoxError| with_address(&address, error))
        .timeout(patience)
        .service(http);
    Ok(BoxCloneSyncService::new(service))
}

/// Returns clients over these connections with the credentials of the configuration. `heard` receives the
/// status code of each answer.
///
/// # Errors
/// Returns an error if the configuration is invalid.
pub(super) fn over(
    http: Http,
    config: &Config,
    throttle: &Arc<Throttle>,
    heard: impl Fn(StatusCode) + Clone + Send + Sync + 'static,
) -> Result<(Client, WriteClient), ClientError> {
    let service = ServiceBuilder::new()
        .map_response(move |answer: Response<_>| {
            heard(answer.status());
            answer
        })
        .layer(layer_fn(|inner| ObserveOverload::new(inner, throttle.clone())))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(unbuilt)?)
        .layer(config.extra_headers_layer().map_err(unbuilt)?)
        .map_request(preferring_protobuf)
        .map_response(as_json)
        .layer(layer_fn(SmallPages::new))
        .service(http);
    let reading = ServiceBuilder::new().filter(reads_only).service(service.clone());
    let reads = Client::new(reading, config.default_namespace.clone());
    Ok((reads, WriteClient(Client::new(service, config.default_namespace.clone()))))
}

fn unbuilt(error: kube::Error) -> ClientError {
    ClientError::Build(Box::new(error))
}
