//! Compares a new version of an object with the previous version: when the content changed, and whether
//! another writer may have changed an object that Copyrator manages.

use jiff::Timestamp;

use crate::model::{Drift, ObjectFacts};

/// Returns the facts of an object, corrected by the facts of an earlier version.
///
/// An update that only removes keys (`kubectl edit`, `kubectl replace`, a merge patch of nulls, `helm
/// upgrade`) changes no time in managedFields: the keys disappear from their owners' entries. Only a process
/// that knew the keys notices.
pub(super) fn after(known: &ObjectFacts, mut facts: ObjectFacts, now: Timestamp) -> ObjectFacts {
    if facts.uid != known.uid {
        return facts;
    }
    doubt(known, &mut facts);
    let has_time = facts.changed_at > known.changed_at;
    if !has_time && facts.content_fields != known.content_fields {
        // The time is rounded to whole seconds, like the times that the API server writes.
        facts.changed_at = Timestamp::from_second(now.as_second()).unwrap_or(now);
    }
    // A later write of labels, or a new list, must not undo a change that we saw.
    facts.changed_at = facts.changed_at.max(known.changed_at);
    facts
}

/// Sets whether another writer may have changed the object since Copyrator wrote it. A new digest mark means
/// that Copyrator wrote the object, since only Copyrator can make its marks. For an object that a template
/// declares, a new edition under the same digest mark means a possible drift. Copies of rules are compared by
/// content instead.
fn doubt(known: &ObjectFacts, facts: &mut ObjectFacts) {
    let digest = |facts: &ObjectFacts| facts.marks.as_deref().map(|marks| marks.digest.clone());
    let (is_ours, is_declared) = (digest(known) != digest(facts), facts.is_declared());
    let is_untraced = is_untraced(known, facts);
    facts.trace.is_untraced = is_untraced || (known.trace.is_untraced && !is_ours);
    let (Some(before), Some(after)) = (&known.examined, &mut facts.examined) else { return };
    after.drift = match (is_ours, before.edition == after.edition && !is_untraced) {
        (false, true) => before.drift,
        _ if !is_declared => Drift::Unexamined,
        (true, _) => Drift::None,
        (false, false) => Drift::Possible,
    };
}

/// Whether a new version of an object changes none of the known facts, and has no new entry of another
/// manager: somebody wrote under the name of our manager, or within the second of an earlier write.
fn is_untraced(known: &ObjectFacts, facts: &ObjectFacts) -> bool {
    let ours = |facts: &ObjectFacts| facts.ownership.as_deref().and_then(|owned| owned.ours.clone());
    facts.trace.others.is_some()
        && facts.resource_version != known.resource_version
        && facts.trace.others == known.trace.others
        && (&facts.marks, &facts.labels, facts.owners) == (&known.marks, &known.labels, known.owners)
        && (&facts.deletion, &facts.restart, facts.content_fields)
            == (&known.deletion, &known.restart, known.content_fields)
        && ours(facts) == ours(known)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        digest::DigestKey,
        intake::object::{OfKind, Slim},
        marks::{COPY_MANAGER, MANAGED_BY, MANAGED_BY_VALUE, MARK, RULE, SOURCE},
        names::Declarer,
    };

    /// Returns a copy in this version; each entry of managedFields has a manager, the seconds of its time and
    /// its subresource.
    fn copy<K: OfKind>(version: &str, label: &str, entries: &[(&str, u32, &str)]) -> ObjectFacts {
        let fields = json!({"f:data": {"f:k": {}}});
        let entry = |(manager, second, subresource): &(&str, u32, &str)| {
            let operation = if *manager == COPY_MANAGER { "Apply" } else { "Update" };
            let mut entry = json!({"manager": manager, "operation": operation, "time": format!("2026-01-01T00:00:{second:02}Z"),
                "fieldsV1": fields});
            if !subresource.is_empty() {
                entry["subresource"] = json!(subresource);
            }
            entry
        };
        let key = crate::names::ObjectKey::new(K::KIND, "shop", "app");
        let rule = Declarer::rule("home", "app");
        let mark = DigestKey::new(&[7; DigestKey::LENGTH]).mark(&key, &rule);
        let annotations =
            json!({MARK: mark, RULE: "home/app", SOURCE: "home/app", "copyrator.dev/digest": "1"});
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        let object = json!({"metadata": {"namespace": "shop", "name": "app", "uid": "u", "resourceVersion": version,
            "labels": {MANAGED_BY: MANAGED_BY_VALUE, "x": label}, "annotations": annotations, "managedFields": entries}});
        let facts = serde_json::from_value::<Slim<K>>(object).unwrap().facts;
        assert!(facts.marks.is_some());
        facts
    }

    /// A writer under our manager's name leaves no trace in the metadata.
    #[test]
    fn a_version_that_nobody_else_signed_and_that_shows_nothing_is_untraced() {
        let ours = (COPY_MANAGER, 1, "");
        let first = copy::<ConfigMap>("1", "a", &[ours]);
        for (next, expected) in [
            (copy::<ConfigMap>("2", "a", &[(COPY_MANAGER, 9, "")]), true),
            // The manager applied twice within a second.
            (copy::<ConfigMap>("2", "a", &[ours]), true),
            (copy::<ConfigMap>("1", "a", &[ours]), false),
            (copy::<ConfigMap>("2", "b", &[ours]), false),
            (copy::<ConfigMap>("2", "a", &[ours, ("kubectl", 9, "")]), false),
        ] {
            let next = after(&first, next, Timestamp::UNIX_EPOCH);
            assert_eq!(next.trace.is_untraced, expected, "{next:?}");
            // Later versions do not show the changes of the untraced version.
            let later = copy::<ConfigMap>("3", "c", &[ours]);
            assert_eq!(after(&next, later, Timestamp::UNIX_EPOCH).trace.is_untraced, expected);
        }
    }

    /// The quota controller updates the status of a ResourceQuota all the time.
    #[test]
    fn a_status_that_is_written_leaves_a_trace() {
        let ours = (COPY_MANAGER, 1, "");
        let counted = |version, second| {
            copy::<ResourceQuota>(version, "a", &[ours, ("kube-controller-manager", second, "status")])
        };
        let known = ObjectFacts {
            examined: counted("1", 1)
                .examined
                .map(|it| Box::new(crate::model::Examined { drift: Drift::None, ..*it })),
            ..counted("1", 1)
        };
        let next = after(&known, counted("2", 2), Timestamp::UNIX_EPOCH);
        assert_eq!((next.trace.is_untraced, next.drift()), (false, Drift::None));
        let next = after(&known, counted("2", 1), Timestamp::UNIX_EPOCH);
        assert_eq!((next.trace.is_untraced, next.drift()), (true, Drift::Unexamined));
    }
}
