//! Refuses a write that removes an object or key that workloads use, if a policy forbids the removal. The
//! webhook knows workloads by their pod templates; it does not see bare pods.

use std::collections::BTreeSet;

use super::DecideError;
use crate::{
    model::{Reference, WorkloadFacts, World},
    names::Kind,
    validate::{Candidate, Violation},
};

/// The maximum number of workloads, and of keys, that a message names.
const MOST_NAMED: usize = 3;

/// Returns the violation by a write that removes the object or keys from workloads that use them. `None` if
/// the namespace or the object is already being deleted.
pub(super) fn look(
    world: &World,
    kind: Kind,
    old: &Candidate<'_>,
    new: Option<&Candidate<'_>>,
) -> Result<Option<Violation>, DecideError> {
    let removed: BTreeSet<&str> = match new {
        Some(new) => {
            let kept: BTreeSet<&str> = new.keys().collect();
            old.keys().filter(|key| !kept.contains(key)).collect()
        }
        None => old.keys().collect(),
    };
    if old.deleting || (new.is_some() && removed.is_empty()) {
        return Ok(None);
    }
    let namespace = world.namespaces().get_key_value(&*old.namespace);
    let (namespace, facts) = namespace.ok_or(DecideError::UnknownNamespace)?;
    if facts.terminating {
        return Ok(None);
    }
    let mut used = BTreeSet::new();
    let mut users = Vec::new();
    for (key, facts) in world.workloads_in(namespace).filter(|(_, facts)| !facts.deleting) {
        let keys = used_keys(facts, kind, &old.name, &removed);
        if keys.as_ref().is_some_and(|keys| new.is_none() || !keys.is_empty()) {
            users.push(format!("{} {}", key.kind, key.name));
            used.extend(keys.unwrap_or_default());
        }
    }
    if users.is_empty() {
        return Ok(None);
    }
    let goes = if new.is_some() { "removed" } else { "deleted" };
    let what = format!("is used by {} and would be {goes}", named(&users));
    let keys = new.map(|_| named(&used.into_iter().collect::<Vec<_>>()));
    let fix = "remove it from their pod templates first, or delete the workloads";
    Ok(Some(Violation::by_change("whileInUse", keys, what, fix)))
}

/// Returns which of these keys a workload uses; `None` if the workload does not use the object.
fn used_keys<'k>(
    facts: &WorkloadFacts,
    kind: Kind,
    name: &str,
    keys: &BTreeSet<&'k str>,
) -> Option<BTreeSet<&'k str>> {
    let pulls = kind == Kind::Secret && facts.pull_secrets.iter().any(|secret| &**secret == name);
    let uses: Vec<&Reference> =
        facts.references.iter().filter(|one| one.kind == kind && &*one.name == name).collect();
    let is_used = |key: &&&'k str| {
        let names = |reference: &&Reference| match &reference.keys {
            Some(used) => used.iter().any(|one| one == **key),
            None => true,
        };
        pulls || uses.iter().any(names)
    };
    (pulls || !uses.is_empty()).then(|| keys.iter().filter(is_used).copied().collect())
}

/// The first few names, and the number of further names.
fn named<S: AsRef<str>>(names: &[S]) -> String {
    let first: Vec<&str> = names.iter().take(MOST_NAMED).map(AsRef::as_ref).collect();
    let first = first.join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
