//! What the latest writes of copies resulted in.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use crate::names::NamespacedName;

/// The last failed attempt to write an object. It is kept until a write succeeds or the object changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The edition of the object that the attempt was planned for ([`super::ObjectFacts::edition`]); `None` where the object did
    /// not exist.
    pub version: Option<Box<str>>,
    /// Digest of the content that was to be written; `None` where an orphaned object was to be marked for its removal.
    pub digest: Option<String>,
    /// Whether only deleting and recreating the object can write it (an immutable object, a changed Secret
    /// type).
    pub replace: bool,
    /// Why it was not written.
    pub reason: WriteFault,
    /// What the API server said, without values.
    pub message: String,
    /// The rule or template that declares the object; `None` where an orphaned object was to be marked for its removal.
    pub rule: Option<NamespacedName>,
    /// When the first attempt failed to write this content over this edition.
    pub since: Timestamp,
    /// When the next attempt may be made.
    pub retry_at: Timestamp,
    /// How long the waits between attempts become.
    pub every: Duration,
    /// Where a policy refused the write: stands for the policies that judged it
    /// ([`crate::plan::copy::judged_by`]). The write is tried again when they change.
    pub judged_by: Option<u64>,
}

impl Attempt {
    /// Whether the write may be accepted though nothing changes that is watched: a quota is raised, an admission policy goes.
    pub fn may_pass(&self) -> bool {
        matches!(self.reason, WriteFault::Refused | WriteFault::NoRoom | WriteFault::Conflict)
    }
}

/// What the API server does not keep of a content that it took. It is known until that content is written or examined again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotKept {
    /// Digest of the content that was written.
    pub digest: String,
    /// Paths of the fields, not empty.
    pub fields: Vec<String>,
}

impl NotKept {
    /// That these fields of a content are not kept; `None` where there are none.
    pub fn of(digest: &str, fields: Vec<String>) -> Option<Box<Self>> {
        (!fields.is_empty()).then(|| Box::new(Self { digest: digest.to_owned(), fields }))
    }
}

/// An object beside what a dry run made of it, as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The object without its status and what changes with every write.
    pub object: u64,
    /// The same of the answer to the dry run of our write.
    pub applied: u64,
}

/// The last examination of an object at which a dry run differed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differed {
    compared: Compared,
    /// Whether the write that followed has left the object as it was: a dry run does not show what is lost when the object is stored.
    is_vain: bool,
}

impl Differed {
    /// A difference that has just been found.
    pub fn new(compared: Compared) -> Self {
        Self { compared, is_vain: false }
    }

    /// After a write that has left this object; `None` where it has changed something.
    pub fn written(self, object: u64) -> Option<Self> {
        (self.compared.object == object).then_some(Self { is_vain: true, ..self })
    }

    /// Whether a write is known to be to no avail where this is compared.
    pub fn is_vain(&self, compared: Option<Compared>) -> bool {
        self.is_vain && Some(self.compared) == compared
    }
}

/// Why something could not be written, or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// Copyrator's own account lacks the right: the administrator of the cluster mends that.
    Forbidden,
    /// It passes, or the API server says nothing useful of it.
    Failed,
    /// The API server, or a webhook, refused it, and may take it another time.
    Refused,
    /// A quota, a port or an address is used up, which another object may hold. Users read the word of `Refused`.
    NoRoom,
    /// The API server refused it, and takes it only if the object, what declares it, or the definition of its kind changes. Users read
    /// the word of `Refused`.
    Unfit,
    /// A ConfigPolicy refuses it.
    RefusedByPolicy,
    /// It is larger than the API server takes.
    TooLarge,
    /// Something that Copyrator does not look at has the name.
    Conflict,
}

impl WriteFault {
    /// The word for statuses and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::Failed => "Failed",
            Self::Refused | Self::NoRoom | Self::Unfit => "Refused",
            Self::RefusedByPolicy => "RefusedByPolicy",
            Self::TooLarge => "TooLarge",
            Self::Conflict => "Conflict",
        }
    }
}

impl fmt::Display for WriteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Successive writes of one content to one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repairs {
    /// Digest of the content that was written.
    pub digest: String,
    /// How many of them changed an existing object.
    pub count: u32,
    /// When counting began.
    pub since: Timestamp,
    /// After too many writes, when the next one may be made.
    pub not_before: Option<Timestamp>,
    /// How many of them created the object, including the first time. While the object is missing, any rule
    /// may take its place.
    pub made: u32,
    /// When the last creation was.
    pub made_at: Timestamp,
}

impl Repairs {
    /// None yet of this content.
    pub fn none(digest: &str, now: Timestamp) -> Self {
        Self { digest: digest.to_owned(), count: 0, since: now, not_before: None, made: 0, made_at: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody who brings an object back to what it was before our write changes nothing by it but that it is written again.
    #[test]
    fn a_write_is_in_vain_only_where_it_has_left_the_very_object_that_was_compared() {
        let compared = Compared { object: 1, applied: 2 };
        let found = Differed::new(compared);
        assert!(!found.is_vain(Some(compared)), "it has not been tried");
        assert_eq!(found.written(3), None, "the write has changed the object");
        let tried = found.written(1).unwrap();
        assert!(tried.is_vain(Some(compared)));
        for other in [Compared { object: 3, ..compared }, Compared { applied: 3, ..compared }] {
            assert!(!tried.is_vain(Some(other)), "{other:?}: object, text or policy has changed");
        }
        assert!(!tried.is_vain(None), "the API server would refuse the write");
    }
}
