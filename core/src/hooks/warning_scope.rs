//! The writes that have consequences to warn of. The hook for warnings asks about no other writes.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhook,
    apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement,
};

use super::{
    needs::NAMESPACES,
    passing_by::{exempt_by_condition, names_every_version},
};
use crate::{
    api::DataKind,
    model::{MonitorFacts, RuleFacts, WorkloadFacts, World},
    names::{Kind, NamespacedName, WorkloadKey},
    plan::Key,
};

/// The resource of rules.
const RULES: &str = "copyratorrules";
/// A hook names at most this many namespaces; beyond that it asks about all.
const MOST_NAMED: usize = 256;

/// The namespaces in which writes of a kind have consequences.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Namespaces {
    Named(BTreeSet<Arc<str>>),
    All,
}

/// The writes that have consequences to warn of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarningScope {
    config_maps: Namespaces,
    secrets: Namespaces,
    /// Whether there are rules: a new or relabelled namespace may then get copies, and deleting a rule has
    /// consequences.
    rules: bool,
}

impl Default for WarningScope {
    fn default() -> Self {
        Self { config_maps: Namespaces::none(), secrets: Namespaces::none(), rules: false }
    }
}

impl Namespaces {
    fn none() -> Self {
        Self::Named(BTreeSet::new())
    }

    fn add(&mut self, namespace: &str) {
        match self {
            Self::Named(names) if names.contains(namespace) => {}
            Self::Named(names) if names.len() < MOST_NAMED => drop(names.insert(namespace.into())),
            _ => *self = Self::All,
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Named(_), Self::All) => false,
            (Self::Named(these), Self::Named(those)) => those.is_subset(these),
        }
    }
}

impl WarningScope {
    /// All writes, for a process that does not know the cluster.
    pub fn of_anything() -> Self {
        Self { config_maps: Namespaces::All, secrets: Namespaces::All, rules: true }
    }

    /// Writes of sources, of objects that a monitor watches, and of objects that a workload's own annotation
    /// names.
    pub fn of(world: &World) -> Self {
        let mut warned = Self::default();
        world.rules().iter().for_each(|(name, facts)| warned.add_rule(name, facts));
        world.monitors().iter().for_each(|(name, facts)| warned.add_monitor(name, facts));
        if world.settings().annotations {
            world.workloads().iter().for_each(|(key, facts)| warned.add_workload(key, facts));
        }
        warned
    }

    /// The same for one key's rule, monitor or workload.
    pub fn of_one(world: &World, key: &Key) -> Self {
        let mut warned = Self::default();
        match key {
            Key::Rule(name) => world.rules().get(name).into_iter().for_each(|it| warned.add_rule(name, it)),
            Key::Monitor(name) => {
                world.monitors().get(name).into_iter().for_each(|it| warned.add_monitor(name, it));
            }
            Key::Workload(key) if world.settings().annotations => {
                world.workloads().get(key).into_iter().for_each(|it| warned.add_workload(key, it));
            }
            _ => {}
        }
        warned
    }

    fn add_rule(&mut self, name: &NamespacedName, facts: &RuleFacts) {
        let compiled = facts.compiled.as_deref().ok().filter(|it| !it.suspend && !is_refused(facts));
        let Some(compiled) = compiled else { return };
        self.rules = true;
        // No hook warns of what writes of the other kinds bring about.
        let Some(kind) = compiled.kind.data() else { return };
        let places = self.of_kind(kind);
        match compiled.source_namespaces.as_slice() {
            [] => places.add(&name.namespace),
            named => named.iter().for_each(|namespace| places.add(namespace)),
        }
    }

    fn add_monitor(&mut self, name: &NamespacedName, facts: &MonitorFacts) {
        let Some(compiled) = facts.compiled.as_deref().ok().filter(|it| !it.suspend) else { return };
        let kinds = compiled.watch.iter().filter_map(|term| term.kind.data());
        kinds.for_each(|kind| self.of_kind(kind).add(&name.namespace));
    }

    fn add_workload(&mut self, key: &WorkloadKey, facts: &WorkloadFacts) {
        asked_kinds(facts).for_each(|kind| self.of_kind(kind).add(&key.namespace));
    }

    /// Whether hooks for this ask about every write that the other needs.
    pub fn covers(&self, other: &Self) -> bool {
        self.config_maps.covers(&other.config_maps)
            && self.secrets.covers(&other.secrets)
            && (self.rules || !other.rules)
    }

    fn of_kind(&mut self, kind: DataKind) -> &mut Namespaces {
        match kind {
            DataKind::ConfigMap => &mut self.config_maps,
            DataKind::Secret => &mut self.secrets,
        }
    }

    /// The entries, one for each resource, each made from the one that is written in `webhook-config/`.
    pub(super) fn entries(&self, written: &ValidatingWebhook) -> Vec<ValidatingWebhook> {
        let one = |resource: &str| {
            let mut entry = written.clone();
            entry.name = format!("{resource}.{}", written.name);
            let rules = entry.rules.get_or_insert_default();
            rules.retain(|rule| rule.resources.iter().flatten().any(|of| of == resource));
            if names_every_version(rules) {
                entry.match_policy = Some("Exact".into());
                match resource {
                    NAMESPACES => exempt_by_condition(&mut entry, "request.name"),
                    _ => entry.namespace_selector = None,
                }
            }
            let places = match resource {
                "configmaps" => &self.config_maps,
                "secrets" => &self.secrets,
                NAMESPACES | RULES if !self.rules => return None,
                _ => &Namespaces::All,
            };
            if let Namespaces::Named(names) = places {
                let requirement = LabelSelectorRequirement {
                    key: "kubernetes.io/metadata.name".into(),
                    operator: "In".into(),
                    values: Some(names.iter().map(ToString::to_string).collect()),
                };
                let selector = entry.namespace_selector.get_or_insert_default();
                selector.match_expressions.get_or_insert_default().push(requirement);
                if names.is_empty() {
                    return None;
                }
            }
            Some(entry)
        };
        let mut resources: Vec<&String> =
            written.rules.iter().flatten().flat_map(|rule| rule.resources.iter().flatten()).collect();
        resources.dedup();
        resources.into_iter().filter_map(|resource| one(resource)).collect()
    }
}

/// Whether the API server has said that the rule's author may not do what it declares.
fn is_refused(rule: &RuleFacts) -> bool {
    let conditions = rule.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|one| one.type_ == "Authorized" && one.status == "False")
}

/// The kinds of objects that a workload restarts for by its own annotation.
fn asked_kinds(facts: &WorkloadFacts) -> impl Iterator<Item = DataKind> {
    let text = facts.restarts.restart.as_deref().map_or("false", str::trim);
    DataKind::ALL.into_iter().filter(move |kind| match text {
        "false" => false,
        "true" => facts.references.iter().any(|reference| reference.kind == Kind::from(*kind)),
        listed => listed
            .split(',')
            .filter_map(|one| one.trim().split_once('/'))
            .any(|(listed, _)| listed.eq_ignore_ascii_case(Kind::from(*kind).resource().kind)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{api::CopyratorRuleSpec, model::Declared, validate::CompiledRule};

    fn world(rules: &[(&str, serde_json::Value)]) -> World {
        let mut world = World::default();
        for (namespace, spec) in rules {
            let spec: CopyratorRuleSpec = serde_json::from_value(spec.clone()).unwrap();
            let facts = Declared {
                uid: "u".into(),
                resource_version: "".into(),
                generation: 1,
                created: jiff::Timestamp::UNIX_EPOCH,
                annotations: Default::default(),
                compiled: Ok(Arc::new(CompiledRule::compile(&spec, &Default::default()).unwrap())),
                spec,
                status: None,
            };
            world.set_rule(NamespacedName::new(*namespace, "rule"), facts);
        }
        world
    }

    fn entries(warned: &WarningScope) -> Vec<String> {
        let rule =
            |resource: &str, operations: &[&str]| json!({"resources": [resource], "operations": operations});
        let written: ValidatingWebhook = serde_json::from_value(json!({
            "name": "warnings", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {},
            "rules": [rule("configmaps", &["UPDATE"]), rule("secrets", &["UPDATE"]), rule("namespaces", &["CREATE"]),
                rule("copyratorrules", &["DELETE"])],
        }))
        .unwrap();
        let brief = |entry: ValidatingWebhook| {
            let names = entry.namespace_selector.and_then(|it| it.match_expressions).into_iter().flatten();
            let names = names.flat_map(|one| one.values.unwrap_or_default()).collect::<Vec<_>>().join(",");
            format!("{} {names}", entry.name).trim_end().to_owned()
        };
        warned.entries(&written).into_iter().map(brief).collect()
    }

    #[test]
    fn nothing_is_sent_that_nothing_needs() {
        assert!(entries(&WarningScope::of(&world(&[]))).is_empty());
        let targets = json!([{"names": ["web"]}]);
        let some = world(&[
            ("a", json!({"source": {"kind": "Secret", "names": ["x"]}, "targets": targets})),
            (
                "b",
                json!({"source": {"kind": "Secret", "names": ["x"], "namespaces": ["c", "d"]}, "targets": targets}),
            ),
            (
                "e",
                json!({"source": {"kind": "ConfigMap", "names": ["x"]}, "targets": targets, "suspend": true}),
            ),
        ]);
        let warned = WarningScope::of(&some);
        assert_eq!(
            entries(&warned),
            ["secrets.warnings a,c,d", "namespaces.warnings", "copyratorrules.warnings"]
        );
        assert!(warned.covers(&WarningScope::default()) && !WarningScope::default().covers(&warned));
        let all = WarningScope::of_anything();
        assert!(all.covers(&warned) && !warned.covers(&all));
        assert_eq!(
            entries(&all),
            ["configmaps.warnings", "secrets.warnings", "namespaces.warnings", "copyratorrules.warnings"]
        );
    }

    #[test]
    fn beyond_a_number_of_namespaces_all_are_asked_about() {
        let spec = json!({"source": {"kind": "ConfigMap", "names": ["x"]}, "targets": [{"names": ["web"]}]});
        let names: Vec<String> = (0..=MOST_NAMED).map(|number| format!("n{number:03}")).collect();
        let rules: Vec<(&str, serde_json::Value)> =
            names.iter().map(|name| (&**name, spec.clone())).collect();
        assert_eq!(entries(&WarningScope::of(&world(&rules)))[0], "configmaps.warnings");
        assert!(entries(&WarningScope::of(&world(&rules[1..])))[0].contains("n256"));
    }
}
