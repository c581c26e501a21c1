//! A cache of surveys. Each survey holds the names and states of everything that its caller may see, so the
//! cache keeps few surveys, within a memory limit.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use copyrator_cli::survey::Survey;

/// The age up to which any survey is used, even if the survey took little time, or the request wants a new
/// survey.
pub(super) const FRESH: Duration = Duration::from_secs(5);
/// A survey may be used up to an age of this many times its duration, so that surveys take a twentieth of the
/// time at most.
const TIMES: u32 = 20;
/// The maximum age of a survey.
const OLDEST: Duration = Duration::from_secs(60);
/// How many surveys are kept per caller.
const KEPT: usize = 4;
/// The memory limit of kept surveys, in KiB, over all callers.
const ROOM: usize = 256 << 10;
/// The estimated bytes of an object, or of the plan of a copy (measured: some 2,000 for a copy and its plan).
const EACH: usize = 1000;

/// Limits over all callers: how many surveys run at once, and how much memory kept surveys use.
#[derive(Clone)]
pub(super) struct Room {
    pub(super) at_once: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

impl Room {
    pub(super) fn new(at_once: usize) -> Self {
        Self { at_once: Arc::new(Semaphore::new(at_once)), kept: Arc::new(Semaphore::new(ROOM)) }
    }
}

/// A survey, and the time until which it answers requests. Without room in the cache, a survey answers only
/// the request that made it.
pub(super) struct CachedSurvey {
    survey: Survey,
    /// When the survey began.
    pub(super) begun: Instant,
    /// Until when the survey may answer requests.
    until: Instant,
    /// The survey's share of the memory limit, if the survey is kept.
    _room: Option<OwnedSemaphorePermit>,
}

impl Deref for CachedSurvey {
    type Target = Survey;

    fn deref(&self) -> &Survey {
        &self.survey
    }
}

/// Surveys by the namespace that the caller's rights are limited to; `None`: everything that Copyrator reads.
#[derive(Default)]
pub(super) struct Surveys(BTreeMap<Option<Arc<str>>, Arc<CachedSurvey>>);

impl Surveys {
    /// Returns a survey that is not old. For a request that wants a new survey, the survey must have begun
    /// less than [`FRESH`] before the request.
    pub(super) fn fresh(
        &mut self,
        end: &Option<Arc<str>>,
        anew: Option<Instant>,
        now: Instant,
    ) -> Option<Arc<CachedSurvey>> {
        self.forget_old(now);
        let is_fresh = |cached: &&Arc<CachedSurvey>| {
            anew.is_none_or(|arrived| arrived.saturating_duration_since(cached.begun) < FRESH)
        };
        self.0.get(end).filter(is_fresh).cloned()
    }

    /// Drops old surveys.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.0.retain(|_, cached| now < cached.until);
    }

    /// Keeps a survey that began at a time and is complete now, unless the cache has no room for the survey.
    /// If the caller has too many surveys, the new survey replaces the oldest.
    pub(super) fn keep(
        &mut self,
        end: Option<Arc<str>>,
        survey: Survey,
        begun: Instant,
        room: &Room,
        now: Instant,
    ) -> Arc<CachedSurvey> {
        let until = begun + (now.saturating_duration_since(begun) * TIMES).clamp(FRESH, OLDEST);
        self.forget_old(now);
        // The previous survey frees its room.
        self.0.remove(&end);
        if self.0.len() >= KEPT {
            let oldest = self.0.iter().min_by_key(|(_, cached)| cached.begun).map(|(end, _)| end.clone());
            oldest.and_then(|end| self.0.remove(&end));
        }
        let held = kibibytes(&survey).and_then(|size| room.kept.clone().try_acquire_many_owned(size).ok());
        let is_kept = held.is_some();
        let cached = Arc::new(CachedSurvey { survey, begun, until, _room: held });
        if is_kept {
            self.0.insert(end, cached.clone());
        }
        cached
    }
}

/// About how much memory a survey takes.
fn kibibytes(survey: &Survey) -> Option<u32> {
    let world = &survey.world;
    let things = world.objects().count() + world.workloads().len() + survey.outlooks.len();
    let rendered = world.rendered_sizes().sum::<u64>();
    u32::try_from(((things * EACH) as u64 + rendered).div_ceil(1024).max(1)).ok()
}

#[cfg(test)]
mod tests {
    use copyrator_cli::installed::ReadScope;

    use super::*;
    use crate::{
        surveying::{take, turn},
        tests::{Run, small_cluster},
    };

    #[tokio::test]
    async fn a_survey_is_good_for_as_long_as_it_is_dear_unless_somebody_looks_anew_or_there_is_no_room() {
        let (run, begun) = (Run::over(small_cluster), Instant::now());
        let seat = &run.seat;
        let after = |seconds| begun + Duration::from_secs(seconds);
        let none = Room { kept: Arc::new(Semaphore::new(0)), ..seat.room.clone() };
        for (took, room, good_for) in [
            (0, &seat.room, Some(5)),
            (2, &seat.room, Some(40)),
            (30, &seat.room, Some(60)),
            (2, &none, None),
        ] {
            let mut surveys = Surveys::default();
            let turn = turn(seat).await.unwrap();
            let (survey, _turn) = take(seat, turn, &ReadScope::Everywhere, None).await.unwrap();
            surveys.keep(None, survey, begun, room, after(took));
            let mut is_good = |second, is_anew: bool| {
                let anew = is_anew.then(|| after(second));
                surveys.fresh(&None, anew, after(second)).is_some()
            };
            let Some(good_for) = good_for else {
                assert!(!is_good(0, false), "there is no room");
                continue;
            };
            assert!(is_good(4, true) && (good_for == 5 || !is_good(5, true)), "a new look");
            assert!(is_good(good_for - 1, false) && !is_good(good_for, false), "{took}");
        }
    }
}
