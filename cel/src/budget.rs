//! What evaluating may cost. The cost of a step is known before the step is taken, and taken from a budget.

use thiserror::Error;

/// More would be spent than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("costs too much")]
pub struct Exhausted;

/// The time and memory that are left.
#[derive(Debug)]
pub struct Budget {
    time: u64,
    memory: u64,
    /// What each expression may make, in bytes.
    most_memory: u64,
    fell_short: bool,
}

impl Budget {
    /// A budget of `time` nanoseconds of an ordinary core for everything that is paid for by it, and of
    /// `memory` bytes for what each expression makes.
    pub fn new(time: u64, memory: u64) -> Self {
        Self { time, memory, most_memory: memory, fell_short: false }
    }

    /// Whether anything could not be paid for.
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

    /// Pays for `time` nanoseconds of work, before it is done.
    ///
    /// # Errors
    /// There is not so much time left, and none from now on.
    pub fn spend(&mut self, time: u64) -> Result<(), Exhausted> {
        // Nothing left is too little, so that an exhausted budget has fallen short.
        let left = self.time.checked_sub(time).filter(|left| *left > 0);
        self.time = left.unwrap_or(0);
        self.paid(left.is_some())
    }

    /// The next expression: what the last one made is gone.
    pub(crate) fn begin(&mut self) {
        self.memory = self.most_memory;
    }

    /// The memory that is left, for [`Budget::forget`].
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// What was made since then is gone.
    pub(crate) fn forget(&mut self, memory: u64) {
        self.memory = memory;
    }

    /// Pays for this many bytes, before they are made.
    pub(crate) fn fill(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let left = self.memory.checked_sub(bytes);
        self.memory = left.unwrap_or(0);
        self.paid(left.is_some())
    }

    /// Whether there is so much memory, before it is made.
    pub(crate) fn has_room(&mut self, bytes: u64) -> Result<(), Exhausted> {
        self.paid(bytes <= self.memory)
    }

    fn paid(&mut self, is_paid: bool) -> Result<(), Exhausted> {
        self.fell_short |= !is_paid;
        if is_paid { Ok(()) } else { Err(Exhausted) }
    }
}
