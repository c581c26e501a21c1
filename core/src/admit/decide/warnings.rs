//! Warnings about the consequences of a write. The warnings contain counts only, and never reveal whether a
//! certain object exists.

use serde::Deserialize;

use super::{Parties, Verdict, WriteCase, change, difference::Amount, labelled, reach};
use crate::{
    admit::decode::{Operation, Review},
    api::{DataKind, DeletionPolicy, PolicyKind, Span, TemplateObject, WarnAbove},
    marks::declares,
    model::{Bytes, SpreadLimits, World},
    names::{Declarer, Kind, ObjectKey},
    validate::{Candidate, annotated_rule, own_deletion},
};

pub(super) fn look(case: &WriteCase<'_>, world: &World) -> Vec<String> {
    let (Some(one), operation) =
        (case.versions.new.as_ref().or(case.versions.old.as_ref()), case.review.operation)
    else {
        return Vec::new();
    };
    let (new, old) = (case.versions.new.as_ref(), case.versions.old.as_ref());
    let kind = match (case.kind, operation) {
        (PolicyKind::Namespace, Operation::Create | Operation::Update) => {
            return labelled::of_namespace(world, old, one).said("in this namespace");
        }
        (PolicyKind::ConfigMap, Operation::Update | Operation::Delete) => DataKind::ConfigMap,
        (PolicyKind::Secret, Operation::Update | Operation::Delete) => DataKind::Secret,
        _ => return Vec::new(),
    };
    let Some(old) = old else { return Vec::new() };
    let narrowed = new.and_then(|new| of_annotations(world, kind, old, new));
    of_change(world, kind.into(), old, new).into_iter().chain(narrowed).collect()
}

/// Returns the warning about copies that are deleted when annotations declare fewer copies, or no copies.
fn of_annotations(world: &World, kind: DataKind, old: &Candidate<'_>, new: &Candidate<'_>) -> Option<String> {
    let declared = |object: &Candidate<'_>| {
        let annotations = object.annotations.as_ref().filter(|_| declares(|key| object.label(key)))?;
        annotated_rule(kind, &object.name, |key| annotations.get(key).map(String::as_str))
    };
    let (before, after) = (declared(old)?.ok()?, declared(new).transpose().ok()?);
    if after.as_ref().is_some_and(|(spec, _)| *spec == before.0) {
        return None;
    }
    let name = Declarer::annotated(ObjectKey::new(kind.into(), &*old.namespace, &*old.name));
    reach::acting(world, &name, world.rules().get(&name)?)?;
    change::lost_by_source(world, &name, &before.1, after.as_ref().map(|(_, compiled)| compiled))
}

/// The fields of a deleted rule or template that the warnings need.
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
    /// The objects of a template; a rule has none.
    #[serde(default)]
    objects: Vec<TemplateObject>,
}

#[derive(Default, Deserialize)]
struct Counts {
    #[serde(default)]
    instances: i64,
    #[serde(default)]
    current: i64,
}

impl Removal {
    /// Returns how many of a template's objects stay for each instance when the template is deleted.
    fn left(&self) -> usize {
        let stays = |object: &&TemplateObject| {
            let kind = object.template["kind"].as_str().unwrap_or_default();
            own_deletion(kind, object.deletion_policy).unwrap_or(self.deletion_policy)
                == DeletionPolicy::Retain
        };
        self.objects.iter().filter(stays).count()
    }
}

/// Warns a user who deletes a rule or a template about the fate of its objects. The deletion is always
/// allowed.
pub(super) fn of_deletion(review: &Review<'_>, parties: &Parties) -> Verdict {
    let mut verdict = Verdict::allow();
    let (one, many, whose) = match (review.operation, &*review.kind.kind) {
        (Operation::Delete, "CopyratorRule") => ("copy", "copies", "rule"),
        (Operation::Delete, "CopyratorTemplate") => ("object", "objects", "template"),
        _ => return verdict,
    };
    let old: Option<Deleted> = review.old_object.and_then(|old| serde_json::from_str(old.get()).ok());
    let Some(Deleted { spec, status }) = old else { return verdict };
    let number = |number: i64| usize::try_from(number).unwrap_or_default();
    let (count, instances, left) = (number(status.current), number(status.instances), spec.left());
    let of = |amount: Amount| format!("copyrator: {} of this {whose}", amount.of(one, many));
    let part = |objects: usize| {
        let is_all = objects == spec.objects.len();
        Amount { most: if is_all { count } else { count.min(instances * objects) }, is_exact: is_all }
    };
    let (gone, stays) = match (spec.objects.as_slice(), spec.deletion_policy) {
        ([], DeletionPolicy::Delete) => (Amount { most: count, is_exact: true }, Amount::default()),
        ([], DeletionPolicy::Retain) => (Amount::default(), Amount { most: count, is_exact: true }),
        (objects, _) => (part(objects.len() - left), part(left)),
    };
    if gone.most > 0 {
        let grace = spec.deletion_grace.unwrap_or_else(|| parties.default_grace.into());
        verdict.warn(format!("{} will be deleted in {grace}; deletionPolicy: Retain keeps them", of(gone)));
    }
    if stays.most > 0 {
        let why = match spec.deletion_policy {
            DeletionPolicy::Retain => "(deletionPolicy: Retain)",
            DeletionPolicy::Delete => "(with data, or with deletionPolicy: Retain)",
        };
        verdict.warn(format!("{} {} {why}", of(stays), stays.stay()));
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
    let reach::Reach { copies, restarts, bytes } = reach::of_change(world, kind, old, new, true, &keys);
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
                "copyrator: {copies} will be deleted after a grace period, unless their rule retains them"
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

/// Counts the copies and restarts that a write reaches. A new object causes no restarts.
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
    let reach = reach::of_change(world, kind, old.unwrap_or(new), Some(new), old.is_some(), &keys);
    Reached { copies: reach.copies, restarts: if old.is_some() { reach.restarts } else { 0 } }
}

impl Reached {
    /// Returns the warning if the reach is above a policy's limit.
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
        format!(" ({bytes}, more than the maximum of {}: not copied)", limits.max_bytes)
    } else if bytes > limits.warn_bytes {
        format!(" ({bytes})")
    } else {
        String::new()
    }
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
        assert_eq!(said(1536), " (1.5 GiB, more than the maximum of 1 GiB: not copied)");
    }
}
