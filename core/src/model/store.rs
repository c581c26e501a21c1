//! What is read before anything is decided.

/// What must be known before anything is decided: the first list of each watch, and the key of digests.
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
    /// It holds objects of a kind of ours: they go with their definition, and nothing tells the one from the
    /// other.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::CopyratorRules | Self::ConfigMonitors | Self::ConfigPolicies)
    }
}
