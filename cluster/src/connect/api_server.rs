//! The API server for callers that bring their own token. This process has no credentials for that API
//! server.

use std::sync::Arc;

use http::StatusCode;
use kube::{Client, Config, config::AuthInfo};
use secrecy::SecretString;

use super::{
    client::{Http, WriteClient, configured, connections, over, patience},
    error::ClientError,
    target::Target,
};

/// Shared connections to the API server, without credentials.
pub struct ApiServer {
    config: Config,
    http: Http,
}

impl ApiServer {
    /// Connects to the API server of the target, and drops the target's credentials.
    ///
    /// # Errors
    /// Returns an error if the target has no address.
    pub async fn connect(target: &Target) -> Result<Self, ClientError> {
        let mut config = configured(target).await?;
        config.auth_info = AuthInfo::default();
        let http = connections(&config, patience(target))?;
        Ok(Self { config, http })
    }

    /// Returns an API server for tests, with these answers.
    #[doc(hidden)]
    pub fn answering<F>(answer: F) -> Self
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

    /// Returns clients that send this token, and no other credentials of the caller. `home` is the default
    /// namespace. `heard` receives the status code of each answer.
    ///
    /// # Errors
    /// Returns an error if the token cannot be sent.
    pub fn with_token(
        &self,
        token: &SecretString,
        home: &str,
        heard: impl Fn(StatusCode) + Clone + Send + Sync + 'static,
    ) -> Result<(Client, WriteClient), ClientError> {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo { token: Some(token.clone()), ..AuthInfo::default() };
        config.default_namespace = home.to_owned();
        // The few requests of a person need no throttle.
        over(self.http.clone(), &config, &Arc::default(), heard)
    }
}
