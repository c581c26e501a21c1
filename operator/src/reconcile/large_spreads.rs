//! Large spreads: sources that are large for so many targets. Each large spread is reported once, when a
//! status that mentions the spread is written.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::names::Declarer;

/// The result of writing a planned status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusWrite {
    /// The object has this status already.
    Unchanged,
    /// The status was written now.
    Written,
    /// The status could not be written; a later attempt follows.
    Failed,
}

/// The rules whose large spread was reported, by this leader or, according to their statuses, by an earlier
/// leader.
#[derive(Debug, Default)]
pub(super) struct LargeSpreads(Mutex<BTreeSet<Declarer>>);

impl LargeSpreads {
    /// Whether to report a rule's large spread now. `has_one`: whether the planned status mentions a large
    /// spread. `status`: the result of writing the planned status.
    pub(super) fn is_news(&self, rule: &Declarer, has_one: bool, status: StatusWrite) -> bool {
        let mut told = self.told();
        match (has_one, status) {
            (false, _) => {
                told.remove(rule);
                false
            }
            (true, StatusWrite::Failed) => false,
            (true, StatusWrite::Unchanged) => {
                told.insert(rule.clone());
                false
            }
            (true, StatusWrite::Written) => told.insert(rule.clone()),
        }
    }

    /// Forgets a rule that is gone.
    pub(super) fn forget(&self, rule: &Declarer) {
        self.told().remove(rule);
    }

    /// Forgets all rules: a different process leads now.
    pub(super) fn clear(&self) {
        self.told().clear();
    }

    fn told(&self) -> MutexGuard<'_, BTreeSet<Declarer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{StatusWrite::*, *};

    /// What is told of one rule, in the order of these statuses: whether each has a large spread, and what became of it.
    fn told<const N: usize>(statuses: [(bool, StatusWrite); N]) -> [bool; N] {
        let (spreads, rule) = (LargeSpreads::default(), Declarer::rule("home", "rule"));
        statuses.map(|(has_one, status)| spreads.is_news(&rule, has_one, status))
    }

    #[test]
    fn it_is_told_once_as_long_as_it_is_there() {
        assert_eq!(told([(true, Written), (true, Written), (true, Unchanged)]), [true, false, false]);
        let back = [(true, Written), (false, Written), (true, Written)];
        assert_eq!(told(back), [true, false, true]);
        assert_eq!(told([(false, Written), (false, Unchanged)]), [false, false]);
    }

    #[test]
    fn it_comes_with_the_status_also_where_that_was_written_at_the_second_try() {
        assert_eq!(told([(true, Failed), (true, Failed), (true, Written)]), [false, false, true]);
    }

    #[test]
    fn what_an_earlier_leader_wrote_is_not_told_again() {
        assert_eq!(told([(true, Unchanged), (true, Written)]), [false, false]);
    }

    #[test]
    fn a_rule_that_is_made_anew_and_another_leader_tell_it_again() {
        let (spreads, rule) = (LargeSpreads::default(), Declarer::rule("home", "rule"));
        assert!(spreads.is_news(&rule, true, Written));
        spreads.forget(&rule);
        assert!(spreads.is_news(&rule, true, Written));
        spreads.clear();
        assert!(spreads.is_news(&rule, true, Written));
        assert!(spreads.is_news(&Declarer::rule("home", "other"), true, Written));
    }
}
