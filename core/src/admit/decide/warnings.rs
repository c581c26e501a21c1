//! Warnings about the consequences of a write: counts only, never whether a certain object exists.

use serde::Deserialize;

use super::{Parties, Verdict, WriteCase, reach};
use crate::{
    admit::decode::{Operation, Review},
    api::{DeletionPolicy, PolicyKind, Span, WarnAbove},
    model::{Bytes, SpreadLimits, World},
    names::Kind,
    validate::Candidate,
};

pub(super) fn look(case: &WriteCase<'_>, world: &World) -> Option<String> {
    let (new, old) = (case.versions.new.as_ref(), case.versions.old.as_ref());
    match (case.kind, case.review.operation) {
        (PolicyKind::Namespace, Operation::Create) => of_namespace(world, new?),
        (PolicyKind::Namespace, Operation::Update) => of_labels(world, old?, new?),
        (PolicyKind::ConfigMap, Operation::Update | Operation::Delete) => {
            of_change(world, Kind::ConfigMap, old?, new)
        }
        (PolicyKind::Secret, Operation::Update | Operation::Delete) => {
            of_change(world, Kind::Secret, old?, new)
        }
        _ => None,
    }
}

fn of_namespace(world: &World, object: &Candidate<'_>) -> Option<String> {
    let (count, rules) = reach::into_namespace(world, object);
    let number = match (count.known, count.at_least) {
        (0, false) => return None,
        // The sources are not known, so nothing can be said.
        (0, true) if rules == 0 => return None,
        (0, true) => "objects".to_owned(),
        (known, true) => format!("at least {}", counted(known, "object")),
        (known, false) => counted(known, "object"),
    };
    Some(format!("copyrator: {number} will appear in this namespace ({})", counted(rules, "rule")))
}

/// The copies that new labels bring to a namespace and take from it.
fn of_labels(world: &World, old: &Candidate<'_>, new: &Candidate<'_>) -> Option<String> {
    let reach::Relabelled { come, of, gone } = reach::relabelled(world, old, new);
    let number = match (come.known, come.at_least) {
        (0, _) => "objects".to_owned(),
        (known, true) => format!("at least {}", counted(known, "object")),
        (known, false) => counted(known, "object"),
    };
    let come = (of > 0).then(|| format!("{number} will appear in this namespace ({})", counted(of, "rule")));
    let gone = (gone > 0)
        .then(|| format!("copies of {} will be deleted here after their grace", counted(gone, "rule")));
    let said: Vec<String> = [come, gone].into_iter().flatten().collect();
    (!said.is_empty()).then(|| format!("copyrator: {}", said.join("; ")))
}

/// The fields that are read of a rule or template that is deleted.
#[derive(Deserialize)]
struct Deleted {
    spec: Removal,
    #[serde(default)]
    status: Counts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Removal {
    #[serde(default)]
    deletion_policy: DeletionPolicy,
    #[serde(default)]
    deletion_grace: Option<Span>,
}

#[derive(Default, Deserialize)]
struct Counts {
    #[serde(default)]
    current: i64,
}

/// Warns a user who deletes a rule or a template of what becomes of its objects. Nothing prevents the deletion.
pub(super) fn of_deletion(review: &Review<'_>, parties: &Parties) -> Verdict {
    let mut verdict = Verdict::allow();
    let (one, many, whose) = match (review.operation, &*review.kind.kind) {
        (Operation::Delete, "CopyratorRule") => ("copy", "copies", "rule"),
        (Operation::Delete, "CopyratorTemplate") => ("object", "objects", "template"),
        _ => return verdict,
    };
    let old: Option<Deleted> = review.old_object.and_then(|old| serde_json::from_str(old.get()).ok());
    let Some(Deleted { spec, status }) = old else { return verdict };
    let count = usize::try_from(status.current).unwrap_or_default();
    if count > 0 {
        let objects = plural(count, one, many);
        verdict.warn(match spec.deletion_policy {
            DeletionPolicy::Retain => {
                format!("copyrator: {objects} of this {whose} stay, as ordinary objects (deletionPolicy: Retain)")
            }
            DeletionPolicy::Delete => {
                let grace = spec.deletion_grace.unwrap_or_else(|| parties.default_grace.into());
                format!(
                    "copyrator: {objects} of this {whose} will be deleted in {grace}; deletionPolicy: Retain keeps them"
                )
            }
        });
    }
    verdict
}

fn of_change(world: &World, kind: Kind, old: &Candidate<'_>, new: Option<&Candidate<'_>>) -> Option<String> {
    let keys = match new {
        Some(new) => new.changed_keys(old),
        None => old.keys().map(str::to_owned).collect(),
    };
    if keys.is_empty() {
        return None;
    }
    let reach::Reach { copies, restarts, bytes } = reach::of_change(world, kind, old, (new, true), &keys);
    let some = |number, one, many| (number > 0).then(|| plural(number, one, many));
    let copies = some(copies, "copy", "copies");
    let changed = some(restarts, "workload restarts", "workloads restart");
    let used = some(restarts, "workload uses it", "workloads use it");
    Some(match (new.is_some(), copies) {
        (true, Some(copies)) => {
            let large = too_much(Bytes(bytes), world.settings().spread_limits);
            let copies = format!("copyrator: this change reaches {copies}{large}");
            [Some(copies), changed].into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
        (true, None) => format!("copyrator: {} after this change", changed?),
        (false, Some(copies)) => {
            let copies = format!(
                "copyrator: {copies} of this will be deleted after a grace period, unless their rule retains them"
            );
            [Some(copies), used].into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
        (false, None) => format!("copyrator: {}", used?),
    })
}

/// How many copies and workloads a write reaches.
#[derive(Default)]
pub(super) struct Reached {
    copies: usize,
    restarts: usize,
}

/// How far a write reaches. A new object restarts nothing.
pub(super) fn reached(
    world: &World,
    kind: Kind,
    old: Option<&Candidate<'_>>,
    new: &Candidate<'_>,
) -> Reached {
    let keys = match old {
        Some(old) => new.changed_keys(old),
        None => new.keys().map(str::to_owned).collect(),
    };
    if keys.is_empty() {
        return Reached::default();
    }
    let reach = reach::of_change(world, kind, old.unwrap_or(new), (Some(new), old.is_some()), &keys);
    Reached { copies: reach.copies, restarts: if old.is_some() { reach.restarts } else { 0 } }
}

impl Reached {
    /// The warning where the reach is above a policy's limit.
    pub(super) fn above(&self, limits: &WarnAbove) -> Option<String> {
        let beyond = |number: usize, limit: Option<i64>, one, many| {
            let limit = limit.filter(|limit| i64::try_from(number).is_ok_and(|number| number > *limit))?;
            Some(format!("{} (above {limit})", plural(number, one, many)))
        };
        let said = [
            beyond(self.copies, limits.copies, "copy", "copies"),
            beyond(self.restarts, limits.restarts, "restart", "restarts"),
        ];
        let said: Vec<String> = said.into_iter().flatten().collect();
        (!said.is_empty()).then(|| format!("this write reaches {}", said.join(" and ")))
    }
}

/// The warning for content that is too large for this many copies; empty for other content.
fn too_much(bytes: Bytes, limits: SpreadLimits) -> String {
    if bytes > limits.max_bytes {
        format!(" ({bytes}, too large: not copied beyond {})", limits.max_bytes)
    } else if bytes > limits.warn_bytes {
        format!(" ({bytes})")
    } else {
        String::new()
    }
}

fn counted(number: usize, noun: &str) -> String {
    plural(number, noun, &format!("{noun}s"))
}

fn plural(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_content_is_named_with_its_figure() {
        let limits = SpreadLimits::default();
        let said = |mebibytes: u64| too_much(Bytes(mebibytes << 20), limits);
        assert_eq!([said(1), said(256)], ["", ""]);
        assert_eq!(said(300), " (300 MiB)");
        assert_eq!(said(1536), " (1.5 GiB, too large: not copied beyond 1 GiB)");
    }
}
