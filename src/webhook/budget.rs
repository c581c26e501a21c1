//! A budget for the questions that reviews ask the API server. A user who writes much in one namespace, or
//! claims to, leaves the other namespaces' budgets alone, and all reviews together ask no more than an API
//! server bears beside its work.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::{
    access::{AskError, Authorizer},
    authority::Question,
};

/// For one namespace: a folder of two hundred rules at once, and then some thirty rules per second.
const OF_NAMESPACE: Rate = Rate { at_once: 1024.0, a_second: 128.0 };
/// For all namespaces together.
const OF_ALL: Rate = Rate { at_once: 4096.0, a_second: 1024.0 };
/// How many namespaces have their own bucket. A bucket is dropped once it is full again.
const MOST_NAMESPACES: usize = 1024;

#[derive(Clone, Copy)]
struct Rate {
    at_once: f64,
    a_second: f64,
}

/// The questions that are left at a certain time.
#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    questions: f64,
    at: Instant,
}

impl TokenBucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self { questions: rate.at_once, at: now }
    }

    fn at(self, rate: Rate, now: Instant) -> Self {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        Self { questions: (self.questions + since * rate.a_second).min(rate.at_once), at: now }
    }
}

#[derive(Debug, Default)]
struct Budgets {
    all: Option<TokenBucket>,
    namespaces: HashMap<Box<str>, TokenBucket>,
}

impl Budgets {
    /// Takes one question from a namespace's budget; `false` if none is left.
    fn take(&mut self, namespace: &str, now: Instant) -> bool {
        if !self.namespaces.contains_key(namespace) && self.namespaces.len() >= MOST_NAMESPACES {
            self.namespaces.retain(|_, left| left.at(OF_NAMESPACE, now).questions < OF_NAMESPACE.at_once);
            if self.namespaces.len() >= MOST_NAMESPACES {
                return false;
            }
        }
        let left = self.namespaces.entry(namespace.into()).or_insert(TokenBucket::full(OF_NAMESPACE, now));
        let all = self.all.get_or_insert(TokenBucket::full(OF_ALL, now));
        (*left, *all) = (left.at(OF_NAMESPACE, now), all.at(OF_ALL, now));
        if left.questions < 1.0 || all.questions < 1.0 {
            return false;
        }
        left.questions -= 1.0;
        all.questions -= 1.0;
        true
    }
}

/// The budgets of all namespaces. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget(Arc<Mutex<Budgets>>);

impl Budget {
    /// Questions on behalf of one namespace.
    pub(super) fn of<'a>(&'a self, namespace: &'a str, authorizer: &'a dyn Authorizer) -> Metered<'a> {
        Metered { budget: self, namespace, authorizer }
    }
}

/// Asks as long as the namespace has a budget.
pub(super) struct Metered<'a> {
    budget: &'a Budget,
    namespace: &'a str,
    authorizer: &'a dyn Authorizer,
}

impl Authorizer for Metered<'_> {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        let mut budgets = self.budget.0.lock().unwrap_or_else(PoisonError::into_inner);
        match budgets.take(self.namespace, Instant::now()) {
            true => self.authorizer.allowed(question),
            false => Box::pin(std::future::ready(Err(AskError::OverBudget))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
