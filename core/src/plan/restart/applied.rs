//! The record of the content that a workload or selected pods run, in a workload's label or in a monitor's
//! status, and how the record differs from the current content.

use jiff::Timestamp;

use super::{inputs::InputDigest, pods::Before};
use crate::{digest::DigestKey, model::digest_of};

/// A record: `<key id>.<digest>.<scope>`, followed by `.<seconds>`, a Unix time, while pods that began before
/// this time are still to be replaced one by one. A new leader continues by the time in the record. The time
/// also shows, after content has changed back half-way through a restart, that some pods run other content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applied<'a> {
    digest: &'a str,
    scope: Option<&'a str>,
    /// Which pods are still to be replaced.
    pub pending: Option<Before>,
    /// When we wrote the record (1 s resolution), if the API server gives the time.
    at: Option<Timestamp>,
}

/// How a record differs from the current content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordDiff {
    /// The record matches the current content.
    Nothing,
    /// The scope differs: other objects or keys are inputs now. Content may have changed too, but no
    /// timestamp shows a change. The reconciler writes the record again without a restart: editing a monitor
    /// must not restart workloads.
    Scope,
    /// The content differs; pods that began before this time may run older content.
    Content(Timestamp),
}

impl<'a> Applied<'a> {
    /// Reads a record that was made with our key. A record of a different key cannot be compared, so its
    /// workload is adopted again and never restarted (a lost key must not cause a restart storm).
    pub(super) fn read(text: Option<&'a str>, at: Option<Timestamp>, key: &DigestKey) -> Option<Self> {
        let text = text.filter(|text| key.is_named_in(text))?;
        let digest = digest_of(text);
        let scope = text.get(digest.len() + 1..);
        let (scope, pending) = match scope.and_then(|scope| scope.split_once('.')) {
            Some((scope, pending)) => (Some(scope), Before::parse(pending)),
            None => (scope, None),
        };
        Some(Self { digest, scope, pending, at })
    }

    /// Compares the record with this content.
    pub(super) fn differs(&self, content: &InputDigest) -> RecordDiff {
        let is_scope = self.scope == Some(&content.scope);
        if self.digest == content.digest {
            return if is_scope { RecordDiff::Nothing } else { RecordDiff::Scope };
        }
        let since = if is_scope {
            // The scope is the same, so the content has changed after the record was written. If no time is
            // later than the record, keys were removed: managedFields give no time for a removal.
            content.touched_at.max(self.at)
        } else {
            content.changed_at.filter(|changed| self.at.is_none_or(|at| *changed > at))
        };
        since.map_or(RecordDiff::Scope, RecordDiff::Content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_and_since_when() {
        let key = DigestKey::new(&[7; DigestKey::LENGTH]);
        let at = |second| Timestamp::from_second(second).unwrap();
        let name = |rest: &str| format!("{}.{rest}", key.id());
        for (record, recorded, changed, touched, expected) in [
            ("new.scope", Some(100), Some(200), Some(200), RecordDiff::Nothing),
            ("new.other", Some(100), Some(200), Some(200), RecordDiff::Scope),
            // Labels of an earlier version had two parts.
            ("new", Some(100), Some(200), Some(200), RecordDiff::Scope),
            ("old.scope", Some(100), Some(200), Some(200), RecordDiff::Content(at(200))),
            // The last input key was removed.
            ("old.scope", Some(100), None, Some(200), RecordDiff::Content(at(200))),
            // A key was removed, which no timestamp shows.
            ("old.scope", Some(100), Some(50), Some(50), RecordDiff::Content(at(100))),
            ("old.scope", None, Some(50), Some(50), RecordDiff::Content(at(50))),
            ("old.scope", None, None, None, RecordDiff::Scope),
            ("old.other", Some(100), Some(200), Some(200), RecordDiff::Content(at(200))),
            ("old.other", Some(100), Some(50), Some(200), RecordDiff::Scope),
            ("old.other", Some(100), None, Some(200), RecordDiff::Scope),
            ("old.other", None, Some(50), Some(50), RecordDiff::Content(at(50))),
        ] {
            let content = InputDigest {
                digest: name("new"),
                scope: "scope".into(),
                changed_at: changed.map(at),
                touched_at: touched.map(at),
            };
            let text = name(record);
            let applied = Applied::read(Some(&text), recorded.map(at), &key).unwrap();
            assert_eq!(applied.differs(&content), expected, "{record} {recorded:?} {changed:?}");
        }
        let going_on = name("new.scope.1767225600");
        assert!(going_on.len() < 63, "it is a label");
        let going_on = Applied::read(Some(&going_on), None, &key).unwrap();
        assert_eq!(going_on.pending.map(|before| before.to_string()).as_deref(), Some("1767225600"));
        assert_eq!(going_on.scope, Some("scope"));
        assert!(Applied::read(Some("0123abcd.new.scope"), None, &key).is_none());
        assert!(Applied::read(None, None, &key).is_none());
    }
}
