//! What became of writes of copies a moment ago.

use jiff::Timestamp;

/// What became of the last attempt to write an object, kept until it succeeds or the object changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The version of the object that the attempt was decided on; `None` where it did not exist.
    pub resource_version: Option<Box<str>>,
    /// The content that was to be written.
    pub digest: String,
    /// Only deletion and creation anew can write it (an immutable object, a changed Secret type).
    pub replace: bool,
    /// One word from the documented list.
    pub reason: &'static str,
    /// What the API server said, without values.
    pub message: String,
    /// It is not tried again before.
    pub retry_at: Timestamp,
    /// What a policy refused was judged by this ([`crate::plan::copy::judged_by`]), and is tried again when
    /// that is not the same.
    pub judged_by: Option<u64>,
}

/// Writes of one content to one slot in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repairs {
    /// The content.
    pub digest: String,
    /// How many changed what was there.
    pub count: u32,
    /// Since when they are counted; where there were too many, when the next one may be.
    pub from: Timestamp,
    /// How many made it, its own first one among them: while it is missing its place is anybody's.
    pub made: u32,
    /// When the last of those was.
    pub made_at: Timestamp,
}
