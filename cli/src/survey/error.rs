//! Why a survey shows nothing, and with which exit code the command ends.

use crate::{
    access::AskError,
    read::{content::ContentError, digest_key::KeyError, listing::ListError},
    terminal::Exit,
};

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// The caller lacks a right without which nothing can be planned.
    #[error("{0}")]
    Forbidden(String),
    /// A list failed.
    #[error(transparent)]
    List(#[from] ListError),
    /// The API server did not say who the caller is.
    #[error("cannot ask the API server for your user name")]
    Who(#[source] AskError),
    /// The key of digests cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The content of an object cannot be read.
    #[error(transparent)]
    Content(#[from] ContentError),
}

impl SurveyError {
    /// The exit code of the command.
    pub(crate) fn exit(&self) -> Exit {
        let unanswered = |error: &kube::Error| !matches!(error, kube::Error::Api(_));
        let unreachable = match self {
            Self::Forbidden(_) => false,
            Self::List(error) => matches!(error, ListError::Unreachable(_)),
            Self::Who(AskError::Failed(error)) => unanswered(error),
            Self::Who(error) => matches!(error, AskError::TimedOut),
            Self::Key(KeyError::Api { source, .. }) => unanswered(source),
            Self::Key(_) => false,
            Self::Content(ContentError::Fetch { source, .. }) => unanswered(source),
            Self::Content(_) => false,
        };
        if unreachable { Exit::Unreachable } else { Exit::Findings }
    }
}
