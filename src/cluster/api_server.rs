//! The API server, to which this process has no credentials: each caller brings a token.

use std::sync::Arc;

use http::StatusCode;
use kube::{Client, Config, config::AuthInfo};
use secrecy::SecretString;

use super::{
    client::{Http, WriteClient, configured, connections, over, patience},
    error::ClientError,
    target::Target,
};

/// Connections to the API server that callers share, and nobody's credentials.
pub(crate) struct ApiServer {
    config: Config,
    http: Http,
}

impl ApiServer {
    /// The one that the target names. Of its credentials nothing is kept, whatever it has.
    ///
    /// # Errors
    /// Nothing says where it is.
    pub(crate) async fn connect(target: &Target) -> Result<Self, ClientError> {
        let mut config = configured(target).await?;
        config.auth_info = AuthInfo::default();
        let http = connections(&config, patience(target))?;
        Ok(Self { config, http })
    }

    /// One that answers as a test says.
    #[cfg(test)]
    pub(crate) fn answering<F>(answer: F) -> Self
    where
        F: Fn(http::Request<kube::client::Body>) -> http::Response<String> + Clone + Send + Sync + 'static,
    {
        use http_body_util::BodyExt as _;
        let server = tower::service_fn(move |request| {
            let answered = answer(request).map(|text| text.map_err(tower::BoxError::from).boxed_unsync());
            async { Ok(answered) }
        });
        Self { config: Config::new(http::Uri::from_static("http://api.test/")), http: Http::new(server) }
    }

    /// Clients that send this token and nothing else of its owner. `home` is the namespace that is meant where none is named.
    /// `heard` is told the status code of each answer.
    ///
    /// # Errors
    /// The token cannot be sent.
    pub(crate) fn with_token(
        &self,
        token: &SecretString,
        home: &str,
        heard: impl Fn(StatusCode) + Clone + Send + Sync + 'static,
    ) -> Result<(Client, WriteClient), ClientError> {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo { token: Some(token.clone()), ..AuthInfo::default() };
        config.default_namespace = home.to_owned();
        // A person's few requests are not throttled.
        over(self.http.clone(), &config, &Arc::default(), heard)
    }
}
