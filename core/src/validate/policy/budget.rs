//! What judging may cost. Formats have bounds of their own, and are counted only where others wait; what
//! expressions, schemas and regular expressions take is told before it is done, and taken from a budget.

use std::ops::{Deref, DerefMut};

use copyrator_cel::Exhausted;

/// What the policies may take together for one write, in nanoseconds of one ordinary core: where there is no
/// answer in time, a policy with `failurePolicy: Ignore` lets the write pass.
pub(super) const TIME: u64 = 500_000_000;
/// The bytes that may come into being while one expression is evaluated: many reviews share the webhook's
/// memory.
const MEMORY: u64 = 24 << 20;
/// The same for what is judged where requests are read, while others wait.
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
    /// For a judgement that others wait for: a millisecond. Where it falls short, nothing that was found
    /// counts.
    pub(super) fn brief() -> Self {
        Self { left: copyrator_cel::Budget::new(BRIEF_TIME, BRIEF_MEMORY), is_brief: true }
    }

    /// Pays for what has bounds of its own, where others wait.
    pub(super) fn spend_if_brief(&mut self, time: u64) -> Result<(), Exhausted> {
        if self.is_brief { self.spend(time) } else { Ok(()) }
    }
}
