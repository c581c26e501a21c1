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

/// How long any request may wait for the head of its answer (a watch's head comes at once). It is a last
/// resort: calls that must be faster have their own limits.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Requests as they leave, and answers as they come: connections to one API server, without anybody's credentials.
pub(super) type Http = BoxCloneSyncService<Request<Body>, Response<Answer>, tower::BoxError>;

/// A client that can write. Every other [`Client`] of this process refuses each request that would change something,
/// so a function that takes a plain one cannot write, with whatever credentials.
#[derive(Clone)]
pub struct WriteClient(Client);

impl WriteClient {
    /// The client, for one request or for a component of kube that makes them.
    pub fn client(&self) -> Client {
        self.0.clone()
    }

    /// A client of tests, which have no cluster.
    #[cfg(test)]
    pub(crate) fn of(client: Client) -> Self {
        Self(client)
    }
}

/// A client that reads: it asks access reviews and makes dry runs, too, and refuses everything else.
///
/// # Errors
/// There is no usable configuration.
pub(crate) async fn client(target: &Target, throttle: &Arc<Throttle>) -> Result<Client, ClientError> {
    Ok(clients(target, throttle).await?.0)
}

/// A client that reads and one that writes, over the same connections and with our User-Agent. Their answers tell the
/// throttle how busy the API server is.
///
/// Kube's stock stack lacks `TCP_NODELAY`, so that the first request on each new connection waits some 40 ms
/// for a delayed acknowledgement (measured), and it retries inside the call while a worker waits. These
/// do neither.
///
/// # Errors
/// There is no usable configuration.
pub async fn clients(
    target: &Target,
    throttle: &Arc<Throttle>,
) -> Result<(Client, WriteClient), ClientError> {
    let config = configured(target).await?;
    let http = connections(&config, patience(target))?;
    over(http, &config, throttle, |_| ())
}

/// The configuration, with our User-Agent.
///
/// # Errors
/// There is no usable one.
pub(super) async fn configured(target: &Target) -> Result<Config, ClientError> {
    let mut config = target.config().await?;
    config.headers.push((
        http::header::USER_AGENT,
        http::HeaderValue::from_static(concat!("copyrator/", env!("CARGO_PKG_VERSION"))),
    ));
    config.default_retry = false;
    Ok(config)
}

/// How long a request may wait for the head of its answer.
pub(super) fn patience(target: &Target) -> Duration {
    target.request_timeout.unwrap_or(ANSWER_TIMEOUT)
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

/// Connections as the configuration says: which address, whose certificate.
///
/// # Errors
/// The configuration makes no sense.
pub(super) fn connections(config: &Config, patience: Duration) -> Result<Http, ClientError> {
    let address = config.cluster_url.to_string();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    // Detects connections whose other end disappeared silently: idle ones (watches) and busy ones.
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

/// The clients of the user whose credentials the configuration has, over these connections. `heard` is told the status code of
/// each answer.
///
/// # Errors
/// The configuration makes no sense.
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
