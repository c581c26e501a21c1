//! Errors in arguments, and arguments that several commands parse alike.

use std::{collections::BTreeSet, time::Duration};

use crate::api::Span;

/// An argument that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("--{flag}: {message}")]
    Value { flag: &'static str, message: String },
    #[error("{name}: {message}")]
    Argument { name: &'static str, message: String },
}

/// The names of `--namespaces`.
pub(crate) fn namespaces(entries: Vec<String>) -> Result<BTreeSet<String>, UsageError> {
    let namespaces: BTreeSet<String> = non_empty(entries).collect();
    let is_name = |name: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = name.as_bytes();
        let plain = bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-');
        plain && bytes.len() <= 63 && edge(bytes.first()) && edge(bytes.last())
    };
    match namespaces.iter().find(|name| !is_name(name)) {
        Some(name) => {
            let message = format!(
                "{name:?} is not the name of a namespace (globs are not taken: each needs a Role of its own)"
            );
            Err(UsageError::Value { flag: "namespaces", message })
        }
        None => Ok(namespaces),
    }
}

/// Drops empty entries: an environment variable that is set to nothing is no entry.
pub(crate) fn non_empty(entries: Vec<String>) -> impl Iterator<Item = String> {
    entries.into_iter().filter(|entry| !entry.is_empty())
}

pub(crate) fn duration(flag: &'static str, text: &str) -> Result<Duration, UsageError> {
    Span::new(text).get().map_err(|error| UsageError::Value { flag, message: error.to_string() })
}
