//! The results of the latest writes of copies.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use crate::names::Declarer;

/// The last failed attempt to write an object, kept until a write succeeds or the object changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The edition of the object that the attempt was planned for ([`super::ObjectFacts::edition`]); `None`
    /// if the object did not exist.
    pub version: Option<Box<str>>,
    /// Digest of the content that was to be written; `None` for an attempt to mark an orphaned object for its
    /// removal.
    pub digest: Option<String>,
    /// Whether only deleting and recreating the object can write it (an immutable object, a changed Secret
    /// type).
    pub replace: bool,
    /// Why the write failed.
    pub reason: WriteFault,
    /// The API server's message, without values.
    pub message: String,
    /// The rule or template that declares the object; `None` for an attempt to mark an orphaned object for
    /// its removal.
    pub rule: Option<Declarer>,
    /// When the first attempt failed to write this content over this edition.
    pub since: Timestamp,
    /// When the next attempt may be made.
    pub retry_at: Timestamp,
    /// The longest wait between attempts.
    pub every: Duration,
    /// If a policy refused the write: a hash of the policies and namespace labels
    /// ([`crate::plan::copy::judged_by`]). The write is tried again when they change.
    pub judged_by: Option<u64>,
}

impl Attempt {
    /// Whether a retry may succeed without any watched change, for example after a quota is raised or an
    /// admission policy is deleted.
    pub fn may_pass(&self) -> bool {
        matches!(self.reason, WriteFault::Refused | WriteFault::Conflict) || self.reason.lacks_room()
    }
}

/// Fields of accepted content that the API server does not keep. The list is known until that content is
/// written or examined again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotKept {
    /// Digest of the content that was written.
    pub digest: String,
    /// Paths of the fields, not empty.
    pub fields: Vec<String>,
}

impl NotKept {
    /// The record of these fields; `None` for an empty list.
    pub fn of(digest: &str, fields: Vec<String>) -> Option<Box<Self>> {
        (!fields.is_empty()).then(|| Box::new(Self { digest: digest.to_owned(), fields }))
    }
}

/// The hashes of an object and of the dry run's answer about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Hash of the object without its status and without the fields that change with every write.
    pub object: u64,
    /// Hash of the API server's answer to the dry run of our write.
    pub applied: u64,
}

/// The result of comparing an object with the dry run of our write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Whether our write would change the object.
    pub differs: bool,
    /// The compared hashes; `None` if the API server would refuse the write.
    pub compared: Option<Compared>,
}

/// The last examination of an object at which a dry run differed from the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differed {
    compared: Compared,
    /// Whether the write that followed left the object as it was: a dry run does not show which fields are
    /// lost when the object is stored.
    is_vain: bool,
}

impl Differed {
    /// A difference that has just been found.
    pub fn new(compared: Compared) -> Self {
        Self { compared, is_vain: false }
    }

    /// The record after a write, which left the object with this hash; `None` if the write changed the
    /// object.
    pub fn written(self, object: u64) -> Option<Self> {
        (self.compared.object == object).then_some(Self { is_vain: true, ..self })
    }

    /// Whether a write is known to change nothing, given the same comparison.
    pub fn is_vain(&self, compared: Option<Compared>) -> bool {
        self.is_vain && Some(self.compared) == compared
    }
}

/// Why an object could not be written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// Copyrator's own account lacks the right, which a cluster administrator must grant.
    Forbidden,
    /// The failure is temporary, or the API server does not explain it.
    Failed,
    /// The API server or a webhook refused the write, and may accept it later.
    Refused,
    /// A quota, port or address is used up, perhaps by a different object. Statuses use the word of
    /// `Refused`.
    NoRoom,
    /// A quota, port or address is used up, and a dry run shows that the object fits once its predecessor
    /// under another name is gone. Statuses use the word of `Refused`.
    RoomHeld,
    /// The API server refused the write, and accepts it only if the object, its rule or template, or the
    /// definition of its kind changes. Statuses use the word of `Refused`.
    Unfit,
    /// `Unfit`, because a field has the wrong type, or the kind has no such field.
    Mistyped,
    /// The write was not tried, because another object of the same instance is `Mistyped`. Statuses use the
    /// word of `Mistyped`.
    HeldBack,
    /// A ConfigPolicy refuses the write.
    RefusedByPolicy,
    /// The object is larger than the API server accepts.
    TooLarge,
    /// A different object has the name, and Copyrator must not overwrite that object.
    Conflict,
}

impl WriteFault {
    /// Whether a quota, a port or an address was used up.
    pub fn lacks_room(self) -> bool {
        matches!(self, Self::NoRoom | Self::RoomHeld)
    }

    /// The word for statuses and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::Failed => "Failed",
            Self::Refused | Self::NoRoom | Self::RoomHeld | Self::Unfit => "Refused",
            Self::Mistyped | Self::HeldBack => "TypeError",
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
    /// How many writes changed an existing object.
    pub count: u32,
    /// When counting began.
    pub since: Timestamp,
    /// After too many writes, when the next write may be made.
    pub not_before: Option<Timestamp>,
    /// How many writes created the object, including the first creation. While the object is missing, any
    /// rule may claim its place.
    pub made: u32,
    /// When the last creation was.
    pub made_at: Timestamp,
}

impl Repairs {
    /// A record without any write of this content.
    pub fn none(digest: &str, now: Timestamp) -> Self {
        Self { digest: digest.to_owned(), count: 0, since: now, not_before: None, made: 0, made_at: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer who restores the earlier version of an object only causes one further write.
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
