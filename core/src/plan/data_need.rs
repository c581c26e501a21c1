//! Where ConfigMaps and Secrets must be known, and no more: with no rule in sight, their writes concern nobody here.
//!
//! Every plan reads objects of the namespaces that are named here, and of no other. What is left out: an object that is neither in
//! such a namespace nor has a label of ours is not told that its annotations are misspelt or lack the label beside them.

use std::{borrow::Borrow, sync::Arc};

use super::{
    Changed,
    copy::{
        claims::{namespaces_meant, source_namespaces},
        targets::{is_named, takes_copies, targets},
        templates::{instances, instances_in},
    },
    policy::scan::{is_exempt, judging},
};
use crate::{
    api::{DataKind, PolicyKind},
    model::{DATA_KINDS, DataNeed, NamespaceFacts, PolicyFacts, WorkloadFacts, World},
    names::{NamespacedName, ObjectKey},
    validate::{CompiledRule, CompiledTemplate},
};

/// Where objects must be known for everything that there is. Our own are among them.
pub fn needed(world: &World) -> DataNeed {
    let mut need = DataNeed::in_namespace(&world.settings().own_namespace);
    world.rules().keys().for_each(|rule| of_rule(world, rule, &mut need));
    world.templates().keys().for_each(|template| of_template(world, template, &mut need));
    world.policies().values().for_each(|facts| of_policy(world, facts, &mut need));
    world.monitors().keys().for_each(|monitor| need.add_both(&monitor.namespace));
    for (key, _) in world.workloads().iter().filter(|(_, facts)| is_looked_at(facts)) {
        need.add_both(&key.namespace);
    }
    world.copies().for_each(|copy| of_copy(world, copy, &mut need));
    world.data_scope().into_iter().flat_map(|scope| scope.labelled()).for_each(|key| itself(key, &mut need));
    need
}

/// Where objects must be known besides, after this has changed: together with what was needed before, that is all of [`needed`].
pub fn needed_by(world: &World, changed: &Changed) -> DataNeed {
    let mut need = DataNeed::default();
    match changed {
        Changed::Namespace(name) => of_namespace(world, name, &mut need),
        Changed::Rule(rule) => of_rule(world, rule, &mut need),
        Changed::Template(template) => of_template(world, template, &mut need),
        Changed::Policy(name) => {
            world.policies().get(name).into_iter().for_each(|facts| of_policy(world, facts, &mut need));
        }
        Changed::Monitor(name) => need.add_both(&name.namespace),
        Changed::Workload(key) => {
            if world.workloads().get(key).is_some_and(|facts| is_looked_at(facts)) {
                need.add_both(&key.namespace);
            }
        }
        Changed::Object(key) => {
            of_copy(world, key, &mut need);
            let declared = key.annotation_rule();
            of_rule(world, &declared, &mut need);
            if world.monitors().contains_key(&declared) {
                need.add_both(&key.namespace);
            }
            if world.data_scope().is_some_and(|scope| scope.is_labelled(key)) {
                itself(key, &mut need);
            }
        }
        Changed::Instance(kind, name) => {
            for (template, facts) in world.templates() {
                let Ok(compiled) = &facts.compiled else { continue };
                if compiled.instance_kind() == Some(kind) {
                    of_template_in(world, template, compiled, &name.namespace, &mut need);
                }
            }
        }
        Changed::Instances(_) | Changed::Granted(_) | Changed::SourceIndex => {}
    }
    need
}

fn itself(key: &ObjectKey, need: &mut DataNeed) {
    if let Some(kind) = key.kind.data() {
        need.add(kind, &key.namespace);
    }
}

/// The sources of a rule, and the places of its copies, whether it may write or not: others are kept from overwriting its sources. An
/// invalid one may have any where its sources are.
fn of_rule(world: &World, rule: &NamespacedName, need: &mut DataNeed) {
    let Some(facts) = world.rules().get(rule) else { return };
    match (&facts.compiled, rule.annotated()) {
        (Ok(compiled), _) => {
            if let Some(kind) = compiled.kind.data() {
                source_namespaces(rule, compiled).for_each(|name| need.add(kind, &name.into()));
            }
            if let Some(kind) = compiled.shape.kind.data() {
                in_each(need, kind, targets(world, compiled));
            }
        }
        (Err(_), Some(source)) => itself(&source, need),
        (Err(_), None) => {
            namespaces_meant(rule, facts).into_iter().for_each(|name| need.add_both(&name.into()));
        }
    }
}

/// The places of what a template declares.
fn of_template(world: &World, template: &NamespacedName, need: &mut DataNeed) {
    let Some(Ok(compiled)) = world.templates().get(template).map(|facts| &facts.compiled) else { return };
    for kind in declared(world, compiled) {
        in_each(need, kind, instances(world, template, compiled).map(|instance| instance.namespace));
    }
}

fn of_template_in(
    world: &World,
    template: &NamespacedName,
    compiled: &CompiledTemplate,
    namespace: &Arc<str>,
    need: &mut DataNeed,
) {
    for kind in declared(world, compiled) {
        if instances_in(world, template, compiled, namespace).next().is_some() {
            need.add(kind, namespace);
        }
    }
}

fn declared(world: &World, compiled: &CompiledTemplate) -> impl Iterator<Item = DataKind> {
    compiled.kinds(&world.settings().template_kinds).filter_map(|kind| kind.data())
}

/// Everything that a policy is about: each change of it is judged anew.
fn of_policy(world: &World, facts: &PolicyFacts, need: &mut DataNeed) {
    let Some(policy) = judging(facts) else { return };
    for kind in judged(facts) {
        let reached = |(name, facts): &(&Arc<str>, &NamespaceFacts)| {
            !is_exempt(world, name) && policy.reaches(name, &facts.labels)
        };
        in_each(need, kind, world.namespaces().iter().filter(reached).map(|(name, _)| name));
    }
}

fn judged(facts: &PolicyFacts) -> impl Iterator<Item = DataKind> {
    DATA_KINDS.into_iter().filter(|kind| facts.spec.match_.kinds.contains(&PolicyKind::from(*kind)))
}

/// Of everything that selects namespaces, what selects this one.
fn of_namespace(world: &World, name: &Arc<str>, need: &mut DataNeed) {
    let Some(facts) = world.namespaces().get(name) else { return };
    let targets_it =
        |compiled: &CompiledRule| takes_copies(world, name, facts) && is_named(compiled, name, facts);
    let rules = world.rules().values().filter_map(|facts| facts.compiled.as_deref().ok());
    for compiled in rules {
        if let Some(kind) = compiled.shape.kind.data().filter(|_| targets_it(compiled)) {
            need.add(kind, name);
        }
    }
    for (template, facts) in world.templates() {
        if let Ok(compiled) = &facts.compiled {
            of_template_in(world, template, compiled, name, need);
        }
    }
    for policy in world.policies().values() {
        let reaches = judging(policy).is_some_and(|it| it.reaches(name, &facts.labels));
        if reaches && !is_exempt(world, name) {
            judged(policy).for_each(|kind| need.add(kind, name));
        }
    }
}

/// Whether a workload restarts by its own annotation, or has a record.
fn is_looked_at(facts: &WorkloadFacts) -> bool {
    facts.restarts.restart.is_some() || facts.restarts.applied.is_some()
}

/// The object that declares the rule of a copy: where it has lost its label it is found by nothing else, and the copies of such an
/// object stay.
fn of_copy(world: &World, copy: &ObjectKey, need: &mut DataNeed) {
    let marks = world.object(copy).and_then(|facts| facts.marks.as_deref());
    let source = marks.and_then(|marks| marks.rule.annotated());
    source.into_iter().for_each(|source| itself(&source, need));
}

/// Adds namespaces until all are.
fn in_each(need: &mut DataNeed, kind: DataKind, namespaces: impl Iterator<Item = impl Borrow<Arc<str>>>) {
    for namespace in namespaces {
        if need.is_all(kind) {
            return;
        }
        need.add(kind, namespace.borrow());
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Secret},
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        api::{ConfigMonitor, ConfigPolicy, CopyratorRule, CopyratorTemplate},
        intake::{
            AsWritten,
            labelled::{Labelled, OfDeclaring},
            object::Slim,
            watched::Watched,
            workload::Workload,
        },
        model::{DataScope, Span},
    };

    type Put = fn(&mut World, Value) -> Changed;

    fn put<W: Watched>(world: &mut World, object: Value) -> Changed {
        let object: W = serde_json::from_value(object).unwrap();
        let changed = object.changed();
        object.put(world, Timestamp::UNIX_EPOCH);
        changed
    }

    fn by_kind(kind: &str) -> Put {
        match kind {
            "Namespace" => put::<Namespace>,
            "ConfigMap" => put::<Slim<ConfigMap>>,
            "Secret" => put::<Slim<Secret>>,
            "LabelledSecret" => put::<Labelled<Secret, OfDeclaring>>,
            "Deployment" => put::<Workload<Deployment>>,
            "ConfigMonitor" => put::<AsWritten<ConfigMonitor>>,
            "ConfigPolicy" => put::<AsWritten<ConfigPolicy>>,
            "CopyratorRule" => put::<AsWritten<CopyratorRule>>,
            "CopyratorTemplate" => put::<AsWritten<CopyratorTemplate>>,
            other => panic!("{other}"),
        }
    }

    fn object(kind: &str, place: &str, rest: Value) -> (String, Value) {
        let version = match kind {
            "Namespace" | "ConfigMap" | "Secret" | "LabelledSecret" => "v1",
            "Deployment" => "apps/v1",
            _ => "copyrator.dev/v1alpha1",
        };
        let mut object = json!({"apiVersion": version, "kind": kind,
            "metadata": {"name": "app", "uid": "u", "resourceVersion": "1", "generation": 1}});
        if !place.is_empty() {
            object["metadata"]["namespace"] = place.into();
        }
        json_patch::merge(&mut object, &rest);
        (kind.to_owned(), object)
    }

    fn namespace(name: &str, team: &str) -> (String, Value) {
        object("Namespace", "", json!({"metadata": {"name": name, "labels": {"team": team}}}))
    }

    fn world() -> World {
        let mut world = World::default();
        world.settings_mut().own_namespace = "ours".into();
        world.settings_mut().system_namespaces = ["kube-system".to_owned()].into();
        world.settings_mut().annotations = true;
        world.set_data_scope(Some(DataScope::new(DataNeed::in_namespace("ours"))));
        world
    }

    fn said(need: &DataNeed) -> String {
        let of = |span: &Span| match span {
            Span::All => "all".to_owned(),
            Span::Some(names) => names.iter().map(|name| &**name).collect::<Vec<_>>().join(","),
        };
        format!("{} | {}", of(need.of(DataKind::ConfigMap)), of(need.of(DataKind::Secret)))
    }

    /// What is needed with these objects, which is the same as each of them brings it, in whatever order they come.
    fn with(objects: &[(String, Value)]) -> String {
        let in_order = |objects: &mut dyn Iterator<Item = &(String, Value)>| {
            let mut world = world();
            for (kind, object) in objects {
                let changed = by_kind(kind)(&mut world, object.clone());
                let more = needed_by(&world, &changed);
                world.widen_data(&more);
            }
            let all = needed(&world);
            assert_eq!(said(world.data_scope().unwrap().wanted()), said(&all), "as it comes, and as it is");
            said(&all)
        };
        let forward = in_order(&mut objects.iter());
        assert_eq!(forward, in_order(&mut objects.iter().rev()));
        forward
    }

    fn blue(rest: Value) -> Value {
        let mut spec = json!({"source": {"kind": "Secret", "names": ["app"]},
            "targets": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]});
        json_patch::merge(&mut spec, &rest);
        json!({ "spec": spec })
    }

    #[test]
    fn objects_are_needed_where_something_reads_them_and_nowhere_else() {
        let places = [
            namespace("a", "blue"),
            namespace("b", "blue"),
            namespace("c", "red"),
            namespace("kube-system", "blue"),
        ];
        let marks = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "copyrator", "copyrator.dev/rule": "x"},
            "annotations": {"copyrator.dev/rule": "far/secret:app", "copyrator.dev/source": "far/app",
                "copyrator.dev/source-uid": "u", "copyrator.dev/digest": "d", "copyrator.dev/mark": "m"}}});
        let template = |body: Value| {
            json!({"spec": {"forEach": {"namespaces": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]},
                "objects": [{"id": "one", "template": body}]}})
        };
        let manifest = |kind: &str, version: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}});
        let policy = |scope: Value| json!({"spec": {"match": scope, "data": [{"name": "n", "keys": ["k"], "format": "url"}]}});
        let annotated = |value: &str| {
            json!({"metadata": {"labels": {"copyrator.dev/declares": "true"},
                "annotations": {"copyrator.dev/copy-to": value, "copyrator.dev/author": "alice"}}})
        };
        for (one, wanted) in [
            (None, "ours | ours"),
            (Some(object("CopyratorRule", "home", blue(json!({})))), "ours | a,b,home,ours"),
            (
                Some(object(
                    "CopyratorRule",
                    "home",
                    blue(json!({"copy": {"kind": "ConfigMap", "keys": {"include": ["k"]}}})),
                )),
                "a,b,ours | home,ours",
            ),
            (
                Some(object(
                    "CopyratorRule",
                    "home",
                    blue(json!({"source": {"namespaces": ["p", "q"]}, "suspend": true})),
                )),
                "ours | a,b,ours,p,q",
            ),
            (
                Some(object("CopyratorRule", "home", blue(json!({"source": {"kind": "NetworkPolicy"}})))),
                "ours | ours",
            ),
            // It may mean anything where its sources are; a name that no namespace has means nothing.
            (
                Some(object(
                    "CopyratorRule",
                    "home",
                    blue(json!({"source": {"namespaces": ["p", "../q", ""], "names": ["a["]}})),
                )),
                "ours,p | ours,p",
            ),
            (
                Some(object(
                    "ConfigMonitor",
                    "c",
                    json!({"spec": {"watch": [{"kind": "ConfigMap", "names": ["x"]}]}}),
                )),
                "c,ours | c,ours",
            ),
            (
                Some(object(
                    "Deployment",
                    "c",
                    json!({"metadata": {"annotations": {"copyrator.dev/restart": "true"}}}),
                )),
                "c,ours | c,ours",
            ),
            (Some(object("Deployment", "c", json!({}))), "ours | ours"),
            (
                Some(object("CopyratorTemplate", "home", template(manifest("ConfigMap", "v1")))),
                "a,b,ours | ours",
            ),
            (
                Some(object("CopyratorTemplate", "home", template(manifest("LimitRange", "v1")))),
                "ours | ours",
            ),
            (Some(object("ConfigPolicy", "", policy(json!({"kinds": ["Secret"]})))), "ours | a,b,c,ours"),
            (
                Some(object(
                    "ConfigPolicy",
                    "",
                    policy(json!({"kinds": ["ConfigMap"], "excludeNamespaces": ["b"],
                    "namespaceSelector": {"matchLabels": {"team": "blue"}}})),
                )),
                "a,ours | ours",
            ),
            // The object that declared the rule of a copy, which may have lost its label.
            (Some(object("ConfigMap", "c", marks)), "ours | far,ours"),
            (Some(object("LabelledSecret", "c", json!({}))), "ours | c,ours"),
            (Some(object("Secret", "c", annotated("a"))), "ours | a,c,ours"),
            (Some(object("Secret", "c", annotated("a["))), "ours | c,ours"),
        ] {
            let objects: Vec<_> = places.iter().cloned().chain(one.clone()).collect();
            assert_eq!(with(&objects), wanted, "{one:?}");
        }
    }

    #[test]
    fn more_than_a_few_namespaces_are_all() {
        let rule = object("CopyratorRule", "ours", blue(json!({})));
        let few: Vec<_> = (0..15).map(|at| namespace(&format!("n{at}"), "blue")).chain([rule]).collect();
        assert!(!with(&few).contains("all"));
        let more: Vec<_> = few.into_iter().chain([namespace("n15", "blue")]).collect();
        assert_eq!(with(&more), "ours | all");
    }
}
