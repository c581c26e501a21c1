//! What can go wrong while Copyrator is installed and started.

use std::io;
use std::path::PathBuf;

/// Why the test bed could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster itself.
    #[error(transparent)]
    Cluster(#[from] devcluster::Error),
    /// A program could not be started.
    #[error("cannot run {}: {source}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A program ran and said no.
    #[error("{command} failed: {message}")]
    Failed {
        /// The program with its arguments.
        command: String,
        /// What it said.
        message: String,
    },
    /// The operator's log could not be opened.
    #[error("cannot open {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Every block of loopback ports is taken.
    #[error("no free loopback ports for the operator")]
    NoFreePorts,
    /// A port of ours cannot be listened on.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Listen {
        /// The port.
        port: u16,
        /// Why not.
        source: io::Error,
    },
    /// The socket for calls to Services cannot be listened on.
    #[error("cannot listen on {}: {source}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The cluster is somebody else's.
    #[error("pods can be played in a cluster of our own only: unset COPYRATOR_TEST_KUBECONFIG")]
    NotOurs,
    /// A pod wants a volume.
    #[error("pod {pod} mounts {path}: nothing is mounted into processes of this machine")]
    Mount {
        /// The pod.
        pod: String,
        /// Where it wants the volume.
        path: String,
    },
    /// The reconciler did not put the hooks in force.
    #[error("the webhook configurations are not in force after {seconds} s; see {}", logs.display())]
    NotHooked {
        /// How long was waited.
        seconds: u64,
        /// The folder of the operator's logs.
        logs: PathBuf,
    },
    /// The operator ended, or did not become ready.
    #[error("the {role} {what}; its log ends with:\n{log}")]
    NotReady {
        /// Which one.
        role: &'static str,
        /// What it did instead.
        what: String,
        /// The end of its log.
        log: String,
    },
}
