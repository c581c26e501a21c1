//! What judging may cost. Formats have bounds of their own, and are counted only where others wait; what
//! expressions, schemas and regular expressions take is told before it is done, and taken from a budget.

use super::pattern::Pattern;

/// What the policies may take together for one write, in nanoseconds of one ordinary core: where there is no
/// answer in time, a policy with `failurePolicy: Ignore` lets the write pass.
pub(super) const TIME: u64 = 500_000_000;
/// The bytes that may come into being while one expression is evaluated: many reviews share the webhook's
/// memory.
const MEMORY: u64 = 24 << 20;
/// The same for what is judged where requests are read, while others wait.
const BRIEF_TIME: u64 = 1_000_000;
const BRIEF_MEMORY: u64 = 1 << 20;
/// One search: its text is bound, its engine warmed.
const SEARCH: u64 = 200;

/// More would be spent than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

/// What is left to spend on one write.
#[derive(Debug)]
pub struct Budget {
    time: u64,
    memory: u64,
    is_brief: bool,
    fell_short: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self { time: TIME, memory: MEMORY, is_brief: false, fell_short: false }
    }
}

impl Budget {
    /// For a judgement that others wait for: a millisecond. Where it [falls short](Budget::fell_short),
    /// nothing that was found counts.
    pub fn brief() -> Self {
        Self { time: BRIEF_TIME, memory: BRIEF_MEMORY, is_brief: true, fell_short: false }
    }

    /// Whether anything could not be paid for.
    pub fn fell_short(&self) -> bool {
        self.fell_short
    }

    /// Whether something could not be paid for in time.
    pub(super) fn is_exhausted(&self) -> bool {
        self.time == 0
    }

    /// The time that is left.
    pub(super) fn time(&self) -> u64 {
        self.time
    }

    pub(super) fn spend(&mut self, time: u64) -> Result<(), Exhausted> {
        // Nothing left is too little, so that an exhausted budget has fallen short.
        let left = self.time.checked_sub(time).filter(|left| *left > 0);
        self.time = left.unwrap_or(0);
        self.paid(left.is_some())
    }

    /// Pays for what has bounds of its own, where others wait.
    pub(super) fn spend_if_brief(&mut self, time: u64) -> Result<(), Exhausted> {
        if self.is_brief { self.spend(time) } else { Ok(()) }
    }

    /// Pays for a search, before it is made.
    pub(super) fn search(&mut self, pattern: &Pattern, text: &str) -> Result<(), Exhausted> {
        self.spend(SEARCH.saturating_add(pattern.searching(text)))
    }

    /// The next expression: what the last one made is gone.
    pub(super) fn begin(&mut self) {
        self.memory = if self.is_brief { BRIEF_MEMORY } else { MEMORY };
    }

    /// The memory that is left, for [`Budget::forget`].
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// What was made since then is gone.
    pub(super) fn forget(&mut self, memory: u64) {
        self.memory = memory;
    }

    /// Pays for memory.
    pub(super) fn fill(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let left = self.memory.checked_sub(bytes);
        self.memory = left.unwrap_or(0);
        self.paid(left.is_some())
    }

    /// Whether there is so much memory, before it is made.
    pub(super) fn has_room(&mut self, bytes: u64) -> Result<(), Exhausted> {
        self.paid(bytes <= self.memory)
    }

    fn paid(&mut self, is_paid: bool) -> Result<(), Exhausted> {
        self.fell_short |= !is_paid;
        if is_paid { Ok(()) } else { Err(Exhausted) }
    }
}
