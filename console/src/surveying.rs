//! Takes surveys in turn: one at a time per holder of tokens, and few over all callers. Each survey runs on a
//! blocking thread, since planning a large cluster takes a second and would delay other requests.

use std::{panic::resume_unwind, time::Duration};

use copyrator_cli::{
    files::Item,
    installed::ReadScope,
    survey::{Survey, SurveyError, SurveyMode, SurveyTarget, survey},
    terminal::with_distinct_causes,
};
use http::StatusCode;
use tokio::{
    runtime::Handle,
    sync::{OwnedMutexGuard, OwnedSemaphorePermit},
    task::spawn_blocking,
    time::timeout,
};

use super::{problem::Problem, seat::Seat};
use crate::read::listing::ListError;

/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// The turn of one request to survey the cluster.
pub(super) struct Turn {
    _of_caller: OwnedMutexGuard<()>,
    _of_all: Option<OwnedSemaphorePermit>,
}

/// Waits for the turn of this caller.
///
/// # Errors
/// Other surveys take too long.
pub(super) async fn turn(seat: &Seat) -> Result<Turn, Problem> {
    let taken = async {
        let of_caller = seat.turn.clone().lock_owned().await;
        // The semaphore is never closed.
        Turn { _of_caller: of_caller, _of_all: seat.room.at_once.clone().acquire_owned().await.ok() }
    };
    timeout(PATIENCE, taken)
        .await
        .map_err(|_| busy("the console is already reading the cluster for other requests"))
}

/// Surveys the cluster as the caller sees it, with `files` applied over it. Also returns the turn, for which
/// the next request waits.
///
/// # Errors
/// The survey failed, or the console or the seat ends.
pub(super) async fn take(
    seat: &Seat,
    turn: Turn,
    read_scope: &ReadScope,
    files: Option<(Vec<Item>, Option<String>)>,
) -> Result<(Survey, Turn), Problem> {
    let (client, installed) = (seat.client.clone(), seat.installed.clone());
    let (read_scope, ended) = (read_scope.clone(), seat.ended.clone());
    let runtime = Handle::current();
    let look = async move {
        let (files, place) = files.unzip();
        let place = place.flatten();
        let mode = match files {
            None => SurveyMode::Current(None),
            Some(files) => SurveyMode::WithFiles(files, place.as_deref()),
        };
        let target = SurveyTarget { installed: &installed, read_scope: &read_scope };
        let taken = survey(&client, target, mode);
        tokio::select! {
            () = ended.cancelled() => None,
            taken = taken => Some(taken),
        }
    };
    // The survey keeps its turn until it ends, even if the request is gone.
    let looked = spawn_blocking(move || {
        let taken = runtime.block_on(look);
        taken.map(|taken| taken.map(|survey| (survey, turn)))
    });
    match looked.await {
        Ok(Some(taken)) => taken.map_err(refused),
        Ok(None) => Err(busy("the console is shutting down, or another user has taken this session's place")),
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => {
                Err(busy("the console is shutting down, or another user has taken this session's place"))
            }
        },
    }
}

fn busy(what: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{what}: try again in a moment"))
}

/// The problem for a survey that failed.
pub(crate) fn refused(error: SurveyError) -> Problem {
    match error {
        SurveyError::Forbidden(message) => Problem::new(StatusCode::FORBIDDEN, message),
        SurveyError::List(ListError::Failed { code, .. }) => {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
            Problem::new(code, with_distinct_causes(&error))
        }
        error => Problem::of(&error),
    }
}
