//! A rendered file of manifests.

use std::fmt::Display;

/// A file of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// The file's name without a folder, as in `copyratorrules.yaml`.
    pub name: String,
    /// One or more YAML documents.
    pub text: String,
}

/// Unwraps the result of rendering. Rendering has no input but this build, and `tests/manifests.rs` renders
/// all files.
pub(super) fn rendered<T, E: Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| unreachable!("this build's own manifests do not render: {error}"))
}
