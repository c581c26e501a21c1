//! The one way to write: each request only while we lead, asked immediately before it, and given up before
//! another replica could lead (invariants 1 and 5 of ARCHITECTURE.md).

use kube::Client;

use super::{
    lead::{Lead, WRITE_TIMEOUT},
    outcome::Outcome,
};

/// Writes to the API server while we lead. Clones share the connection.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    lead: Lead,
}

/// Why a request was not made, or what came of it.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// We do not lead: nothing was sent.
    #[error("not leading")]
    NotLeading,
    /// No answer in time: it may have been carried out.
    #[error("no answer in {WRITE_TIMEOUT:?}")]
    Timeout,
    /// The API server refused or could not be reached.
    #[error(transparent)]
    Api(Box<kube::Error>),
}

impl Writer {
    /// Writes through `client` while `lead` holds.
    pub fn new(client: Client, lead: Lead) -> Self {
        Self { client, lead }
    }

    /// Makes one request: a second one asks again.
    ///
    /// # Errors
    /// [`WriteError`].
    pub(super) async fn send<T, F>(&self, request: impl FnOnce(Client) -> F) -> Result<T, WriteError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        if !self.lead.leads() {
            return Err(WriteError::NotLeading);
        }
        match tokio::time::timeout(WRITE_TIMEOUT, request(self.client.clone())).await {
            Ok(answer) => answer.map_err(|error| WriteError::Api(Box::new(error))),
            Err(_) => Err(WriteError::Timeout),
        }
    }

    /// Whether we lead at this moment, for what is only worth doing then.
    pub(super) fn leads(&self) -> bool {
        self.lead.leads()
    }

    /// For what is read before a write, and for dry runs, which store nothing.
    pub(super) fn reader(&self) -> &Client {
        &self.client
    }
}

impl From<WriteError> for Outcome {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::NotLeading => Self::NotLeading,
            WriteError::Timeout => Self::retry(error.to_string()),
            WriteError::Api(error) => (*error).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, client::Body};

    use super::*;
    use crate::act::lead::Leads;

    /// Leads for so many questions.
    struct For(AtomicUsize);

    impl Leads for For {
        fn leads(&self) -> bool {
            let less = |left: usize| left.checked_sub(1);
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_asks_anew_and_none_outlasts_the_lease() {
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = requests.clone();
        let silent = Client::new(
            tower::service_fn(move |_: Request<Body>| {
                seen.fetch_add(1, Ordering::Relaxed);
                std::future::pending::<Result<Response<Body>, Infallible>>()
            }),
            "default",
        );
        let writer = Writer::new(silent, Arc::new(For(AtomicUsize::new(1))));
        let delete = |client: Client| async move {
            Api::<ConfigMap>::default_namespaced(client).delete("app", &Default::default()).await
        };
        assert!(matches!(writer.send(delete).await, Err(WriteError::Timeout)));
        assert!(matches!(writer.send(delete).await, Err(WriteError::NotLeading)));
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }
}
