//! The memory of this process about one slot, one source, and one status that a template writes. A method
//! that changes a record has the name of the event.

use jiff::Timestamp;

use super::{Attempt, Comparison, Differed, NotKept, Repairs, Spread, WriteFault};
use crate::names::Declarer;

/// The time of the next attempt if the attempt is due.
const DUE: Timestamp = Timestamp::MIN;

/// The memory of one slot. Rare fields are boxed, since for a minute after a large spread tens of thousands
/// of slots have a memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMemory {
    attempt: Option<Box<Attempt>>,
    repairs: Option<Repairs>,
    spread: Option<Spread>,
    not_kept: Option<Box<NotKept>>,
    /// The last examination, if it found a difference.
    differed: Option<Box<Differed>>,
}

impl SlotMemory {
    pub(super) const NOTHING: &Self =
        &Self { attempt: None, repairs: None, spread: None, not_kept: None, differed: None };

    /// The last attempt to write the copy, if it failed.
    pub fn attempt(&self) -> Option<&Attempt> {
        self.attempt.as_deref()
    }

    /// The recent writes, which reveal a fight with another writer.
    pub fn repairs(&self) -> Option<&Repairs> {
        self.repairs.as_ref()
    }

    /// The latest update of the copy from its source, if the update was recent.
    pub fn spread(&self) -> Option<Spread> {
        self.spread
    }

    /// Notes that the copy was updated from its source.
    pub fn followed(&mut self, spread: Spread) {
        self.spread = Some(spread);
    }

    /// The fields of the object that the API server does not keep.
    pub fn not_kept(&self) -> Option<&NotKept> {
        self.not_kept.as_deref()
    }

    /// Notes a write: the recent writes including this write and, if the reconciler read the answer, the
    /// fields that the API server does not keep and the hash of the new object ([`super::Compared::object`]).
    pub fn written(&mut self, repairs: Repairs, made: Option<(Vec<String>, u64)>) {
        if let Some((not_kept, object)) = made {
            self.not_kept = NotKept::of(&repairs.digest, not_kept);
            self.differed = self.differed.take().and_then(|last| last.written(object)).map(Box::new);
        }
        self.repairs = Some(repairs);
    }

    /// Notes a failed attempt to write.
    pub fn failed(&mut self, attempt: Attempt) {
        self.attempt = Some(Box::new(attempt));
    }

    /// Forgets the last attempt, and returns it.
    pub fn forget_attempt(&mut self) -> Option<Box<Attempt>> {
        self.attempt.take()
    }

    /// Makes a refused write of this rule or template due at once: another object of the rule or template is
    /// gone, which frees quota, ports and addresses.
    pub(super) fn freed(&mut self, rule: &Declarer) {
        if let Some(last) = self.attempt.as_deref_mut()
            && last.may_pass()
            && last.rule.as_ref() == Some(rule)
        {
            last.retry_at = DUE;
        }
    }

    /// Whether a refused write is due because another object of the rule or template is gone.
    pub(super) fn is_due(&self) -> bool {
        self.attempt().is_some_and(|last| last.retry_at == DUE)
    }

    /// Notes an examination. Returns whether the object differs and a write may correct the object. If no
    /// write can, notes the fields of this content that the API server does not keep.
    pub fn examined(&mut self, digest: &str, comparison: Comparison, not_kept: Vec<String>) -> bool {
        let Comparison { differs, compared } = comparison;
        let is_vain = self.differed.as_deref().is_some_and(|last| last.is_vain(compared));
        if differs && !is_vain {
            self.differed = compared.map(|compared| Box::new(Differed::new(compared)));
            return true;
        }
        self.not_kept = NotKept::of(digest, not_kept);
        false
    }

    /// Notes that the object has all fields that it should have.
    pub fn all_kept(&mut self) {
        self.not_kept = None;
    }

    /// Notes that the object is gone, and forgets the results of its writes and examinations.
    pub(super) fn gone(&mut self) {
        (self.not_kept, self.differed) = (None, None);
    }

    /// Drops the recent writes if `is_over` accepts them, and the latest spread if the source no longer
    /// changes (`is_calm`).
    pub(super) fn expire(
        &mut self,
        is_over: impl FnOnce(&Repairs) -> bool,
        is_calm: impl FnOnce(&Spread) -> bool,
    ) {
        self.repairs.take_if(|repairs| is_over(repairs));
        self.spread.take_if(|spread| is_calm(spread));
    }
}

/// The memory of a status that a template writes, if the template also reads status fields that other
/// templates write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusMemory {
    others: u64,
    repairs: Repairs,
}

impl StatusMemory {
    pub(super) fn new(others: u64, repairs: Repairs) -> Self {
        Self { others, repairs }
    }

    /// Hash of the status fields of other templates at the last look.
    pub fn others(&self) -> u64 {
        self.others
    }

    /// The writes that followed a change by the other templates.
    pub fn repairs(&self) -> &Repairs {
        &self.repairs
    }
}

/// The memory of one ConfigMap or Secret that rules copy or workloads use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMemory {
    unread: Option<(WriteFault, String)>,
}

impl SourceMemory {
    pub(super) const NOTHING: &Self = &Self { unread: None };

    /// Why the content of the source could not be read the last time, and a message.
    pub fn unread(&self) -> Option<&(WriteFault, String)> {
        self.unread.as_ref()
    }

    /// Notes that the content was read.
    pub(super) fn read(&mut self) {
        self.unread = None;
    }

    /// Notes why the content could not be read.
    pub(super) fn unreadable(&mut self, why: (WriteFault, String)) {
        self.unread = Some(why);
    }

    /// Notes that the object has changed, and may be readable now.
    pub(super) fn changed(&mut self) {
        self.unread = None;
    }
}
