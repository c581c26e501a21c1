//! Reads the index of annotated sources and templates, for the webhook. Each source becomes a rule or monitor
//! in the world, as in a process that watches ConfigMaps and Secrets; each template becomes a template
//! without texts. The webhook uses these rules, monitors and templates for warnings only.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time},
};

use super::watched::Watched;
use crate::{
    api::{ConfigMonitorStatus, CopyratorRuleStatus, set_condition},
    marks::{COPY_TO, COPY_TO_SELECTOR, RESTART_PODS},
    model::{Declared, Store, World},
    names::{Declarer, ObjectKey},
    plan::{
        Changed,
        copy::{IndexedTemplate, SourceIndex},
    },
    validate::{CompiledTemplate, annotated_monitor, annotated_rule},
};

impl Watched for ConfigMap {
    const STORE: Store = Store::SourceIndex;

    fn named(_: &ObjectMeta) -> Changed {
        Changed::SourceIndex
    }

    fn put(self, world: &mut World, _now: Timestamp) -> bool {
        let value = |key: &str| self.data.as_ref()?.get(key).map(String::as_str);
        match SourceIndex::from_data(value) {
            Some(index) => take_in(world, &index),
            // An index that cannot be read means that some sources are not known.
            None => {
                take_in(world, &SourceIndex::default());
                world.set_sources_omitted(true);
            }
        }
        true
    }

    fn forget(_: &Changed, world: &mut World) {
        take_in(world, &SourceIndex::default());
    }

    fn known(world: &World) -> Vec<Changed> {
        let any = world.sources_omitted()
            || !world.templates().is_empty()
            || world.rules().keys().chain(world.monitors().keys()).any(|name| name.as_annotated().is_some());
        any.then_some(Changed::SourceIndex).into_iter().collect()
    }
}

fn take_in(world: &mut World, index: &SourceIndex) {
    world.forget_annotated();
    world.set_sources_omitted(index.omitted > 0);
    // A process that reads the index does not watch templates: all known templates come from the index.
    let before: Vec<_> = world.templates().keys().cloned().collect();
    before.iter().for_each(|template| world.forget_template(template));
    for IndexedTemplate { namespace, name, spec } in &index.templates {
        let Ok(compiled) = CompiledTemplate::compile(spec) else {
            world.set_sources_omitted(true);
            continue;
        };
        let status = CopyratorRuleStatus { conditions: allowed(), ..Default::default() };
        let name = Declarer::template(namespace.as_str(), name.as_str());
        world.set_template(name, declared(spec.clone(), compiled, status));
    }
    for source in &index.sources {
        let key = ObjectKey::new(source.kind, source.namespace.as_str(), source.name.as_str());
        let annotation = |key: &str| match key {
            COPY_TO => source.copy_to.as_deref(),
            COPY_TO_SELECTOR => source.copy_to_selector.as_deref(),
            RESTART_PODS => source.restart_pods.as_deref(),
            _ => None,
        };
        let conditions = allowed();
        let Some(kind) = source.kind.data() else { continue };
        if let Some(Ok((spec, compiled))) = annotated_rule(kind, &source.name, annotation) {
            let status = CopyratorRuleStatus { conditions: conditions.clone(), ..Default::default() };
            world.set_rule(Declarer::annotated(key.clone()), declared(spec, compiled, status));
        }
        if let Some(Ok((spec, compiled))) = annotated_monitor(kind, &source.name, annotation) {
            let status = ConfigMonitorStatus { conditions, ..Default::default() };
            world.set_monitor(Declarer::annotated(key.clone()), declared(spec, compiled, status));
        }
    }
}

/// Returns the condition `Authorized`: the reconciler lists only declarations whose author has the rights.
fn allowed() -> Vec<Condition> {
    let mut conditions = Vec::new();
    let may = Some((true, "Allowed", String::new()));
    set_condition(&mut conditions, "Authorized", may, 0, &Time(Timestamp::UNIX_EPOCH));
    conditions
}

fn declared<Spec, Compiled, Status>(
    spec: Spec,
    compiled: Compiled,
    status: Status,
) -> Declared<Spec, Compiled, Status> {
    Declared {
        uid: "".into(),
        resource_version: "".into(),
        generation: 0,
        created: Timestamp::UNIX_EPOCH,
        annotations: Default::default(),
        spec,
        compiled: Ok(Arc::new(compiled)),
        status: Some(status),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{names::Kind, plan::copy::IndexedSource};

    fn index(sources: &[&str], omitted: usize) -> ConfigMap {
        let source = |name: &&str| IndexedSource {
            kind: Kind::ConfigMap,
            namespace: "shop".into(),
            name: (*name).into(),
            uid: "u".into(),
            generations: [1].into(),
            copy_to: Some("team-*".into()),
            copy_to_selector: None,
            restart_pods: (*name == "b").then(|| "app=web".into()),
        };
        let index =
            SourceIndex { sources: sources.iter().map(source).collect(), omitted, ..SourceIndex::default() };
        ConfigMap { data: Some(index.to_data().unwrap()), ..ConfigMap::default() }
    }

    #[test]
    fn sources_come_and_go_with_the_index() {
        let mut world = World::default();
        let known = |world: &World| {
            world.rules().keys().map(|rule| rule.named().name.to_string()).collect::<Vec<_>>()
        };
        index(&["a", "b"], 3).put(&mut world, Timestamp::UNIX_EPOCH);
        assert_eq!(
            (known(&world).join(" "), world.sources_omitted()),
            ("configmap:a configmap:b".into(), true)
        );
        let monitors =
            |world: &World| world.monitors().keys().map(|it| it.named().name.to_string()).collect::<Vec<_>>();
        assert_eq!(monitors(&world), ["configmap:b"]);
        index(&["b"], 0).put(&mut world, Timestamp::UNIX_EPOCH);
        assert_eq!((known(&world).join(" "), world.sources_omitted()), ("configmap:b".into(), false));
        ConfigMap::default().put(&mut world, Timestamp::UNIX_EPOCH);
        assert_eq!((known(&world).len(), world.sources_omitted()), (0, true));
        let template = json!({"namespace": "home", "name": "kit", "spec": {
            "forEach": {"namespaces": [{"names": ["shop"]}]},
            "objects": [{"id": "a", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}}]}});
        let with_template = json!({"sources": [], "templates": [template], "omitted": 0}).to_string();
        let data = Some([("sources.json".to_owned(), with_template)].into());
        ConfigMap { data, ..ConfigMap::default() }.put(&mut world, Timestamp::UNIX_EPOCH);
        let templates: Vec<_> = world.templates().keys().map(Declarer::said).collect();
        assert_eq!(templates, ["CopyratorTemplate home/kit"]);
        <ConfigMap as Watched>::forget(&Changed::SourceIndex, &mut world);
        assert!(!world.sources_omitted() && world.monitors().is_empty() && world.templates().is_empty());
    }
}
