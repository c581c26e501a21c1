//! What this process remembers of one slot, of one source, and of one status that a template writes. A method that changes a
//! record says what has happened.

use jiff::Timestamp;

use super::{Attempt, Compared, Differed, NotKept, Repairs, Spread, WriteFault};
use crate::names::NamespacedName;

/// The time of the next attempt where that is due.
const DUE: Timestamp = Timestamp::MIN;

/// What is remembered of one slot. For a minute after a large spread there are tens of thousands, so rare
/// fields are boxed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMemory {
    attempt: Option<Box<Attempt>>,
    repairs: Option<Repairs>,
    spread: Option<Spread>,
    not_kept: Option<Box<NotKept>>,
    /// What its last examination found, where that was a difference.
    differed: Option<Box<Differed>>,
}

impl SlotMemory {
    pub(super) const NOTHING: &Self =
        &Self { attempt: None, repairs: None, spread: None, not_kept: None, differed: None };

    /// The last attempt to write the copy, if it failed.
    pub fn attempt(&self) -> Option<&Attempt> {
        self.attempt.as_deref()
    }

    /// The recent writes, so that a fight with another writer is noticed.
    pub fn repairs(&self) -> Option<&Repairs> {
        self.repairs.as_ref()
    }

    /// The latest time that the copy followed its source, if that was recently.
    pub fn spread(&self) -> Option<Spread> {
        self.spread
    }

    /// The copy followed its source.
    pub fn followed(&mut self, spread: Spread) {
        self.spread = Some(spread);
    }

    /// What the API server does not keep of the object.
    pub fn not_kept(&self) -> Option<&NotKept> {
        self.not_kept.as_deref()
    }

    /// The object was written: the recent writes with this one, and, where the answer was read back, the fields of it that
    /// the API server does not keep and what stands for the object that is there now ([`Compared::object`]).
    pub fn written(&mut self, repairs: Repairs, made: Option<(Vec<String>, u64)>) {
        if let Some((not_kept, object)) = made {
            self.not_kept = NotKept::of(&repairs.digest, not_kept);
            self.differed = self.differed.take().and_then(|last| last.written(object)).map(Box::new);
        }
        self.repairs = Some(repairs);
    }

    /// An attempt to write has failed.
    pub fn failed(&mut self, attempt: Attempt) {
        self.attempt = Some(Box::new(attempt));
    }

    /// The last attempt does not count any more.
    pub fn forget_attempt(&mut self) -> Option<Box<Attempt>> {
        self.attempt.take()
    }

    /// An object of this rule or template is gone, and with it what it held: a refused write of that rule is due at once.
    pub(super) fn freed(&mut self, rule: &NamespacedName) {
        if let Some(last) = self.attempt.as_deref_mut()
            && last.may_pass()
            && last.rule.as_ref() == Some(rule)
        {
            last.retry_at = DUE;
        }
    }

    /// Whether a refused write is due since another object is gone.
    pub(super) fn is_due(&self) -> bool {
        self.attempt().is_some_and(|last| last.retry_at == DUE)
    }

    /// The object was examined: `differs` unless a write is known to be to no avail, or else the API server does not keep
    /// these fields of the content of this digest. Returns whether it differs.
    pub fn examined(
        &mut self,
        digest: &str,
        (differs, compared): (bool, Option<Compared>),
        not_kept: Vec<String>,
    ) -> bool {
        let is_vain = self.differed.as_deref().is_some_and(|last| last.is_vain(compared));
        if differs && !is_vain {
            self.differed = compared.map(|compared| Box::new(Differed::new(compared)));
            return true;
        }
        self.not_kept = NotKept::of(digest, not_kept);
        false
    }

    /// The object has all that it should have.
    pub fn all_kept(&mut self) {
        self.not_kept = None;
    }

    /// The object is gone, and with it what the API server made of it.
    pub(super) fn gone(&mut self) {
        (self.not_kept, self.differed) = (None, None);
    }

    /// Drops the recent writes if they are over, and the latest spread if the source has calmed down.
    pub(super) fn expire(
        &mut self,
        is_over: impl FnOnce(&Repairs) -> bool,
        is_calm: impl FnOnce(&Spread) -> bool,
    ) {
        self.repairs.take_if(|repairs| is_over(repairs));
        self.spread.take_if(|spread| is_calm(spread));
    }
}

/// What is remembered of a status that a template writes, where that template also reads fields of it that other templates write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusMemory {
    others: u64,
    repairs: Repairs,
}

impl StatusMemory {
    pub(super) fn new(others: u64, repairs: Repairs) -> Self {
        Self { others, repairs }
    }

    /// What the others had written when this was last looked at, as a hash.
    pub fn others(&self) -> u64 {
        self.others
    }

    /// The writes that followed a change of that.
    pub fn repairs(&self) -> &Repairs {
        &self.repairs
    }
}

/// What is remembered of one ConfigMap or Secret that rules copy or workloads use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMemory {
    unread: Option<(WriteFault, String)>,
}

impl SourceMemory {
    pub(super) const NOTHING: &Self = &Self { unread: None };

    /// Why its content could not be read the last time, and a message.
    pub fn unread(&self) -> Option<&(WriteFault, String)> {
        self.unread.as_ref()
    }

    /// Its content was read.
    pub(super) fn read(&mut self) {
        self.unread = None;
    }

    /// Its content could not be read, and why.
    pub(super) fn unreadable(&mut self, why: (WriteFault, String)) {
        self.unread = Some(why);
    }

    /// It has changed, and may be readable now.
    pub(super) fn changed(&mut self) {
        self.unread = None;
    }
}
