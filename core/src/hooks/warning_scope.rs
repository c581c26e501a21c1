//! The writes that have consequences to warn of. The hook for warnings covers no other writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::admissionregistration::v1::{MatchCondition, RuleWithOperations, ValidatingWebhook},
    apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement,
};

use super::{
    needs::NAMESPACES,
    passing_by::{exempt_by_condition, names_every_version},
};
use crate::{
    api::{CopyratorRuleStatus, DataKind},
    model::{Declared, MonitorFacts, RuleFacts, TemplateFacts, WorkloadFacts, World},
    names::{Declarer, Kind, WorkloadKey},
    plan::Key,
    validate::Instances,
};

/// The resource of rules.
const RULES: &str = "copyratorrules";
/// The maximum number of namespaces that a hook names; with more, the hook covers all namespaces.
const MOST_NAMED: usize = 256;
/// The maximum number of labels that the condition of a hook names; with more, the hook covers all labels.
const MOST_LABELS: usize = 64;
/// The condition of the hook in `webhook-config/` that the hooks for instances keep.
const NOT_KUBERNETES_OWN: &str = "not-kubernetes-own-hands";

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
    /// Whether rules exist, whose deletion has consequences.
    rules: bool,
    /// Whether rules or templates exist, for which a new or relabelled namespace may get objects.
    namespaces: bool,
    /// The labels by which templates select the objects that they are rendered for, by group and plural of
    /// these objects.
    instances: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Default for WarningScope {
    fn default() -> Self {
        Self {
            config_maps: Namespaces::none(),
            secrets: Namespaces::none(),
            rules: false,
            namespaces: false,
            instances: BTreeMap::new(),
        }
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
    /// The scope of all writes of kinds that every installation has, for a process that does not know the
    /// cluster.
    pub fn of_anything() -> Self {
        Self {
            config_maps: Namespaces::All,
            secrets: Namespaces::All,
            rules: true,
            namespaces: true,
            instances: BTreeMap::new(),
        }
    }

    /// The scope of the world: writes of rules, sources and namespaces, of objects that templates select by
    /// labels, of objects that a monitor watches, and of objects that a workload's own annotation names.
    pub fn of(world: &World) -> Self {
        let mut warned = Self::default();
        world.rules().iter().for_each(|(name, facts)| warned.add_rule(name, facts));
        world.templates().values().for_each(|facts| warned.add_template(world, facts));
        world.monitors().iter().for_each(|(name, facts)| warned.add_monitor(name, facts));
        if world.settings().annotations {
            world.workloads().iter().for_each(|(key, facts)| warned.add_workload(key, facts));
        }
        warned
    }

    /// The scope for one key's rule, template, monitor or workload.
    pub fn of_one(world: &World, key: &Key) -> Self {
        let mut warned = Self::default();
        match key {
            Key::Rule(name) => {
                world.rules().get(name).into_iter().for_each(|it| warned.add_rule(name, it));
                world.templates().get(name).into_iter().for_each(|it| warned.add_template(world, it));
            }
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

    fn add_rule(&mut self, name: &Declarer, facts: &RuleFacts) {
        let compiled = facts.compiled.as_deref().ok().filter(|it| !it.suspend && !is_refused(facts));
        let Some(compiled) = compiled else { return };
        (self.rules, self.namespaces) = (true, true);
        // The hook for warnings does not cover writes of the other kinds.
        let Some(kind) = compiled.kind.data() else { return };
        let places = self.of_kind(kind);
        match compiled.source_namespaces.as_slice() {
            [] => places.add(name.namespace()),
            named => named.iter().for_each(|namespace| places.add(namespace)),
        }
    }

    fn add_template(&mut self, world: &World, facts: &TemplateFacts) {
        let compiled = facts.compiled.as_deref().ok().filter(|it| !it.suspend && !is_refused(facts));
        let Some(compiled) = compiled else { return };
        self.namespaces = true;
        let Instances::Objects { kind, selector: Some(selector), .. } = &compiled.instances else { return };
        let Some(granted) = world.settings().template_kind(kind) else { return };
        let labels: BTreeSet<String> = selector.keys().map(str::to_owned).collect();
        if !labels.is_empty() {
            let kind = (kind.group().to_owned(), granted.plural.clone());
            self.instances.entry(kind).or_default().extend(labels);
        }
    }

    fn add_monitor(&mut self, name: &Declarer, facts: &MonitorFacts) {
        let Some(compiled) = facts.compiled.as_deref().ok().filter(|it| !it.suspend) else { return };
        let kinds = compiled.watch.iter().filter_map(|term| term.kind.data());
        kinds.for_each(|kind| self.of_kind(kind).add(name.namespace()));
    }

    fn add_workload(&mut self, key: &WorkloadKey, facts: &WorkloadFacts) {
        asked_kinds(facts).for_each(|kind| self.of_kind(kind).add(&key.namespace));
    }

    /// Whether hooks for this scope cover every write that `other` needs.
    pub fn covers(&self, other: &Self) -> bool {
        self.config_maps.covers(&other.config_maps)
            && self.secrets.covers(&other.secrets)
            && (self.rules || !other.rules)
            && (self.namespaces || !other.namespaces)
            && other
                .instances
                .iter()
                .all(|(kind, labels)| self.instances.get(kind).is_some_and(|these| labels.is_subset(these)))
    }

    fn of_kind(&mut self, kind: DataKind) -> &mut Namespaces {
        match kind {
            DataKind::ConfigMap => &mut self.config_maps,
            DataKind::Secret => &mut self.secrets,
        }
    }

    /// The entries of the hook for warnings: one for each resource, made from the entry in `webhook-config/`.
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
                NAMESPACES if !self.namespaces => return None,
                RULES if !self.rules => return None,
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
        let of_instances = self
            .instances
            .iter()
            .map(|((group, plural), labels)| of_instances(written, group, plural, labels));
        resources.into_iter().filter_map(|resource| one(resource)).chain(of_instances).collect()
    }
}

/// The entry for objects that templates are rendered for. The entry covers only updates that change one of
/// the labels.
fn of_instances(
    written: &ValidatingWebhook,
    group: &str,
    plural: &str,
    labels: &BTreeSet<String>,
) -> ValidatingWebhook {
    let mut entry = written.clone();
    let of = if group.is_empty() { "core" } else { group };
    entry.name = format!("{plural}.{of}.instances.{}", written.name);
    entry.rules = Some(vec![RuleWithOperations {
        api_groups: Some(vec![group.to_owned()]),
        api_versions: Some(vec!["*".into()]),
        resources: Some(vec![plural.to_owned()]),
        operations: Some(vec!["UPDATE".into()]),
        scope: Some("Namespaced".into()),
    }]);
    entry.match_policy = Some("Exact".into());
    let conditions = entry.match_conditions.get_or_insert_default();
    conditions.retain(|condition| condition.name == NOT_KUBERNETES_OWN);
    let expression = match labels.len() <= MOST_LABELS {
        true => {
            let quoted: Vec<String> = labels.iter().map(|label| format!("'{label}'")).collect();
            format!(
                "[{}].exists(key, object.metadata.?labels[?key] != oldObject.metadata.?labels[?key])",
                quoted.join(", ")
            )
        }
        false => "object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({})".to_owned(),
    };
    conditions.insert(0, MatchCondition { name: "a-template-selects-by-it".into(), expression });
    exempt_by_condition(&mut entry, "request.namespace");
    entry
}

/// Whether the API server has answered that the author of a rule or template lacks a declared right.
fn is_refused<Spec, Compiled>(declared: &Declared<Spec, Compiled, CopyratorRuleStatus>) -> bool {
    let conditions = declared.status.iter().flat_map(|status| &status.conditions);
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
    use crate::{
        api::{CopyratorRuleSpec, CopyratorTemplateSpec},
        names::{GrantedKinds, TemplateKind},
        validate::{CompiledRule, CompiledTemplate},
    };

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
            world.set_rule(Declarer::rule(*namespace, "rule"), facts);
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

    /// Returns a template for objects with these labels, among granted kinds.
    fn with_template(world: &mut World, name: &str, for_each: serde_json::Value) {
        let granted =
            TemplateKind::read("apps.example.com/v1/WebApp/webapps/forEach", &GrantedKinds::default());
        world.settings_mut().template_kinds = [granted.unwrap()].into();
        let template = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let spec = json!({"forEach": for_each, "objects": [{"id": "a", "template": template}]});
        let spec: CopyratorTemplateSpec = serde_json::from_value(spec).unwrap();
        let facts = Declared {
            uid: "u".into(),
            resource_version: "".into(),
            generation: 1,
            created: jiff::Timestamp::UNIX_EPOCH,
            annotations: Default::default(),
            compiled: Ok(Arc::new(CompiledTemplate::compile(&spec).unwrap())),
            spec,
            status: None,
        };
        world.set_template(Declarer::template("home", name), facts);
    }

    /// Writes of unaffected objects cost next to nothing: the API server does not call the webhook for them.
    #[test]
    fn of_instances_only_the_labels_are_asked_about_that_a_template_selects_by() {
        let of_kind = |selector: serde_json::Value| {
            let objects =
                json!({"apiVersion": "apps.example.com/v1", "kind": "WebApp", "objectSelector": selector});
            json!({ "objects": objects })
        };
        let mut world = World::default();
        with_template(&mut world, "all", of_kind(json!(null)));
        assert_eq!(entries(&WarningScope::of(&world)), ["namespaces.warnings"], "labels select nothing");
        with_template(&mut world, "some", of_kind(json!({"matchLabels": {"stateful": "yes"}})));
        let some = WarningScope::of(&world);
        let keys = json!([{"key": "tier", "operator": "Exists"}]);
        with_template(&mut world, "more", of_kind(json!({ "matchExpressions": keys })));
        let more = WarningScope::of(&world);
        assert!(more.covers(&some) && !some.covers(&more));
        let one = WarningScope::of_one(&world, &Key::Rule(Declarer::template("home", "more")));
        assert!(more.covers(&one) && !some.covers(&one));

        let written: ValidatingWebhook = serde_json::from_value(json!({
            "name": "warnings.copyrator.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {}, "failurePolicy": "Ignore", "timeoutSeconds": 1, "matchPolicy": "Equivalent",
            "rules": [{"resources": ["namespaces"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]},
            "matchConditions": [{"name": "not-the-root-ca", "expression": "x"}, {"name": NOT_KUBERNETES_OWN, "expression": "y"}],
        }))
        .unwrap();
        let entry = more.entries(&written).pop().unwrap();
        let expected = json!({
            "name": "webapps.apps.example.com.instances.warnings.copyrator.dev", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "clientConfig": {}, "failurePolicy": "Ignore", "timeoutSeconds": 1, "matchPolicy": "Exact",
            "rules": [{"apiGroups": ["apps.example.com"], "apiVersions": ["*"], "resources": ["webapps"],
                "operations": ["UPDATE"], "scope": "Namespaced"}],
            "matchConditions": [
                {"name": "not-the-system", "expression": "!(request.namespace in ['kube-system'])"},
                {"name": "a-template-selects-by-it", "expression": "['stateful', 'tier'].exists(key, \
                    object.metadata.?labels[?key] != oldObject.metadata.?labels[?key])"},
                {"name": NOT_KUBERNETES_OWN, "expression": "y"},
            ],
        });
        assert_eq!(serde_json::to_value(entry).unwrap(), expected);
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
