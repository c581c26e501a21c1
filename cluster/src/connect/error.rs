//! Errors of connecting to the API server.

/// Why a client could not be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No kubeconfig, address or in-cluster configuration was found.
    #[error("no usable kubeconfig, and not in a pod: set KUBECONFIG, --kubeconfig or --server")]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// The kubeconfig cannot be read, or lacks the context.
    #[error("cannot use the kubeconfig{}", context.as_ref().map(|name| format!(" with context {name}")).unwrap_or_default())]
    Kubeconfig {
        /// The requested context, if any.
        context: Option<String>,
        /// The error that kube reports.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// The kubeconfig lacks the requested user.
    #[error("the kubeconfig has no user {name}: kubectl config get-users lists them")]
    NoSuchUser {
        /// Name of the requested user.
        name: String,
    },
    /// The file with the CA certificates cannot be read.
    #[error("cannot read CA certificates from {}", path.display())]
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
