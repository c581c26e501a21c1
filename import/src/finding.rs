//! Findings of an import: the object concerned, the severity, and the fix.

use std::fmt;

use serde::Serialize;

use crate::names::Kind;

/// The tool that an annotation or manifest was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// The tool emberstack/kubernetes-reflector, which copies.
    Reflector,
    /// The tool mittwald/kubernetes-replicator, which copies.
    Replicator,
    /// The tool config-syncer, formerly kubed, which copies.
    ConfigSyncer,
    /// The tool zakkg3/ClusterSecret, which copies.
    ClusterSecret,
    /// The tool kyverno/kyverno, as far as its policies generate objects.
    Kyverno,
    /// The tool redhat-cop/namespace-configuration-operator, which makes objects in namespaces.
    NamespaceConfig,
    /// The first Copyrator's rules, which copy.
    Seed,
    /// The tool stakater/Reloader, which restarts.
    Reloader,
    /// The tool wave-k8s/wave, which restarts.
    Wave,
    /// The first Copyrator's monitors, which restart.
    SeedMonitor,
}

impl Tool {
    /// Whether the tool restarts workloads; `false` for a tool that copies or makes objects.
    pub fn restarts(self) -> bool {
        matches!(self, Self::Reloader | Self::Wave | Self::SeedMonitor)
    }

    /// Whether cluster-scoped objects configure the tool.
    pub(super) fn is_cluster_wide(self) -> bool {
        matches!(self, Self::ClusterSecret | Self::Kyverno | Self::NamespaceConfig)
    }

    /// Returns the tool that an annotation belongs to.
    pub(super) fn of_annotation(key: &str) -> Option<Self> {
        match key.split_once('/')?.0 {
            "reflector.v1.k8s.emberstack.com" => Some(Self::Reflector),
            "replicator.v1.mittwald.de" => Some(Self::Replicator),
            "kubed.appscode.com" => Some(Self::ConfigSyncer),
            "wave.pusher.com" => Some(Self::Wave),
            // Reloader's annotations also have subdomains, such as `configmap.reloader.stakater.com/reload`.
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
            Self::Kyverno => "Kyverno",
            Self::NamespaceConfig => "namespace-configuration-operator",
            Self::Seed | Self::SeedMonitor => "the first Copyrator",
            Self::Reloader => "Reloader",
            Self::Wave => "wave",
        })
    }
}

/// The object that requests copies or restarts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Origin {
    /// The tool that the object was written for.
    pub tool: Tool,
    /// The kind of the object, as the input has it.
    pub kind: String,
    /// The object's namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The name of the object, as the input has it.
    pub name: String,
    /// The rule in the object, if the object has several rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl Origin {
    pub(super) fn new(tool: Tool, kind: impl Into<String>, namespace: &str, name: &str) -> Self {
        Self { tool, kind: kind.into(), namespace: namespace.into(), name: name.into(), rule: None }
    }

    pub(super) fn object(tool: Tool, kind: Kind, namespace: &str, name: &str) -> Self {
        Self::new(tool, kind.to_string(), namespace, name)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = [self.namespace.as_str(), self.name.as_str()].join("/");
        write!(f, "{} {}", self.kind, path.trim_start_matches('/'))?;
        self.rule.iter().try_for_each(|rule| write!(f, ", rule {rule}"))?;
        write!(f, " ({})", self.tool)
    }
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// There is no equivalent: the import leaves out a behaviour of the tool.
    NoEquivalent,
    /// The import has an equivalent that behaves differently.
    Difference,
}

/// A behaviour of the tool that would be different, or is left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How serious the difference is.
    pub level: Level,
    /// The annotation or field that the finding is about.
    pub about: String,
    /// The difference, with the fix.
    pub message: String,
}

/// Returns a finding for an annotation or field without an equivalent.
pub(super) fn none(about: &str, message: impl Into<String>) -> Finding {
    Finding { level: Level::NoEquivalent, about: about.into(), message: message.into() }
}

/// Returns a finding for an annotation or field that behaves differently.
pub(super) fn differs(about: &str, message: impl Into<String>) -> Finding {
    Finding { level: Level::Difference, about: about.into(), message: message.into() }
}

/// Whether a known tool reads or writes this annotation.
pub fn is_of_interest(annotation: &str) -> bool {
    Tool::of_annotation(annotation).is_some()
}
