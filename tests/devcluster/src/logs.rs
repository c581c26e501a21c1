//! The end of a component's log, for the error that says why it ended.

use std::fs;
use std::path::{Path, PathBuf};

/// Where a component's log is within the cluster's folder.
pub(crate) fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join("logs").join(format!("{name}.log"))
}

/// The last lines of a log, which are all that remains once the folder is gone.
pub(crate) fn last_lines(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(6)..].join("\n")
}
