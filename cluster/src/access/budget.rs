//! Budgets for requests that namespaces cause, such as questions to the API server. A user who writes much in
//! one namespace, or claims to, does not use up other namespaces' budgets; a budget for all namespaces
//! together protects the API server.
//!
//! An admission review pays for each question before asking, and is refused when the budget is empty. The
//! reconciler pays after asking, since no user waits for the answer, and only for refused questions: a
//! namespace whose budget is overdrawn waits until the budget has refilled.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::time::Instant;

use super::{AskError, Authorizer};
use crate::authority::Question;

/// Budget of one namespace: two hundred rules at once, and some thirty rules per second afterwards.
const OF_NAMESPACE: Rate = Rate { at_once: 1024.0, a_second: 128.0 };
/// Budget of all namespaces together.
const OF_ALL: Rate = Rate { at_once: 4096.0, a_second: 1024.0 };
/// Number of namespaces that have their own bucket. A bucket that is full again is dropped.
const MOST_NAMESPACES: usize = 1024;

/// Size of a budget, and how fast it refills.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Size of a full budget.
    pub at_once: f64,
    /// Refill per second.
    pub a_second: f64,
}

impl Rate {
    /// Multiplies the rate by the number of namespaces that have their own bucket.
    fn of_many(self) -> Self {
        let many = MOST_NAMESPACES as f64;
        Self { at_once: self.at_once * many, a_second: self.a_second * many }
    }
}

/// The rest of a budget at a certain time, for example in questions; below zero if the budget is overdrawn.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    left: f64,
    at: Instant,
}

impl TokenBucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self { left: rate.at_once, at: now }
    }

    fn at(self, rate: Rate, now: Instant) -> Self {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        Self { left: (self.left + since * rate.a_second).min(rate.at_once), at: now }
    }

    /// Returns the time from `now` until the bucket is no longer overdrawn.
    fn owes(self, rate: Rate, now: Instant) -> Duration {
        Duration::from_secs_f64((-self.at(rate, now).left / rate.a_second).max(0.0))
    }
}

#[derive(Debug)]
struct Budgets {
    of_namespace: Rate,
    of_all: Rate,
    all: Option<TokenBucket>,
    namespaces: HashMap<Box<str>, TokenBucket>,
}

impl Default for Budgets {
    /// The budgets for questions.
    fn default() -> Self {
        Self { of_namespace: OF_NAMESPACE, of_all: OF_ALL, all: None, namespaces: HashMap::new() }
    }
}

impl Budgets {
    /// Returns the bucket of all namespaces together, and the bucket of this namespace; `None` for the latter
    /// if all [`MOST_NAMESPACES`] buckets are in use.
    fn buckets(&mut self, namespace: &str, now: Instant) -> (&mut TokenBucket, Option<&mut TokenBucket>) {
        let (of_namespace, of_all) = (self.of_namespace, self.of_all);
        if !self.namespaces.contains_key(namespace) && self.namespaces.len() >= MOST_NAMESPACES {
            self.namespaces.retain(|_, bucket| bucket.at(of_namespace, now).left < of_namespace.at_once);
        }
        let all = self.all.get_or_insert(TokenBucket::full(of_all, now));
        *all = all.at(of_all, now);
        if !self.namespaces.contains_key(namespace) && self.namespaces.len() >= MOST_NAMESPACES {
            return (all, None);
        }
        let own = self.namespaces.entry(namespace.into()).or_insert(TokenBucket::full(of_namespace, now));
        *own = own.at(of_namespace, now);
        (all, Some(own))
    }

    /// Takes one question from a namespace's budget; `false` if the budget is empty.
    fn take(&mut self, namespace: &str, now: Instant) -> bool {
        let (all, Some(own)) = self.buckets(namespace, now) else { return false };
        if own.left < 1.0 || all.left < 1.0 {
            return false;
        }
        own.left -= 1.0;
        all.left -= 1.0;
        true
    }

    /// Subtracts `spent` from a namespace's budget, even if less is left.
    fn charge(&mut self, namespace: &str, spent: f64, now: Instant) {
        let (all, own) = self.buckets(namespace, now);
        all.left -= spent;
        if let Some(own) = own {
            own.left -= spent;
        }
    }

    /// Returns how long from `now` two budgets are overdrawn: the namespace's, and that of all namespaces
    /// together.
    fn owed(&self, namespace: &str, now: Instant) -> (Duration, Duration) {
        let own = self.namespaces.get(namespace).map(|bucket| bucket.owes(self.of_namespace, now));
        let of_all = self.all.map(|all| all.owes(self.of_all, now));
        (own.unwrap_or_default(), of_all.unwrap_or_default())
    }
}

/// The budgets of all namespaces. Clones share the budgets.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<Mutex<Budgets>>);

impl Budget {
    /// Creates budgets with this rate for each namespace, and enough for a thousand namespaces together.
    pub fn of_each(of_namespace: Rate) -> Self {
        let of_all = of_namespace.of_many();
        Self(Arc::new(Mutex::new(Budgets { of_namespace, of_all, ..Budgets::default() })))
    }

    /// Returns an authorizer that charges its questions to one namespace's budget, and refuses questions when
    /// the budget is empty.
    pub fn of<'a>(&'a self, namespace: &'a str, authorizer: &'a dyn Authorizer) -> Metered<'a> {
        Metered { budget: self, namespace, authorizer }
    }

    /// Subtracts `spent` from a namespace's budget, even if less is left.
    pub fn charge(&self, namespace: &str, spent: f64) {
        self.budgets().charge(namespace, spent, Instant::now());
    }

    /// Returns how long two budgets stay overdrawn: the namespace's, and that of all namespaces together.
    pub fn owed(&self, namespace: &str) -> (Duration, Duration) {
        self.budgets().owed(namespace, Instant::now())
    }

    fn budgets(&self) -> MutexGuard<'_, Budgets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An authorizer that asks while the namespace's budget lasts.
pub struct Metered<'a> {
    budget: &'a Budget,
    namespace: &'a str,
    authorizer: &'a dyn Authorizer,
}

impl Authorizer for Metered<'_> {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        match self.budget.budgets().take(self.namespace, Instant::now()) {
            true => self.authorizer.allowed(question),
            false => Box::pin(std::future::ready(Err(AskError::OverBudget))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_namespace_takes_nothing_from_another_and_gets_its_own_back() {
        let (mut budgets, start) = (Budgets::default(), Instant::now());
        let taken = |budgets: &mut Budgets, namespace: &str, now| {
            (0..10_000).take_while(|_| budgets.take(namespace, now)).count()
        };
        assert_eq!(taken(&mut budgets, "loud", start), 1024);
        assert_eq!(taken(&mut budgets, "quiet", start), 1024);
        assert_eq!(taken(&mut budgets, "loud", start + Duration::from_secs(1)), 128);
        // All namespaces together.
        let many = (0..100).map(|at| taken(&mut budgets, &format!("n-{at}"), start + Duration::from_secs(1)));
        assert_eq!(many.sum::<usize>(), 4096 - 2 * 1024 + 1024 - 128);
    }

    #[test]
    fn no_more_namespaces_are_told_apart_than_there_is_room_for() {
        let (mut budgets, start) = (Budgets::default(), Instant::now());
        for at in 0..3 * MOST_NAMESPACES {
            budgets.take(&format!("n-{at}"), start);
        }
        assert_eq!(budgets.namespaces.len(), MOST_NAMESPACES);
        assert!(budgets.take("later", start + Duration::from_secs(1)), "places are free again");
    }

    #[test]
    fn what_was_charged_beyond_the_budget_is_owed_for_as_long_as_it_takes_to_come_back() {
        let (mut budgets, start) = (Budgets::default(), Instant::now());
        let none = (Duration::ZERO, Duration::ZERO);
        budgets.charge("loud", 1024.0, start);
        assert_eq!(budgets.owed("loud", start), none);
        budgets.charge("loud", 256.0, start);
        assert_eq!(budgets.owed("loud", start), (Duration::from_secs(2), Duration::ZERO));
        assert_eq!(budgets.owed("quiet", start), none);
        assert!(budgets.take("quiet", start));
        assert_eq!(budgets.owed("loud", start + Duration::from_secs(2)), none);
        // Too many namespaces for buckets of their own: all namespaces together pay.
        for at in 0..2 * MOST_NAMESPACES {
            budgets.charge(&format!("n-{at}"), 8.0, start);
        }
        assert!(budgets.owed("quiet", start).1 > Duration::from_secs(8));
    }
}
