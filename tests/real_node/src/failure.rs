//! What went wrong, in a sentence for the reader of the test's output.

use std::fmt;
use std::path::Path;

/// What could not be done or shown, and what was seen instead.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }

    /// Turns an error into one that says what was attempted on which path.
    pub(crate) fn at<E: fmt::Display>(action: &str, path: &Path) -> impl FnOnce(E) -> Failure {
        let attempt = format!("cannot {action} {}", path.display());
        move |error| Failure(format!("{attempt}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<devcluster::Error> for Failure {
    fn from(error: devcluster::Error) -> Failure {
        Failure(error.to_string())
    }
}
