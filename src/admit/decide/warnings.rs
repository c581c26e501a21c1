//! What a writer is told of the consequences: counts only, never whether something exists.

use super::{WriteCase, reach};
use crate::{
    admit::decode::Operation,
    api::PolicyKind,
    model::{Bytes, Kind, SpreadLimits, World},
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
    let reach::Reach { copies, restarts, bytes } = reach::of_change(world, kind, old, new, &keys);
    // Copies asked for by an annotation of the object's own are not counted here.
    let annotated = ["copyrator.dev/copy-to", "copyrator.dev/copy-to-selector"];
    let at_least = world.annotations && annotated.into_iter().any(|key| old.annotation(key).is_some());
    let large = too_much(Bytes(bytes), world.spread_limits);
    let at_least = if at_least { "at least " } else { "" };
    match (copies, restarts) {
        (0, 0) => None,
        (_, 0) => Some(format!(
            "copyrator: this change reaches {at_least}{}{large}",
            plural(copies, "copy", "copies")
        )),
        (0, _) => Some(format!("copyrator: {at_least}{} after this change", restarting(restarts))),
        _ => Some(format!(
            "copyrator: this change reaches {at_least}{}{large}, {}",
            plural(copies, "copy", "copies"),
            restarting(restarts),
        )),
    }
}

/// What is said of content that is large for so many copies, and nothing of other content.
fn too_much(bytes: Bytes, limits: SpreadLimits) -> String {
    if bytes > limits.max_bytes {
        format!(" ({bytes}, too large: not copied beyond {})", limits.max_bytes)
    } else if bytes > limits.warn_bytes {
        format!(" ({bytes})")
    } else {
        String::new()
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
