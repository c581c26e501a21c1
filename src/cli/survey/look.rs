//! What every command of the terminal does first: where to look, what is there, and which part of it labels
//! choose.

use kube::Client;

use super::{Look, Survey, SurveyError, selected::Selected, survey};
use crate::cli::{
    arguments::Labels,
    operator::{Installed, Sight},
    terminal::{Exit, fail},
};

/// What is there, and which part of it labels choose. An obstacle is told, and how the command ends.
pub(crate) async fn look(
    client: &Client,
    installed: &Installed,
    (look, about): (Look<'_>, Option<&str>),
    labels: Option<Labels>,
) -> Result<Survey, Exit> {
    let sight = sight(client, installed, about).await.map_err(|error| fail(&error, error.exit()))?;
    let selected =
        Selected::find_if(client, &sight, labels).await.map_err(|error| fail(&error, error.exit()))?;
    let seen = survey(client, (installed, &sight), look).await.map_err(|error| fail(&error, error.exit()))?;
    Ok(seen.only(selected))
}

/// Where to look, for a caller who asks about this namespace, or about all.
pub(crate) async fn sight(
    client: &Client,
    installed: &Installed,
    about: Option<&str>,
) -> Result<Sight, SurveyError> {
    Sight::find(client, installed).await?.within_rights(client, about).await.map_err(SurveyError::Who)
}
