//! The surveys of the last seconds. Each holds the names and states of everything that its caller may see, so few are kept.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::cli::survey::Survey;

/// How old a survey may be.
const FRESH: Duration = Duration::from_secs(5);
/// How many surveys are kept.
const KEPT: usize = 4;

/// Surveys by the namespace that the caller's rights end at; `None`: everything that Copyrator looks at.
#[derive(Default)]
pub(super) struct Surveys(BTreeMap<Option<Arc<str>>, (Instant, Arc<Survey>)>);

impl Surveys {
    /// A survey that is not old.
    pub(super) fn fresh(&mut self, end: &Option<Arc<str>>, now: Instant) -> Option<Arc<Survey>> {
        self.forget_old(now);
        self.0.get(end).map(|(_, survey)| survey.clone())
    }

    /// Keeps none that is old.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.0.retain(|_, (taken, _)| now.saturating_duration_since(*taken) < FRESH);
    }

    /// Keeps a survey, in the place of the oldest where there are too many.
    pub(super) fn keep(&mut self, end: Option<Arc<str>>, survey: Survey, now: Instant) -> Arc<Survey> {
        let survey = Arc::new(survey);
        if self.0.len() >= KEPT {
            let oldest = self.0.iter().min_by_key(|(_, (taken, _))| *taken).map(|(end, _)| end.clone());
            oldest.and_then(|end| self.0.remove(&end));
        }
        self.0.insert(end, (now, survey.clone()));
        survey
    }
}
