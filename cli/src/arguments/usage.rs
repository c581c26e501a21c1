//! Errors in arguments, and arguments that several commands parse alike.

use std::{collections::BTreeSet, time::Duration};

use crate::{api::Span, authority::TrustedWriters, names::NameKind, validate::name_fault};

/// An argument that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// A flag has an invalid value.
    #[error("--{flag}: {message}")]
    Value {
        /// The flag, without its dashes.
        flag: &'static str,
        /// Why the value is invalid.
        message: String,
    },
    /// An argument is invalid.
    #[error("{name}: {message}")]
    Argument {
        /// The name of the argument.
        name: &'static str,
        /// Why the argument is invalid.
        message: String,
    },
}

/// The namespaces that a flag lists.
pub fn namespaces(flag: &'static str, entries: Vec<String>) -> Result<BTreeSet<String>, UsageError> {
    let namespaces: BTreeSet<String> = non_empty(entries).collect();
    let fault = namespaces.iter().find_map(|name| name_fault(name, NameKind::Namespace));
    fault.map_or(Ok(namespaces), |message| Err(UsageError::Value { flag, message }))
}

/// The accounts of `--trusted-writers`.
pub fn trusted_writers(entries: Vec<String>) -> Result<Vec<String>, UsageError> {
    let writers: Vec<String> = non_empty(entries).collect();
    let fault = writers.iter().find_map(|writer| TrustedWriters::fault(writer));
    fault.map_or(Ok(writers), |message| Err(UsageError::Value { flag: "trusted-writers", message }))
}

/// Drops empty entries: an environment variable that is set to the empty text is no entry.
pub fn non_empty(entries: Vec<String>) -> impl Iterator<Item = String> {
    entries.into_iter().filter(|entry| !entry.is_empty())
}

/// Parses the value of a flag as a duration, such as `5m`.
///
/// # Errors
/// The flag, and why the text is no duration.
pub fn duration(flag: &'static str, text: &str) -> Result<Duration, UsageError> {
    Span::new(text).get().map_err(|error| UsageError::Value { flag, message: error.to_string() })
}
