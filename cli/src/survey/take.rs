//! The first step of every command: find the namespaces to read, survey them, and select by labels.

use kube::Client;

use super::{Survey, SurveyError, SurveyMode, SurveyTarget, selected::Selected, survey};
use crate::{
    arguments::Labels,
    installed::{Installed, ReadScope},
    terminal::{Exit, fail},
};

/// A survey, limited to the objects with these labels. Errors are printed, and returned as the exit code.
pub async fn take_survey(
    client: &Client,
    installed: &Installed,
    mode: SurveyMode<'_>,
    about: Option<&str>,
    labels: Option<Labels>,
) -> Result<Survey, Exit> {
    let read_scope =
        read_scope(client, installed, about).await.map_err(|error| fail(&error, error.exit()))?;
    let selected =
        Selected::find_if(client, &read_scope, labels).await.map_err(|error| fail(&error, error.exit()))?;
    let target = SurveyTarget { installed, read_scope: &read_scope };
    let seen = survey(client, target, mode).await.map_err(|error| fail(&error, error.exit()))?;
    Ok(seen.only(selected))
}

/// The namespaces to read for a caller who asks about this namespace, or about all.
pub async fn read_scope(
    client: &Client,
    installed: &Installed,
    about: Option<&str>,
) -> Result<ReadScope, SurveyError> {
    ReadScope::find(client, installed).await?.within_rights(client, about).await.map_err(SurveyError::Who)
}
