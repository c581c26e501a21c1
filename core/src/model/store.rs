//! What is read before anything is decided.

/// One set of facts that must be complete before anything is decided: the first list of a watch, or the key
/// of digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the plural of what it holds")]
pub enum Store {
    Namespaces,
    ConfigMaps,
    Secrets,
    Deployments,
    StatefulSets,
    DaemonSets,
    CopyratorRules,
    ConfigMonitors,
    ConfigPolicies,
    DigestKey,
    SourceIndex,
}

impl Store {
    /// Whether it holds objects of one of our own kinds. They are deleted with their
    /// CustomResourceDefinition, and a watch cannot tell that from deleting each.
    pub fn is_ours(self) -> bool {
        match self {
            Self::CopyratorRules | Self::ConfigMonitors | Self::ConfigPolicies => true,
            Self::Namespaces
            | Self::ConfigMaps
            | Self::Secrets
            | Self::Deployments
            | Self::StatefulSets
            | Self::DaemonSets
            | Self::DigestKey
            | Self::SourceIndex => false,
        }
    }
}
