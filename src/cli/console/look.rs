//! Looks at the cluster: surveys, as every command takes them, kept for a while.
//!
//! A survey lists everything that the caller may see. One is taken at a time, and what several requests ask within a few seconds, or
//! longer where it took long, is answered from the same one, so that pages cost the API server little.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use super::{
    asked::Asked,
    problem::Problem,
    seat::Seat,
    surveying::{refused, take, turn},
    surveys::{FRESH, Taken},
};
use crate::{
    cli::{operator::ReadScope, survey::read_scope},
    marks::write_time,
};

/// The cluster as the caller sees it, or one namespace of it.
#[derive(Clone)]
pub(super) struct Look {
    /// The namespace that it is about; `None`: all that Copyrator looks at.
    pub place: Option<Arc<str>>,
    pub survey: Arc<Taken>,
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
        looks.push(look_at(seat, asked, place, read_scope).await?);
    }
    for place in named {
        let read_scope = read_scope(&seat.client, &seat.installed, Some(place)).await.map_err(refused)?;
        looks.push(look_at(seat, asked, Some(place.clone()), read_scope).await?);
    }
    for look in &looks {
        if look.survey.begun.elapsed() > FRESH {
            notes.push(format!(
                "seen at {}, since looking takes long here: reload for a new look (Cache-Control: no-cache)",
                write_time(look.survey.now)
            ));
        }
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

async fn look_at(
    seat: &Seat,
    asked: &Asked,
    place: Option<Arc<str>>,
    read_scope: ReadScope,
) -> Result<Look, Problem> {
    // A caller with rights everywhere sees each namespace in the same survey.
    let end = match &read_scope {
        ReadScope::One(place) => Some(place.clone()),
        _ => None,
    };
    let anew = asked.is_anew.then(Instant::now);
    let fresh = || seat.seen_lately().fresh(&end, anew, Instant::now());
    if let Some(survey) = fresh() {
        return Ok(Look { place, survey, read_scope });
    }
    let turn = turn(seat).await?;
    // The request before may have looked there.
    if let Some(survey) = fresh() {
        return Ok(Look { place, survey, read_scope });
    }
    let begun = Instant::now();
    // The next one has its turn when this one is kept.
    let (survey, _turn) = take(seat, turn, &read_scope, None).await?;
    let survey = seat.seen_lately().keep(end, (survey, begun), &seat.room, Instant::now());
    Ok(Look { place, survey, read_scope })
}
