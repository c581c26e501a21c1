//! Looks at the cluster: surveys, as every command takes them, kept for a few seconds.
//!
//! A survey lists everything that the caller may see. One is taken at a time, and what several requests ask
//! within a few seconds is answered from the same one, so that an open page costs the API server little.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use super::{asked::Asked, problem::Problem, seat::Seat};
use crate::cli::{
    operator::ReadScope,
    survey::{Survey, SurveyError, SurveyMode, read_scope, survey},
};

/// The cluster as the caller sees it, or one namespace of it.
#[derive(Clone)]
pub(super) struct Look {
    /// The namespace that it is about; `None`: all that Copyrator looks at.
    pub place: Option<Arc<str>>,
    pub survey: Arc<Survey>,
    pub read_scope: ReadScope,
}

/// Everything that the request is about.
pub(super) struct Sight {
    pub looks: Vec<Look>,
    /// Notes to read first.
    pub notes: Vec<String>,
}

/// Looks at the namespaces that the request or the command line names; without any at all of them, or, where the caller may not
/// list all, at the context's own.
///
/// # Errors
/// Nothing can be seen.
pub(super) async fn look(seat: &Seat, asked: &Asked) -> Result<Sight, Problem> {
    let named: &BTreeSet<Arc<str>> =
        if asked.namespaces.is_empty() { &seat.named } else { &asked.namespaces };
    let mut notes = Vec::new();
    let mut looks = Vec::new();
    if named.is_empty() {
        let home = seat.client.default_namespace();
        let read_scope = read_scope(&seat.client, &seat.installed, Some(home)).await.map_err(refused)?;
        let place = match &read_scope {
            ReadScope::One(place) => Some(place.clone()),
            _ => None,
        };
        looks.push(look_at(seat, place, read_scope).await?);
    }
    for place in named {
        let read_scope = read_scope(&seat.client, &seat.installed, Some(place)).await.map_err(refused)?;
        looks.push(look_at(seat, Some(place.clone()), read_scope).await?);
    }
    for look in &looks {
        let absent = look.place.as_ref().filter(|place| {
            look.survey.world.namespace_scope().is_none()
                && !look.survey.world.namespaces().contains_key(*place)
        });
        notes.extend(absent.map(|place| format!("namespace {place} does not exist")));
        notes.extend(look.survey.notes.iter().cloned());
    }
    notes.dedup();
    Ok(Sight { looks, notes })
}

async fn look_at(seat: &Seat, place: Option<Arc<str>>, read_scope: ReadScope) -> Result<Look, Problem> {
    // A caller with rights everywhere sees each namespace in the same survey.
    let end = match &read_scope {
        ReadScope::One(place) => Some(place.clone()),
        _ => None,
    };
    let (mut surveys, _turn) = seat.turn().await;
    if let Some(survey) = surveys.fresh(&end, Instant::now()) {
        return Ok(Look { place, survey, read_scope });
    }
    let mode = SurveyMode::Current(None);
    let survey = survey(&seat.client, (&seat.installed, &read_scope), mode).await.map_err(refused)?;
    let survey = surveys.keep(end, survey, Instant::now());
    Ok(Look { place, survey, read_scope })
}

/// A survey that was refused.
pub(super) fn refused(error: SurveyError) -> Problem {
    match error {
        SurveyError::Forbidden(message) => Problem::new(http::StatusCode::FORBIDDEN, message),
        error => Problem::of(&error),
    }
}
