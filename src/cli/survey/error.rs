//! Why a survey shows nothing, and with which exit code the command ends.

use crate::{
    access::AskError,
    act::keys::KeyError,
    cli::terminal::Exit,
    observe::{content::ContentError, listing::ListError},
};

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum SurveyError {
    /// The caller lacks a right without which nothing can be planned.
    #[error("{0}")]
    Forbidden(String),
    #[error(transparent)]
    List(#[from] ListError),
    #[error("cannot ask the API server who you are")]
    Who(#[source] AskError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Content(#[from] ContentError),
}

impl SurveyError {
    /// The exit code of the command.
    pub(in crate::cli) fn exit(&self) -> Exit {
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
