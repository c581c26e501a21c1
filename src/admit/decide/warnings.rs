//! What a writer is told of the consequences: counts only, never whether something exists.

use super::{DecideError, Verdict, Versions, reach};
use crate::{
    admit::decode::{Operation, Review},
    api::PolicyKind,
    model::{Kind, World},
    validate::Candidate,
};

pub(super) fn add(
    kind: PolicyKind,
    review: &Review<'_>,
    world: &World,
    verdict: &mut Verdict,
) -> Result<(), DecideError> {
    let config = match (kind, review.operation) {
        (PolicyKind::Namespace, Operation::Create) => None,
        (PolicyKind::ConfigMap, Operation::Update | Operation::Delete) => Some(Kind::ConfigMap),
        (PolicyKind::Secret, Operation::Update | Operation::Delete) => Some(Kind::Secret),
        _ => return Ok(()),
    };
    let versions = Versions::of(kind, review)?;
    let warning = match config {
        None => versions.new.and_then(|object| of_namespace(world, &object)),
        Some(kind) => versions.old.and_then(|old| of_change(world, kind, &old, versions.new.as_ref())),
    };
    if let Some(warning) = warning {
        verdict.warn(warning);
    }
    Ok(())
}

fn of_namespace(world: &World, object: &Candidate<'_>) -> Option<String> {
    let (count, rules) = reach::into_namespace(world, object);
    if rules.is_empty() {
        return None;
    }
    let names: Vec<_> = rules.iter().map(ToString::to_string).collect();
    let number = match (count.known, count.at_least) {
        (0, true) => "objects".to_owned(),
        (known, true) => format!("at least {}", counted(known, "object")),
        (known, false) => counted(known, "object"),
    };
    let noun = if names.len() == 1 { "rule" } else { "rules" };
    Some(format!("copyrator: {number} will appear in this namespace ({noun} {})", names.join(", ")))
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
