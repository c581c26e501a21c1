//! Computes a policy's status from the world.
//!
//! Reasons of `Ready`: `InForce`, `HooksOff` (the API server does not ask us about writes), `Invalid`,
//! `UnsupportedField` (a newer version wrote it). Reasons of `Stalled`: `Invalid` and `UnsupportedField`.
//! Reason of `Degraded`: `Violations`, if existing objects violate the policy.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::scan::is_of;
use crate::{
    api::{ConfigPolicyStatus, WORST_PROBLEMS, set_condition},
    model::{PolicyFacts, World},
    plan::Reason,
    validate::SpecFault,
};

/// The status that a policy should have; `None` if the policy is gone, or if its hooks were not checked yet.
pub fn policy_status(world: &World, name: &str, now: Timestamp) -> Option<ConfigPolicyStatus> {
    let facts = world.policies().get(name)?;
    let (mut status, generation, now) =
        (facts.status.clone().unwrap_or_default(), facts.generation, Time(now));
    let of_this = status.observed_generation == Some(generation);
    status.kinds = column(&facts.spec.match_.kinds);
    status.actions = column(&facts.spec.validation_actions);
    status.problems = facts.compiled.as_ref().err().cloned().unwrap_or_default();
    let invalid = status.problems.first().map(|problem| problem.message.clone());
    let reason = Reason::from(SpecFault::first(&status.problems)).as_str();
    let ready = match &invalid {
        Some(message) => (false, reason, message.clone()),
        None => in_force(world, name, facts)?,
    };
    match world.scan_result(name).filter(|standing| is_of(standing, facts)) {
        _ if invalid.is_some() => forget(&mut status),
        Some(standing) => {
            status.violation_count = Some(standing.count);
            status.violations = standing.first.iter().cloned().collect();
        }
        // The result of an earlier leader is valid until our own first scan.
        None if of_this => {}
        None => forget(&mut status),
    }
    let degraded = status.violation_count.filter(|count| *count > 0).map(|count| {
        let violations = if count == 1 { "1 violation" } else { &format!("{count} violations") };
        let message = format!("{violations} by existing objects, the first of them in status.violations");
        (true, "Violations", message)
    });
    let stalled = invalid.map(|message| (true, reason, message));
    set_condition(&mut status.conditions, "Ready", Some(ready), generation, &now);
    set_condition(&mut status.conditions, "Stalled", stalled, generation, &now);
    set_condition(&mut status.conditions, "Degraded", degraded, generation, &now);
    // With more entries than the schema allows, the API server would refuse the whole status.
    status.problems.truncate(WORST_PROBLEMS);
    status.observed_generation = Some(generation);
    Some(status)
}

/// A list as one word for a column.
fn column(list: &[impl fmt::Debug]) -> String {
    list.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(",")
}

fn forget(status: &mut ConfigPolicyStatus) {
    status.violation_count = None;
    status.violations.clear();
}

/// Whether the webhook judges writes by a policy. Also true while the hooks were not checked yet, which takes
/// a moment.
pub fn is_in_force(world: &World, name: &str, facts: &PolicyFacts) -> bool {
    facts.compiled.is_ok() && in_force(world, name, facts).is_none_or(|(is, ..)| is)
}

/// Whether the API server calls the webhook for the writes that the policy covers, with reason and message;
/// `None` if the hooks were not checked yet.
fn in_force(world: &World, name: &str, facts: &PolicyFacts) -> Option<(bool, &'static str, String)> {
    let hooked = world.hooked(name);
    let hooked = hooked.filter(|it| it.uid == facts.uid && it.generation == facts.generation)?;
    Some(match &hooked.off {
        None => (true, "InForce", "the webhook checks writes against this policy".to_owned()),
        Some(why) => (false, "HooksOff", why.clone()),
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use serde_json::json;

    use super::*;
    use crate::{
        api::{Action, ConfigPolicySpec, ExistingViolation, PolicyKind},
        model::{Declared, HookCoverage, ScanResult},
        validate::CompiledPolicy,
    };

    fn world(off: Option<&str>) -> World {
        let mut world = unhooked();
        let hooked = HookCoverage { uid: "u".into(), generation: 2, off: off.map(str::to_owned) };
        world.set_hooked(&"p".into(), hooked);
        world
    }

    fn unhooked() -> World {
        let mut world = World::default();
        let spec: ConfigPolicySpec =
            serde_json::from_value(json!({"match": {"kinds": ["ConfigMap"]}, "limits": {"maxBytes": 1}}))
                .unwrap();
        let compiled = CompiledPolicy::compile(&spec).map(Arc::new);
        let facts = Declared {
            uid: "u".into(),
            resource_version: "1".into(),
            generation: 2,
            created: Timestamp::UNIX_EPOCH,
            annotations: BTreeMap::new(),
            spec,
            compiled,
            status: None,
        };
        world.set_policy("p".into(), facts);
        world
    }

    fn conditions(world: &World) -> Vec<String> {
        let status = policy_status(world, "p", Timestamp::UNIX_EPOCH).unwrap();
        status.conditions.iter().map(|one| format!("{} {} {}", one.type_, one.status, one.reason)).collect()
    }

    #[test]
    fn what_nobody_asks_us_about_is_not_in_force() {
        assert_eq!(conditions(&world(None)), ["Ready True InForce"]);
        assert_eq!(conditions(&world(Some("no hook"))), ["Ready False HooksOff"]);
        let mut unseen = unhooked();
        assert_eq!(policy_status(&unseen, "p", Timestamp::UNIX_EPOCH), None);
        let problem = crate::api::Problem { message: "spec: no".into(), ..Default::default() };
        unseen.edit_policy("p", |facts| facts.compiled = Err(vec![problem]));
        assert_eq!(conditions(&unseen), ["Ready False Invalid", "Stalled True Invalid"]);
        let is_in_force = |world: &World| is_in_force(world, "p", &world.policies()["p"]);
        assert!(is_in_force(&world(None)) && is_in_force(&unhooked()));
        assert!(!is_in_force(&world(Some("no hook"))) && !is_in_force(&unseen));
    }

    #[test]
    fn what_a_policy_speaks_of_is_a_word_for_a_column() {
        let mut world = world(None);
        world.edit_policy("p", |facts| {
            facts.spec.match_.kinds = vec![PolicyKind::ConfigMap, PolicyKind::Secret];
            facts.spec.validation_actions = vec![Action::Deny, Action::Audit];
        });
        let status = policy_status(&world, "p", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((&*status.kinds, &*status.actions), ("ConfigMap,Secret", "Deny,Audit"));
        // If the policy already has this status, no write is necessary.
        world.edit_policy("p", |facts| facts.status = Some(status.clone()));
        assert_eq!(policy_status(&world, "p", Timestamp::UNIX_EPOCH), Some(status));
    }

    #[test]
    fn what_was_found_by_another_generation_is_not_told() {
        let mut world = world(None);
        let violation = ExistingViolation {
            kind: PolicyKind::ConfigMap,
            namespace: "shop".into(),
            name: "app".into(),
            rule: "limits.maxBytes".into(),
            key: None,
            message: "holds 9 bytes".into(),
        };
        let mut found = ScanResult { uid: "u".into(), generation: 2, ..ScanResult::default() };
        found.add(violation);
        world.set_scan_results([("p".into(), found)].into());
        assert_eq!(conditions(&world), ["Ready True InForce", "Degraded True Violations"]);
        let status = policy_status(&world, "p", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((status.violation_count, status.violations.len()), (Some(1), 1));
        // A new leader has not scanned yet, and keeps the results in the status.
        world.set_scan_results(Default::default());
        world.edit_policy("p", |facts| facts.status = Some(status.clone()));
        assert_eq!(policy_status(&world, "p", Timestamp::UNIX_EPOCH), Some(status));
        world.edit_policy("p", |facts| facts.generation = 3);
        let hooked = HookCoverage { generation: 3, ..world.hooked("p").cloned().unwrap() };
        world.set_hooked(&"p".into(), hooked);
        let status = policy_status(&world, "p", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((status.violation_count, status.violations.len()), (None, 0));
        assert_eq!(conditions(&world), ["Ready True InForce"]);
    }
}
