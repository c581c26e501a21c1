//! What is told about an import: about which object, how bad it is, and what to do.

use std::fmt;

use serde::Serialize;

use crate::names::Kind;

/// The tool that something was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// emberstack/kubernetes-reflector.
    Reflector,
    /// mittwald/kubernetes-replicator.
    Replicator,
    /// config-syncer, once kubed.
    ConfigSyncer,
    /// zakkg3/ClusterSecret.
    ClusterSecret,
    /// The first Copyrator.
    Seed,
    /// stakater/Reloader.
    Reloader,
    /// wave-k8s/wave.
    Wave,
    /// The first Copyrator's monitor.
    SeedMonitor,
}

impl Tool {
    /// Whether it restarts; the others copy.
    pub fn restarts(self) -> bool {
        matches!(self, Self::Reloader | Self::Wave | Self::SeedMonitor)
    }

    /// The tool whose annotation this is.
    pub(super) fn of_annotation(key: &str) -> Option<Self> {
        match key.split_once('/')?.0 {
            "reflector.v1.k8s.emberstack.com" => Some(Self::Reflector),
            "replicator.v1.mittwald.de" => Some(Self::Replicator),
            "kubed.appscode.com" => Some(Self::ConfigSyncer),
            "wave.pusher.com" => Some(Self::Wave),
            // `configmap.reloader.stakater.com/reload` and more of the kind.
            domain => {
                let is_reloaders = domain
                    .strip_suffix("reloader.stakater.com")
                    .is_some_and(|head| head.is_empty() || head.ends_with('.'));
                is_reloaders.then_some(Self::Reloader)
            }
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reflector => "kubernetes-reflector",
            Self::Replicator => "kubernetes-replicator",
            Self::ConfigSyncer => "config-syncer",
            Self::ClusterSecret => "ClusterSecret",
            Self::Seed | Self::SeedMonitor => "the first Copyrator",
            Self::Reloader => "Reloader",
            Self::Wave => "wave",
        })
    }
}

/// The object that asks for something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Origin {
    /// Whose language it speaks.
    pub tool: Tool,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Origin {
    pub(super) fn new(tool: Tool, kind: impl Into<String>, namespace: &str, name: &str) -> Self {
        Self { tool, kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    pub(super) fn object(tool: Tool, kind: Kind, namespace: &str, name: &str) -> Self {
        Self::new(tool, kind.to_string(), namespace, name)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = [self.namespace.as_str(), self.name.as_str()].join("/");
        write!(f, "{} {} ({})", self.kind, path.trim_start_matches('/'), self.tool)
    }
}

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// There is no equivalent: something that the tool does is left out.
    NoEquivalent,
    /// There is one, and it behaves differently.
    Difference,
}

/// Something that would be different, or left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How much it weighs.
    pub level: Level,
    /// The annotation or field that it is about.
    pub about: String,
    /// What it is, and what to do.
    pub message: String,
}

/// Something has no equivalent.
pub(super) fn none(about: &str, message: impl Into<String>) -> Finding {
    Finding { level: Level::NoEquivalent, about: about.into(), message: message.into() }
}

/// Something behaves differently.
pub(super) fn differs(about: &str, message: impl Into<String>) -> Finding {
    Finding { level: Level::Difference, about: about.into(), message: message.into() }
}
