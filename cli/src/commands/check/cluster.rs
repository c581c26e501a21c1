//! The cluster that the files describe: policies in force, and labels of namespaces.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{input::Item, stored::NAMESPACE_NAME};
use crate::{
    api::ConfigPolicySpec,
    model::{Declared, NamespaceFacts, World},
    validate::{Candidate, CompiledPolicy},
};

/// A policy that is in force.
struct Policy {
    place: String,
    spec: ConfigPolicySpec,
    compiled: Arc<CompiledPolicy>,
}

/// The cluster that the files describe.
#[derive(Default)]
pub(super) struct Cluster {
    policies: BTreeMap<Arc<str>, Policy>,
    namespaces: BTreeMap<Arc<str>, BTreeMap<String, String>>,
}

impl Cluster {
    /// Adds a policy, as the API server would store it, and returns notes about it. Ignores an invalid
    /// policy.
    pub(super) fn put(&mut self, item: &Item) -> Vec<String> {
        let mut notices = Vec::new();
        let Ok(spec) = serde_json::from_value::<ConfigPolicySpec>(item.value["spec"].clone()) else {
            return notices;
        };
        let Ok(compiled) = CompiledPolicy::compile(&spec).map(Arc::new) else { return notices };
        let (name, place) = (&item.name, item.place());
        if spec.validations.iter().any(|validation| validation.expression.contains("userInfo")) {
            notices.push(format!(
                "policy {name} looks at request.userInfo, which is empty here: its verdict on a real write may be another"
            ));
        }
        if let Some(before) = self.policies.get(name.as_str()).filter(|before| before.spec != spec) {
            let before = &before.place;
            notices.push(format!(
                "policy {name} is there twice, at {before} and at {place}, and only the latter counts: drop one of them"
            ));
        }
        self.policies.insert(name.as_str().into(), Policy { place, spec, compiled });
        notices
    }

    /// Sets the labels of a namespace.
    pub(super) fn learn(&mut self, namespace: &str, labels: BTreeMap<String, String>) {
        self.namespaces.insert(namespace.into(), labels);
    }

    /// Whether the labels of a namespace are known.
    pub(super) fn knows(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace)
    }

    /// The policies that may cover an object: the labels of the object's namespace decide, and no file gives
    /// these labels.
    pub(super) fn open<'c>(&'c self, object: &'c Candidate<'_>) -> impl Iterator<Item = &'c str> {
        let open = |policy: &&Policy| {
            hangs_on_labels(&policy.spec) && policy.compiled.covers(object, None).is_none()
        };
        self.policies.iter().filter(move |(_, policy)| open(policy)).map(|(name, _)| &**name)
    }

    /// Returns the webhook's model of the cluster. If no file gives the labels of the namespace `unknown`,
    /// the model omits policies that depend on its labels: the namespace `unknown` gets only the label that
    /// the API server itself sets.
    pub(super) fn world(&self, unknown: Option<&str>) -> World {
        let mut world = World::default();
        for (name, labels) in &self.namespaces {
            world.set_namespace(name.clone(), facts(labels.clone()));
        }
        if let Some(name) = unknown {
            let labels = BTreeMap::from([(NAMESPACE_NAME.to_owned(), name.to_owned())]);
            world.set_namespace(name.into(), facts(labels));
        }
        for (name, policy) in &self.policies {
            if unknown.is_some() && hangs_on_labels(&policy.spec) {
                continue;
            }
            let declared = Declared {
                uid: Box::default(),
                resource_version: Box::default(),
                generation: 1,
                created: Timestamp::UNIX_EPOCH,
                annotations: BTreeMap::new(),
                spec: policy.spec.clone(),
                compiled: Ok(policy.compiled.clone()),
                status: None,
            };
            world.set_policy(name.clone(), declared);
        }
        world
    }
}

fn facts(labels: BTreeMap<String, String>) -> NamespaceFacts {
    NamespaceFacts { labels, ..NamespaceFacts::default() }
}

/// Whether a policy selects namespaces by labels that a file must give.
fn hangs_on_labels(spec: &ConfigPolicySpec) -> bool {
    let Some(selector) = &spec.match_.namespace_selector else { return false };
    let labels = selector.match_labels.iter().flatten().map(|(key, _)| key);
    let expressions = selector.match_expressions.iter().flatten().map(|one| &one.key);
    labels.chain(expressions).any(|key| key != NAMESPACE_NAME)
}
