//! The cost of judging. Formats have bounds of their own, and are only counted where other requests wait. The
//! cost of expressions, schemas and regular expressions is estimated before they run, and taken from a
//! budget.

use std::ops::{Deref, DerefMut};

use copyrator_cel::Exhausted;

/// What all policies together may spend on one write, in nanoseconds of an ordinary core. It leaves time to
/// answer: without an answer in time, a policy with `failurePolicy: Ignore` lets the write pass.
pub(super) const TIME: u64 = 500_000_000;
/// The bytes that evaluating one expression may allocate: many reviews share the webhook's memory.
const MEMORY: u64 = 24 << 20;
/// The time budget where requests are read and others wait, in nanoseconds.
const BRIEF_TIME: u64 = 1_000_000;
const BRIEF_MEMORY: u64 = 1 << 20;

/// What is left to spend on one write.
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
    /// A millisecond, for a judgement that other requests wait for. If it is too short, nothing that was
    /// found counts.
    pub(super) fn brief() -> Self {
        Self { left: copyrator_cel::Budget::new(BRIEF_TIME, BRIEF_MEMORY), is_brief: true }
    }

    /// Pays for a check with bounds of its own, where other requests wait.
    pub(super) fn spend_if_brief(&mut self, time: u64) -> Result<(), Exhausted> {
        if self.is_brief { self.spend(time) } else { Ok(()) }
    }
}
