//! What a writer is told of the consequences: counts only, never whether something exists.

use super::{WriteCase, reach};
use crate::{
    admit::decode::Operation,
    api::PolicyKind,
    model::{Kind, World},
    validate::Candidate,
};

pub(super) fn look(case: &WriteCase<'_>, world: &World) -> Option<String> {
    let (new, old) = (case.versions.new.as_ref(), case.versions.old.as_ref());
    match (case.kind, case.review.operation) {
        (PolicyKind::Namespace, Operation::Create) => of_namespace(world, new?),
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
        (0, true) => "objects".to_owned(),
        (known, true) => format!("at least {}", counted(known, "object")),
        (known, false) => counted(known, "object"),
    };
    Some(format!("copyrator: {number} will appear in this namespace ({})", counted(rules, "rule")))
}

fn of_change(world: &World, kind: Kind, old: &Candidate<'_>, new: Option<&Candidate<'_>>) -> Option<String> {
    let keys = match new {
        Some(new) => new.changed_keys(old),
        None => old.keys().map(str::to_owned).collect(),
    };
    if keys.is_empty() {
        return None;
    }
    let (copies, restarts) = reach::of_change(world, kind, old, &keys);
    // Copies asked for by an annotation of the object's own are not counted here.
    let annotated = ["copyrator.dev/copy-to", "copyrator.dev/copy-to-selector"];
    let at_least = world.annotations && annotated.into_iter().any(|key| old.annotation(key).is_some());
    let at_least = if at_least { "at least " } else { "" };
    match (copies, restarts) {
        (0, 0) => None,
        (_, 0) => {
            Some(format!("copyrator: this change reaches {at_least}{}", plural(copies, "copy", "copies")))
        }
        (0, _) => Some(format!("copyrator: {at_least}{} after this change", restarting(restarts))),
        _ => Some(format!(
            "copyrator: this change reaches {at_least}{}, {}",
            plural(copies, "copy", "copies"),
            restarting(restarts),
        )),
    }
}

fn restarting(workloads: usize) -> String {
    plural(workloads, "workload restarts", "workloads restart")
}

fn counted(number: usize, noun: &str) -> String {
    plural(number, noun, &format!("{noun}s"))
}

fn plural(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
