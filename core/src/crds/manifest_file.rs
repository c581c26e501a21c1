//! A file of manifests, rendered.

use std::fmt::Display;

/// One file of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Its name without a folder, as in `copyratorrules.yaml`.
    pub name: String,
    /// One or more YAML documents.
    pub text: String,
}

/// Unwraps the result of rendering. Rendering has no input but this build, and `tests/manifests.rs` renders
/// everything.
pub(super) fn rendered<T, E: Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| unreachable!("this build's own manifests do not render: {error}"))
}
