//! Watched Secrets that workloads use only to pull images: no workload restarts for such a Secret, as the
//! monitor's status reports.

use std::collections::BTreeSet;

use crate::{
    model::{MonitorFacts, World},
    names::{Declarer, Kind},
    validate::WorkloadChoice,
};

/// How many names a sentence lists.
const MOST_LISTED: usize = 3;

/// Text for the status of a monitor that restarts by references: the watched Secrets that workloads name only
/// in `imagePullSecrets`; empty without such Secrets.
pub(super) fn only_pulled(world: &World, name: &Declarer, facts: &MonitorFacts) -> String {
    let Some(compiled) = facts.compiled.as_deref().ok() else { return String::new() };
    if !matches!(compiled.workloads, WorkloadChoice::References) {
        return String::new();
    }
    let mut names = BTreeSet::new();
    for (_, workload) in world.workloads_in(name.namespace()) {
        let is_used = |secret: &str| {
            workload.references.iter().any(|one| one.kind == Kind::Secret && &*one.name == secret)
        };
        let pulled = workload
            .pull_secrets
            .iter()
            .filter(|secret| compiled.watches(Kind::Secret, secret).is_some() && !is_used(secret));
        names.extend(pulled.map(|secret| &**secret));
    }
    let some: Vec<&str> = names.iter().copied().take(MOST_LISTED).collect();
    match (some.is_empty(), names.len().saturating_sub(MOST_LISTED)) {
        (true, _) => String::new(),
        (_, 0) => format!("; Secrets used only to pull images restart no workload: {}", some.join(", ")),
        (_, more) => {
            format!(
                "; Secrets used only to pull images restart no workload: {} and {more} more",
                some.join(", ")
            )
        }
    }
}
