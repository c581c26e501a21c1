//! Budget of time and memory for evaluations. Each step has a price, which the budget pays before the step.

use thiserror::Error;

/// The error for a step that costs more than the budget has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("costs too much")]
pub struct Exhausted;

/// The time and memory that are left.
#[derive(Debug)]
pub struct Budget {
    time: u64,
    memory: u64,
    /// Memory limit of each expression, in bytes.
    most_memory: u64,
    fell_short: bool,
}

impl Budget {
    /// Returns a budget of `time` nanoseconds of an ordinary core in total, and of `memory` bytes for the
    /// values that each expression makes.
    pub fn new(time: u64, memory: u64) -> Self {
        Self { time, memory, most_memory: memory, fell_short: false }
    }

    /// Whether any payment failed.
    pub fn fell_short(&self) -> bool {
        self.fell_short
    }

    /// Whether no time is left.
    pub fn is_exhausted(&self) -> bool {
        self.time == 0
    }

    /// The time that is left, in nanoseconds.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Pays for `time` nanoseconds of work, before the work is done.
    ///
    /// # Errors
    /// [`Exhausted`] if `time` is at least the time that is left; the budget then has no time left.
    pub fn spend(&mut self, time: u64) -> Result<(), Exhausted> {
        // A budget of exactly zero counts as exhausted.
        let left = self.time.checked_sub(time).filter(|left| *left > 0);
        self.time = left.unwrap_or(0);
        self.paid(left.is_some())
    }

    /// Restores the memory limit for the next expression: the values of the last expression are gone.
    pub(crate) fn begin(&mut self) {
        self.memory = self.most_memory;
    }

    /// The memory that is left, for [`Budget::forget`].
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Restores an earlier [`Budget::memory`]: the values that were made since then are gone.
    pub(crate) fn forget(&mut self, memory: u64) {
        self.memory = memory;
    }

    /// Pays for this many bytes of values.
    pub(crate) fn fill(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let left = self.memory.checked_sub(bytes);
        self.memory = left.unwrap_or(0);
        self.paid(left.is_some())
    }

    /// Checks, without paying, that this many bytes are left. A failed check makes [`Budget::fell_short`]
    /// true, like a failed payment.
    pub(crate) fn has_room(&mut self, bytes: u64) -> Result<(), Exhausted> {
        self.paid(bytes <= self.memory)
    }

    fn paid(&mut self, is_paid: bool) -> Result<(), Exhausted> {
        self.fell_short |= !is_paid;
        if is_paid { Ok(()) } else { Err(Exhausted) }
    }
}
