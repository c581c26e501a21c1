//! Surveys for requests, cached for a while.
//!
//! A survey lists everything that the caller may see. Each caller takes one survey at a time. Requests within
//! a few seconds share a survey (within a longer time if the survey took long), so that pages cost the API
//! server little.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use copyrator_cli::{installed::ReadScope, survey::read_scope};

use super::{
    asked::Asked,
    problem::Problem,
    seat::Seat,
    surveying::{refused, take, turn},
    surveys::{CachedSurvey, FRESH},
};
use crate::marks::write_time;

/// A survey of the cluster as the caller sees it, and the namespace that the request is about.
#[derive(Clone)]
pub(super) struct ScopedSurvey {
    /// The namespace; `None`: all namespaces that Copyrator reads.
    pub namespace: Option<Arc<str>>,
    pub survey: Arc<CachedSurvey>,
    pub read_scope: ReadScope,
}

/// The surveys for a request: one for each namespace that it names.
pub(super) struct RequestedSurveys {
    pub surveys: Vec<ScopedSurvey>,
    /// Notes to read first.
    pub notes: Vec<String>,
}

/// Surveys the namespaces that the request or the command line names. Without such names, surveys all
/// namespaces, or only the context's own namespace if the caller may not list all namespaces.
///
/// # Errors
/// A survey failed.
pub(super) async fn requested_surveys(seat: &Seat, asked: &Asked) -> Result<RequestedSurveys, Problem> {
    let named: &BTreeSet<Arc<str>> =
        if asked.namespaces.is_empty() { &seat.named } else { &asked.namespaces };
    let mut notes = Vec::new();
    let mut surveys = Vec::new();
    if named.is_empty() {
        let home = seat.client.default_namespace();
        let read_scope = read_scope(&seat.client, &seat.installed, Some(home)).await.map_err(refused)?;
        let namespace = match &read_scope {
            ReadScope::One(namespace) => Some(namespace.clone()),
            _ => None,
        };
        surveys.push(scoped_survey(seat, asked, namespace, read_scope).await?);
    }
    for namespace in named {
        let read_scope = read_scope(&seat.client, &seat.installed, Some(namespace)).await.map_err(refused)?;
        surveys.push(scoped_survey(seat, asked, Some(namespace.clone()), read_scope).await?);
    }
    for ScopedSurvey { namespace, survey, .. } in &surveys {
        if survey.begun.elapsed() > FRESH {
            notes.push(format!(
                "read at {}, because reading this cluster takes long: reload for new data (Cache-Control: no-cache)",
                write_time(survey.now)
            ));
        }
        let absent = namespace.as_ref().filter(|namespace| {
            survey.world.namespace_scope().is_none() && !survey.world.namespaces().contains_key(*namespace)
        });
        notes.extend(absent.map(|namespace| format!("namespace {namespace} does not exist")));
        notes.extend(survey.notes.iter().cloned());
    }
    notes.dedup();
    Ok(RequestedSurveys { surveys, notes })
}

async fn scoped_survey(
    seat: &Seat,
    asked: &Asked,
    namespace: Option<Arc<str>>,
    read_scope: ReadScope,
) -> Result<ScopedSurvey, Problem> {
    // With rights everywhere, all namespaces share one survey.
    let end = match &read_scope {
        ReadScope::One(namespace) => Some(namespace.clone()),
        _ => None,
    };
    let anew = asked.is_anew.then(Instant::now);
    let fresh = || seat.seen_lately().fresh(&end, anew, Instant::now());
    if let Some(survey) = fresh() {
        return Ok(ScopedSurvey { namespace, survey, read_scope });
    }
    let turn = turn(seat).await?;
    // The previous request may have made this survey.
    if let Some(survey) = fresh() {
        return Ok(ScopedSurvey { namespace, survey, read_scope });
    }
    let begun = Instant::now();
    // Keep the turn until the survey is cached.
    let (survey, _turn) = take(seat, turn, &read_scope, None).await?;
    let survey = seat.seen_lately().keep(end, survey, begun, &seat.room, Instant::now());
    Ok(ScopedSurvey { namespace, survey, read_scope })
}
