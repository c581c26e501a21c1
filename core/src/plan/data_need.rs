//! Where ConfigMaps and Secrets must be known, and no more: with no rule in sight, their writes concern nobody here.
//!
//! Every plan reads objects of the namespaces that are named here, and of no other. What is left out: an object that is neither in
//! such a namespace nor has a label of ours is not told that its annotations are misspelt or lack the label beside them.

use std::{borrow::Borrow, sync::Arc};

use super::{
    Changed,
    copy::{
        claims::{is_anothers, is_copy, namespaces_meant, source_namespaces},
        targets::{is_named, takes_copies, targets},
        templates::{instances, instances_in},
    },
    policy::scan::{is_exempt, judging},
};
use crate::{
    api::{DataKind, PolicyKind},
    model::{DATA_KINDS, DataNeed, NamespaceFacts, OurLabel, PolicyFacts, WorkloadFacts, World},
    names::{NamespacedName, ObjectKey},
    validate::{CompiledRule, CompiledTemplate},
};

/// Where objects must be known for everything that there is. Our own are among them.
pub fn needed(world: &World) -> DataNeed {
    let mut need = DataNeed::in_namespace(&world.settings().own_namespace);
    world.rules().keys().for_each(|rule| of_rule(world, rule, &mut need));
    world.templates().keys().for_each(|template| of_template(world, template, &mut need));
    if serves_all(world) {
        world.policies().values().for_each(|facts| of_policy(world, facts, &mut need));
        world.monitors().keys().for_each(|monitor| need.add_both(&monitor.namespace));
        for (key, _) in world.workloads().iter().filter(|(_, facts)| is_looked_at(facts)) {
            need.add_both(&key.namespace);
        }
    }
    world.copies().for_each(|copy| of_copy(world, copy, &mut need));
    labelled(world).for_each(|key| itself(key, &mut need));
    need
}

/// Where objects must be known besides, after this has changed: together with what was needed before, that is all of [`needed`].
pub fn needed_by(world: &World, changed: &Changed) -> DataNeed {
    let mut need = DataNeed::default();
    match changed {
        Changed::Namespace(name) => of_namespace(world, name, &mut need),
        Changed::Rule(rule) => of_rule(world, rule, &mut need),
        Changed::Template(template) => of_template(world, template, &mut need),
        Changed::Policy(_) | Changed::Monitor(_) | Changed::Workload(_) if !serves_all(world) => {}
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
            let has = |label| world.data_scope().is_some_and(|scope| scope.has(label, key));
            if labels(world).any(has) {
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

/// Whether this process serves more than one rule. One that does not looks at copies of that rule only.
fn serves_all(world: &World) -> bool {
    world.settings().only_rule.is_none()
}

/// The labels of ours that count here.
fn labels(world: &World) -> impl Iterator<Item = OurLabel> {
    let declares = serves_all(world) && world.settings().annotations;
    [Some(OurLabel::Copy), declares.then_some(OurLabel::Declares)].into_iter().flatten()
}

/// Objects with such a label. While all namespaces are watched, no watch by label tells of them, but they are known; without them, their
/// namespaces would be left, and then found to be needed.
fn labelled(world: &World) -> impl Iterator<Item = &ObjectKey> {
    let told = move |label| world.data_scope().into_iter().flat_map(move |scope| scope.labelled_with(label));
    let is_all = |key: &ObjectKey| {
        let wanted = world.data_scope().map(|scope| scope.wanted());
        key.kind.data().zip(wanted).is_some_and(|(kind, wanted)| wanted.is_all(kind))
    };
    let known = world.objects().filter(move |(key, _)| is_all(key));
    let known = known.filter(|(_, facts)| labels(world).any(|label| label.is_on(&facts.labels)));
    labels(world).flat_map(told).chain(known.map(|(key, _)| key))
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
/// object stay. Forged marks name nothing.
fn of_copy(world: &World, copy: &ObjectKey, need: &mut DataNeed) {
    let marks = world.object(copy).filter(|facts| is_copy(world, copy, facts));
    let rule = marks.and_then(|facts| facts.marks.as_deref()).map(|marks| &marks.rule);
    let source = rule.filter(|rule| !is_anothers(world, rule)).and_then(|rule| rule.annotated());
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
        digest::DigestKey,
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
            (Some(object("ConfigMap", "c", marked())), "ours | far,ours"),
            (Some(object("LabelledSecret", "c", json!({}))), "ours | c,ours"),
            (Some(object("Secret", "c", annotated("a"))), "ours | a,c,ours"),
            (Some(object("Secret", "c", annotated("a["))), "ours | c,ours"),
        ] {
            let objects: Vec<_> = places.iter().cloned().chain(one.clone()).collect();
            assert_eq!(with(&objects), wanted, "{one:?}");
        }
    }

    fn marked() -> Value {
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "copyrator", "copyrator.dev/rule": "x"},
            "annotations": {"copyrator.dev/rule": "far/secret:app", "copyrator.dev/source": "far/app",
                "copyrator.dev/source-uid": "u", "copyrator.dev/digest": "d", "copyrator.dev/mark": "m"}}})
    }

    #[test]
    fn forged_marks_need_nothing_and_neither_does_what_this_process_never_uses() {
        let policy = json!({"spec": {"match": {"kinds": ["Secret"]}, "data": [{"name": "n", "keys": ["k"], "format": "url"}]}});
        let objects = [
            namespace("a", "blue"),
            object("ConfigMap", "c", marked()),
            object("LabelledSecret", "d", json!({})),
            object("ConfigPolicy", "", policy),
            object("ConfigMonitor", "e", json!({"spec": {"watch": [{"kind": "ConfigMap", "names": ["x"]}]}})),
            object(
                "Deployment",
                "f",
                json!({"metadata": {"annotations": {"copyrator.dev/restart": "true"}}}),
            ),
        ];
        let with = |change: fn(&mut World)| {
            let mut world = world();
            change(&mut world);
            for (kind, object) in &objects {
                let changed = by_kind(kind)(&mut world, object.clone());
                let more = needed_by(&world, &changed);
                world.widen_data(&more);
            }
            assert_eq!(world.data_scope().unwrap().wanted(), &needed(&world));
            said(&needed(&world))
        };
        assert_eq!(with(|_| {}), "e,f,ours | a,d,e,f,far,ours");
        assert_eq!(
            with(|world| world.set_key(DigestKey::new(&[7; DigestKey::LENGTH]))),
            "e,f,ours | a,d,e,f,ours",
            "the marks are forged"
        );
        assert_eq!(with(|world| world.settings_mut().annotations = false), "e,f,ours | a,e,f,ours");
        assert_eq!(
            with(|world| world.settings_mut().only_rule = Some(NamespacedName::new("ours", "one"))),
            "ours | ours"
        );
    }

    /// Otherwise they are left, found by their labels, and watched again, each interval.
    #[test]
    fn many_namespaces_with_labels_of_ours_keep_all_watched() {
        let mut all = DataNeed::in_namespace("ours");
        DATA_KINDS.into_iter().for_each(|kind| all.add_all(kind));
        let mut world = world();
        world.widen_data(&all);
        for at in 0..20 {
            let labels = json!({"metadata": {"labels": {"copyrator.dev/declares": "true"}}});
            for (kind, rest) in [("ConfigMap", marked()), ("Secret", if at < 9 { labels } else { json!({}) })]
            {
                by_kind(kind)(&mut world, object(kind, &format!("n{at}"), rest).1);
            }
        }
        assert_eq!(said(&needed(&world)), "all | far,n0,n1,n2,n3,n4,n5,n6,n7,n8,ours");
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
