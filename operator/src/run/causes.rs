//! The causes of an error, for log lines and readiness.

/// Formats an error with all its causes in one line, even if the message already contains a cause.
pub(in crate::run) fn with_all_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
