//! What can go wrong, in one sentence each: what was attempted, on what, and why it failed.

use std::io;
use std::path::{Path, PathBuf};

use crate::control::Component;

/// Why a cluster could not be built, started or steered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no Go to build the programs with.
    #[error(
        "Go {version} or newer is needed to build {tools} (once, {takes}): install it from \
         go.dev/dl or your package manager{alternative}"
    )]
    GoMissing {
        /// The Go version that the module asks for.
        version: String,
        /// The programs to build.
        tools: String,
        /// How long the build takes on two cores.
        takes: &'static str,
        /// What to do instead, where there is something.
        alternative: &'static str,
    },
    /// `go install` failed.
    #[error("building the {module} tools failed: {last_line} (whole log: {})", log.display())]
    BuildFailed {
        /// The module under `tools/`.
        module: &'static str,
        /// The most telling line of the log.
        last_line: String,
        /// Everything that Go said.
        log: PathBuf,
    },
    /// A module's `go.mod` does not say what it must.
    #[error("{} does not name a version of {wanted}", file.display())]
    NoVersion {
        /// The file.
        file: PathBuf,
        /// The requirement looked for.
        wanted: &'static str,
    },
    /// Neither `XDG_CACHE_HOME` nor `HOME` says where built programs can be kept.
    #[error("no folder to keep built programs in: set HOME or XDG_CACHE_HOME")]
    NoCacheFolder,
    /// The file system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
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
    CommandFailed {
        /// The program with its arguments.
        command: String,
        /// What it said.
        message: String,
    },
    /// A program answered something unreadable.
    #[error("cannot read the answer of {command}: {source}")]
    Answer {
        /// The program with its arguments.
        command: String,
        /// Where it stops making sense.
        source: serde_json::Error,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificate for {subject}: {source}")]
    Certificate {
        /// For whom.
        subject: &'static str,
        /// Why not.
        source: rcgen::Error,
    },
    /// The system has no randomness to give.
    #[error("cannot get random bytes for {purpose}")]
    Random {
        /// What they were for.
        purpose: &'static str,
    },
    /// Every block of loopback ports is taken.
    #[error("no free loopback ports between {from} and {to}")]
    NoFreePorts {
        /// The first port looked at.
        from: u16,
        /// The last port looked at.
        to: u16,
    },
    /// A component ended when it should run.
    #[error("{component} ended ({status}); its log ends with:\n{last_lines}")]
    ComponentEnded {
        /// Which one.
        component: Component,
        /// Its exit status.
        status: String,
        /// The end of its log.
        last_lines: String,
    },
    /// Something did not happen in time.
    #[error("waited {seconds} s for {what}: {seen}")]
    NotReady {
        /// What was waited for.
        what: String,
        /// For how long.
        seconds: u64,
        /// What was seen last.
        seen: String,
    },
    /// A component was to be steered while it does not run.
    #[error("cannot {action} {component}: it does not run")]
    NotRunning {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On which component.
        component: Component,
    },
    /// A component was to be steered in a cluster that somebody else runs.
    #[error("cannot {action} {component}: the cluster comes from COPYRATOR_TEST_KUBECONFIG and is not ours")]
    NotOurs {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On which component.
        component: Component,
    },
    /// A signal could not be sent.
    #[error("cannot {action} {component}: {source}")]
    Signal {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On which component.
        component: Component,
        /// Why not.
        source: nix::Error,
    },
    /// A user's kubeconfig was asked for that the cluster does not know.
    #[error("user {name:?} is unknown to the cluster: name it in Options::users before the start")]
    UnknownUser {
        /// The name asked for.
        name: String,
    },
    /// A folder to stop is not one of ours.
    #[error("{} is not the folder of a devcluster", dir.display())]
    NotACluster {
        /// The folder.
        dir: PathBuf,
    },
    /// An existing kubeconfig lacks something.
    #[error("{} has no {wanted} in its current context", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        wanted: &'static str,
    },
}

impl Error {
    /// Turns an [`io::Error`] into one that says what was attempted on which path.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { action, path, source }
    }

    /// Turns an [`io::Error`] into one that says which program could not be started.
    pub(crate) fn run(program: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
        let program = program.as_ref().to_owned();
        move |source| Error::Run { program, source }
    }

    /// Whether another program took a port between its reservation and its use: worth another try.
    pub(crate) fn is_port_conflict(&self) -> bool {
        matches!(self, Error::ComponentEnded { last_lines, .. } if last_lines.contains("address already in use"))
    }
}
