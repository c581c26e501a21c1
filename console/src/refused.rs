//! Tokens that the API server refused recently, so that the console does not ask about them again.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::token::TokenId;

/// How long a refusal is remembered.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How many refusals are remembered.
const MOST: usize = 1_000;

/// The refused tokens, each with the time of its refusal.
#[derive(Default)]
pub(super) struct Refused(Mutex<BTreeMap<TokenId, Instant>>);

impl Refused {
    /// Remembers a refusal. If too many are remembered, the new refusal replaces the oldest.
    pub(super) fn note(&self, id: TokenId, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, at| now.saturating_duration_since(*at) < REMEMBERED);
        if all.len() >= MOST {
            let oldest = all.iter().min_by_key(|(_, at)| **at).map(|(id, _)| *id);
            oldest.and_then(|id| all.remove(&id));
        }
        all.insert(id, now);
    }

    /// Whether the token was refused recently.
    pub(super) fn holds(&self, id: &TokenId, now: Instant) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(id).is_some_and(|at| now.saturating_duration_since(*at) < REMEMBERED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;

    #[test]
    fn a_refusal_is_remembered_for_a_moment_and_not_too_many_are() {
        let (refused, now) = (Refused::default(), Instant::now());
        let id = |number: usize| Token::read(&number.to_string()).unwrap().id();
        refused.note(id(0), now);
        assert!(refused.holds(&id(0), now) && !refused.holds(&id(1), now));
        assert!(!refused.holds(&id(0), now + REMEMBERED));
        let later = now + Duration::from_secs(1);
        (1..=MOST).for_each(|number| refused.note(id(number), later));
        assert!(!refused.holds(&id(0), later) && refused.holds(&id(MOST), later));
        assert_eq!(refused.0.lock().unwrap().len(), MOST);
    }
}
