//! The only way to write. The writer checks leadership immediately before each request, and gives up before
//! another replica could lead (invariants 1 and 5 of ARCHITECTURE.md).

use kube::Client;

use super::leader::LeaderCheck;
use crate::{
    connect::{WRITE_TIMEOUT, WriteClient},
    dry_run::outcome::Outcome,
};

/// Writes to the API server while this process leads. Clones share the connection.
#[derive(Clone)]
pub(crate) struct Writer {
    client: WriteClient,
    lead: LeaderCheck,
}

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// This process is not the leader, so nothing was sent.
    #[error("not leading")]
    NotLeading,
    /// The answer did not arrive in time: the API server may have carried out the write.
    #[error("no answer in {WRITE_TIMEOUT:?}")]
    Timeout,
    /// The API server refused, or could not be reached.
    #[error(transparent)]
    Api(Box<kube::Error>),
}

impl Writer {
    /// Creates a writer that sends requests through `client` while `lead` confirms the leadership.
    pub(crate) fn new(client: WriteClient, lead: LeaderCheck) -> Self {
        Self { client, lead }
    }

    /// Sends one request. Each request checks leadership again.
    ///
    /// # Errors
    /// [`WriteError`].
    pub(super) async fn send<T, F>(&self, request: impl FnOnce(Client) -> F) -> Result<T, WriteError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        if !self.lead.is_leader() {
            return Err(WriteError::NotLeading);
        }
        match tokio::time::timeout(WRITE_TIMEOUT, request(self.client.client())).await {
            Ok(answer) => answer.map_err(|error| WriteError::Api(Box::new(error))),
            Err(_) => Err(WriteError::Timeout),
        }
    }

    /// Whether this process is the leader, for work that only the leader needs.
    pub(super) fn is_leader(&self) -> bool {
        self.lead.is_leader()
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
    use crate::act::leader::IsLeader;

    /// Is the leader for this many checks.
    struct For(AtomicUsize);

    impl IsLeader for For {
        fn is_leader(&self) -> bool {
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
        let writer = Writer::new(WriteClient::of(silent), Arc::new(For(AtomicUsize::new(1))));
        let delete = |client: Client| async move {
            Api::<ConfigMap>::default_namespaced(client).delete("app", &Default::default()).await
        };
        assert!(matches!(writer.send(delete).await, Err(WriteError::Timeout)));
        assert!(matches!(writer.send(delete).await, Err(WriteError::NotLeading)));
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }
}
