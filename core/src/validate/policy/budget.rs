//! The budget for judging one write. The cost of expressions, schemas and regular expressions is estimated
//! before they run, and deducted from the budget. Checks of formats have bounds of their own; their cost is
//! deducted only from a brief budget.

use std::ops::{Deref, DerefMut};

use copyrator_cel::Exhausted;

/// The time budget of all policies together for one write, in nanoseconds of an ordinary core. The budget
/// leaves time to answer: without an answer in time, a policy with `failurePolicy: Ignore` lets the write
/// pass.
pub(super) const TIME: u64 = 500_000_000;
/// The bytes that evaluating one expression may allocate: many reviews share the webhook's memory.
const MEMORY: u64 = 24 << 20;
/// The time budget, in nanoseconds, for judging on the thread that reads requests, while other requests wait.
const BRIEF_TIME: u64 = 1_000_000;
const BRIEF_MEMORY: u64 = 1 << 20;

/// The remaining budget of one write.
#[derive(Debug)]
pub(super) struct Budget {
    left: copyrator_cel::Budget,
    is_brief: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: copyrator_cel::Budget::new(TIME, MEMORY), is_brief: false }
    }
}

impl Deref for Budget {
    type Target = copyrator_cel::Budget;

    fn deref(&self) -> &copyrator_cel::Budget {
        &self.left
    }
}

impl DerefMut for Budget {
    fn deref_mut(&mut self) -> &mut copyrator_cel::Budget {
        &mut self.left
    }
}

impl Budget {
    /// Returns a budget of a millisecond, for judging while other requests wait. If this budget does not
    /// suffice, the caller discards the results.
    pub(super) fn brief() -> Self {
        Self { left: copyrator_cel::Budget::new(BRIEF_TIME, BRIEF_MEMORY), is_brief: true }
    }

    /// Pays for a check with bounds of its own, if the budget is brief.
    pub(super) fn spend_if_brief(&mut self, time: u64) -> Result<(), Exhausted> {
        if self.is_brief { self.spend(time) } else { Ok(()) }
    }
}
