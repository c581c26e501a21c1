//! Options that the user gives for an import, besides its input.

/// The command-line options of an import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The namespace of the source Secret for a ClusterSecret with data of its own; `None` if not given.
    pub source_namespace: Option<String>,
    /// The namespace of the templates that replace cluster-wide policies; `None` if not given.
    pub home: Option<String>,
}
