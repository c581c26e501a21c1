//! Turns objects of our own kinds into facts. The validator compiles each spec on arrival.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::{
    watched::{Watched, name, namespaced},
    written::AsWritten,
};
use crate::{
    api::{ConfigMonitor, ConfigPolicy, CopyratorRule, CopyratorRuleStatus, CopyratorTemplate, Problem},
    decoded::Unreadable,
    marks::{PODS_MANAGER, RESTART_NOW},
    model::{Declared, Store, World},
    names::Declarer,
    plan::Changed,
    validate::{CompiledMonitor, CompiledPolicy, CompiledRule, CompiledTemplate},
};

/// Returns the facts of an object of ours, even if the object cannot be decoded or understood. Copyrator does
/// not act on an unreadable object, and continues with all other objects (linkerd2's `guarded_watch` loses
/// unreadable objects, and config-syncer#472 crashed on them).
fn declare<K, Spec, Compiled, Status>(
    written: AsWritten<K>,
    parts: impl FnOnce(K) -> (ObjectMeta, Spec, Option<Status>),
    compile: impl FnOnce(&Spec) -> Result<Compiled, Vec<Problem>>,
) -> Declared<Spec, Compiled, Status>
where
    Spec: Default,
{
    let (object, unknown) = written.into_parts();
    let (meta, spec, status, compiled) = match object {
        Ok(object) => {
            let (meta, spec, status) = parts(object);
            let compiled = if unknown.is_empty() { compile(&spec).map(Arc::new) } else { Err(unknown) };
            (meta, spec, status, compiled)
        }
        Err(left) => (left.metadata, Spec::default(), None, Err(vec![left.problem])),
    };
    let ours = |(key, _): &(String, String)| key.starts_with("copyrator.dev/");
    let annotations: BTreeMap<String, String> =
        meta.annotations.unwrap_or_default().into_iter().filter(ours).collect();
    Declared {
        uid: meta.uid.unwrap_or_default().into(),
        resource_version: meta.resource_version.unwrap_or_default().into(),
        generation: meta.generation.unwrap_or_default(),
        created: meta.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        annotations,
        spec,
        compiled,
        status,
    }
}

/// Whether a version changes more than a status that Copyrator wrote itself.
fn matters<S, C, T>(old: Option<&Declared<S, C, T>>, new: &Declared<S, C, T>) -> bool {
    old.is_none_or(|old| {
        old.uid != new.uid || old.generation != new.generation || old.annotations != new.annotations
    })
}

/// When we last recorded the content that a monitor's pods run: the time of a field manager that writes only
/// this record.
fn pods_recorded(meta: &ObjectMeta) -> Option<Timestamp> {
    let entries = meta.managed_fields.iter().flatten();
    let mut ours = entries.filter(|entry| entry.manager.as_deref() == Some(PODS_MANAGER));
    ours.find_map(|entry| entry.time.as_ref().map(|time| time.0))
}

/// When a user asked a monitor to restart now. The time of the write counts; the value has no meaning.
fn restart_now(meta: &ObjectMeta) -> Option<Timestamp> {
    let field = format!("f:{RESTART_NOW}");
    let owners = meta.managed_fields.iter().flatten().filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0["f:metadata"]["f:annotations"]);
        fields.is_some_and(|annotations| annotations.get(&field).is_some())
    });
    owners.filter_map(|entry| entry.time.as_ref().map(|time| time.0)).max()
}

impl Watched for AsWritten<CopyratorRule> {
    const STORE: Store = Store::CopyratorRules;

    fn named(meta: &ObjectMeta) -> Changed {
        Changed::Rule(Declarer::Rule(namespaced(meta)))
    }

    fn undecodable(left: &Unreadable) -> Option<Self> {
        Some(Self::left_of(left))
    }

    fn put(self, world: &mut World, _now: Timestamp) -> bool {
        let key = Declarer::Rule(namespaced(self.meta()));
        let facts = declare(
            self,
            |rule| (rule.metadata, rule.spec, rule.status),
            |spec| CompiledRule::compile(spec, &world.settings().template_kinds),
        );
        let matters = matters(world.rules().get(&key), &facts);
        world.set_rule(key, facts);
        matters
    }

    fn forget(changed: &Changed, world: &mut World) {
        if let Changed::Rule(key) = changed {
            world.forget_rule(key);
        }
    }

    /// The known rules without those that annotations declare, which appear and disappear with their sources.
    fn known(world: &World) -> Vec<Changed> {
        let written = world.rules().keys().filter(|rule| rule.as_annotated().is_none());
        written.cloned().map(Changed::Rule).collect()
    }
}

impl Watched for AsWritten<CopyratorTemplate> {
    const STORE: Store = Store::CopyratorTemplates;

    fn named(meta: &ObjectMeta) -> Changed {
        Changed::Template(Declarer::Template(namespaced(meta)))
    }

    fn undecodable(left: &Unreadable) -> Option<Self> {
        Some(Self::left_of(left))
    }

    fn put(self, world: &mut World, now: Timestamp) -> bool {
        self.prepare(now)(world)
    }

    /// Compiling expressions uses threads of its own, and takes milliseconds.
    fn prepare(self, _now: Timestamp) -> impl FnOnce(&mut World) -> bool {
        let key = Declarer::Template(namespaced(self.meta()));
        let parts = |template: CopyratorTemplate| {
            (template.metadata, template.spec, template.status.map(CopyratorRuleStatus::from))
        };
        let facts = declare(self, parts, CompiledTemplate::compile_served);
        move |world| {
            let matters = matters(world.templates().get(&key), &facts);
            world.set_template(key, facts);
            matters
        }
    }

    fn forget(changed: &Changed, world: &mut World) {
        if let Changed::Template(key) = changed {
            world.forget_template(key);
        }
    }

    fn known(world: &World) -> Vec<Changed> {
        world.templates().keys().cloned().map(Changed::Template).collect()
    }
}

impl Watched for AsWritten<ConfigMonitor> {
    const STORE: Store = Store::ConfigMonitors;

    fn named(meta: &ObjectMeta) -> Changed {
        Changed::Monitor(Declarer::Monitor(namespaced(meta)))
    }

    fn undecodable(left: &Unreadable) -> Option<Self> {
        Some(Self::left_of(left))
    }

    fn put(self, world: &mut World, _now: Timestamp) -> bool {
        let key = Declarer::Monitor(namespaced(self.meta()));
        let (recorded, restart_now) = (pods_recorded(self.meta()), restart_now(self.meta()));
        let facts = declare(
            self,
            |monitor| (monitor.metadata, monitor.spec, monitor.status),
            CompiledMonitor::compile,
        );
        let matters = matters(world.monitors().get(&key), &facts);
        world.set_pods_recorded(&key, recorded);
        world.set_restart_now(&key, restart_now);
        world.set_monitor(key, facts);
        matters
    }

    fn forget(changed: &Changed, world: &mut World) {
        if let Changed::Monitor(key) = changed {
            world.forget_monitor(key);
        }
    }

    /// The known monitors without those that annotations declare, which appear and disappear with the
    /// annotated objects.
    fn known(world: &World) -> Vec<Changed> {
        let written = world.monitors().keys().filter(|monitor| monitor.as_annotated().is_none());
        written.cloned().map(Changed::Monitor).collect()
    }
}

impl Watched for AsWritten<ConfigPolicy> {
    const STORE: Store = Store::ConfigPolicies;

    fn named(meta: &ObjectMeta) -> Changed {
        Changed::Policy(name(meta))
    }

    fn undecodable(left: &Unreadable) -> Option<Self> {
        Some(Self::left_of(left))
    }

    fn put(self, world: &mut World, now: Timestamp) -> bool {
        self.prepare(now)(world)
    }

    /// Compiling expressions uses threads of its own, and takes milliseconds.
    fn prepare(self, _now: Timestamp) -> impl FnOnce(&mut World) -> bool {
        let key = name(self.meta());
        let facts =
            declare(self, |policy| (policy.metadata, policy.spec, policy.status), CompiledPolicy::compile);
        move |world| {
            let matters = matters(world.policies().get(&key), &facts);
            world.set_policy(key, facts);
            matters
        }
    }

    fn forget(changed: &Changed, world: &mut World) {
        if let Changed::Policy(name) = changed {
            world.forget_policy(name);
        }
    }

    fn known(world: &World) -> Vec<Changed> {
        world.policies().keys().cloned().map(Changed::Policy).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_monitor_says_when_its_pods_were_recorded() {
        let monitor = |manager: &str| -> AsWritten<ConfigMonitor> {
            let entries = json!([
                {"manager": "copyrator-status", "operation": "Apply", "time": "2026-01-01T00:00:09Z"},
                {"manager": manager, "operation": "Apply", "time": "2026-01-01T00:00:05Z"},
            ]);
            let metadata = json!({"namespace": "shop", "name": "web", "uid": "u", "managedFields": entries});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"watch": []}})).unwrap()
        };
        let (mut world, name) = (World::default(), Declarer::monitor("shop", "web"));
        monitor("copyrator-pods").put(&mut world, Timestamp::UNIX_EPOCH);
        let recorded = world.pods_recorded(&name).map(|at| at.to_string());
        assert_eq!(recorded.as_deref(), Some("2026-01-01T00:00:05Z"));
        monitor("somebody").put(&mut world, Timestamp::UNIX_EPOCH);
        assert_eq!(world.pods_recorded(&name), None);
    }

    #[test]
    fn a_monitor_says_when_it_was_told_to_restart_now() {
        let monitor = |fields: serde_json::Value| -> AsWritten<ConfigMonitor> {
            let entries = json!([
                {"manager": "flux", "operation": "Apply", "time": "2026-01-01T00:00:09Z",
                    "fieldsV1": {"f:metadata": {"f:annotations": {"f:other": {}}}}},
                {"manager": "kubectl-annotate", "operation": "Update", "time": "2026-01-01T00:00:05Z",
                    "fieldsV1": {"f:metadata": {"f:annotations": fields}}},
            ]);
            let metadata = json!({"namespace": "shop", "name": "web", "uid": "u", "managedFields": entries});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"watch": []}})).unwrap()
        };
        let (mut world, name) = (World::default(), Declarer::monitor("shop", "web"));
        monitor(json!({"f:copyrator.dev/restart-now": {}})).put(&mut world, Timestamp::UNIX_EPOCH);
        let told = world.restart_now(&name).map(|at| at.to_string());
        assert_eq!(told.as_deref(), Some("2026-01-01T00:00:05Z"));
        monitor(json!({})).put(&mut world, Timestamp::UNIX_EPOCH);
        assert_eq!(world.restart_now(&name), None);
    }
}
