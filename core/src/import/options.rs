//! What the user says of an import beside its input.

/// The options of the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The namespace of the source Secret for a ClusterSecret with data of its own; `None` where the user
    /// named none.
    pub source_namespace: Option<String>,
    /// The namespace of the templates that cluster-wide policies become; `None` where the user named none.
    pub home: Option<String>,
}
