//! The mark with the removal policy of a copy: what happens when the copy is orphaned.

use std::time::Duration;

use crate::api::{DeletionPolicy, Span};

/// Suffix of a mark that is for one object only: the template's general policy differs, or may differ later.
const OWN: &str = "/object";

/// The removal policy of a copy: what happens when the copy is orphaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnRemoval {
    /// Copyrator deletes the copy when this grace period is over.
    Delete(Duration),
    /// The copy stays, as an ordinary object.
    Retain,
    /// Like `Retain`, whatever the rule declares later: the object existed before the rule adopted the
    /// object.
    Adopted,
}

impl OnRemoval {
    /// Builds the mark from a rule's policy and grace period. The mark has whole seconds, so half a second
    /// becomes one: `0s` would delete at once. A grace period that is too long is shortened to the longest
    /// readable period.
    pub fn new(policy: DeletionPolicy, grace: Duration) -> Self {
        const LONGEST: u64 = 100 * 366 * 24 * 3600;
        let seconds = grace.as_secs().saturating_add(u64::from(grace.subsec_nanos() > 0));
        match policy {
            DeletionPolicy::Delete => Self::Delete(Duration::from_secs(seconds.min(LONGEST))),
            DeletionPolicy::Retain => Self::Retain,
        }
    }

    /// Returns the gentler of two policies: `Retain`, or else the longer grace period.
    pub fn or_gentler(self, other: Self) -> Self {
        match (self, other) {
            (Self::Delete(one), Self::Delete(two)) => Self::Delete(one.max(two)),
            _ => Self::Retain,
        }
    }

    /// Reads the annotation's value, and whether it holds for this object only.
    pub(super) fn read(text: &str) -> (Option<Self>, bool) {
        match text.strip_suffix(OWN) {
            Some(own) => (Self::parse(own), true),
            None => (Self::parse(text), false),
        }
    }

    /// The annotation's value.
    pub fn written(self, is_own: bool) -> String {
        self.write() + if is_own { OWN } else { "" }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "Retain" => return Some(Self::Retain),
            "Adopted" => return Some(Self::Adopted),
            _ => {}
        }
        let grace = Span::new(text.strip_prefix("Delete/")?).get().ok()?;
        Some(Self::Delete(grace))
    }

    fn write(self) -> String {
        match self {
            Self::Retain => "Retain".into(),
            Self::Adopted => "Adopted".into(),
            Self::Delete(grace) => format!("Delete/{}", Span::from(grace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An earlier version of ours reads an unknown mark as no mark, and keeps the object.
    #[test]
    fn what_one_object_says_of_its_removal_is_read_back() {
        for (word, is_own, text) in [
            (OnRemoval::Retain, false, "Retain"),
            (OnRemoval::Adopted, false, "Adopted"),
            (OnRemoval::Retain, true, "Retain/object"),
            (OnRemoval::Delete(Duration::from_secs(300)), true, "Delete/5m/object"),
        ] {
            assert_eq!(word.written(is_own), text);
            assert_eq!(OnRemoval::read(text), (Some(word), is_own));
            assert_eq!(OnRemoval::parse(text).is_none(), is_own, "{text}");
        }
        assert_eq!(OnRemoval::read("Keep"), (None, false));
    }
}
