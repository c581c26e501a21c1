//! Why the operator ends with a failure.

use super::lease::LeaseError;
use crate::{connect::ClientError, serve::ServeError};

/// Why the operator ends with a failure.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// Building the client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The process cannot listen or set up TLS, or a task has failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The leader election cannot be set up.
    #[error(transparent)]
    Lease(#[from] LeaseError),
}
