//! The cluster that the files describe: policies in force, and labels of namespaces.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    api::ConfigPolicySpec,
    files::{FileKind, FileObject, Item, NAMESPACE_NAME, Place, put},
    model::{NamespaceFacts, Settings, World},
    validate::Candidate,
};

/// The cluster that the files describe.
pub(super) struct Cluster {
    /// The cluster for objects in namespaces whose labels a file gives.
    pub world: World,
    /// The cluster for objects in other namespaces, without policies that depend on labels of namespaces.
    unlabelled: World,
    /// The place of each policy.
    places: BTreeMap<String, Place>,
}

impl Cluster {
    pub(super) fn new(own_namespace: &str) -> Self {
        let settings =
            || Settings { own_namespace: own_namespace.to_owned(), annotations: true, ..Settings::default() };
        let (world, unlabelled) = (World::new(settings()), World::new(settings()));
        Self { world, unlabelled, places: BTreeMap::new() }
    }

    /// Adds a Namespace to the cluster.
    pub(super) fn learn(&mut self, namespace: Value, now: Timestamp) {
        // The API server would refuse a Namespace that cannot be decoded; its labels stay unknown.
        let _ = put(FileKind::Namespace, namespace, &mut self.world, now);
    }

    /// Adds an accepted policy to the cluster, and returns notes about it.
    pub(super) fn enforce(&mut self, item: &Item, policy: Value, now: Timestamp) -> Vec<String> {
        let (name, place) = (&*item.of.name.name, &item.place);
        let before = self.world.policies().get(name).map(|before| before.spec.clone());
        let is_put = put(FileKind::Policy, policy.clone(), &mut self.world, now).is_ok();
        let Some(facts) = self.world.policies().get(name).filter(|_| is_put) else { return Vec::new() };
        let mut notices = Vec::new();
        if facts.spec.validations.iter().any(|validation| validation.expression.contains("userInfo")) {
            notices.push(format!(
                "policy {name} looks at request.userInfo, which is empty here: its verdict on a real write may be another"
            ));
        }
        let place_before = self.places.insert(name.to_owned(), place.clone());
        if let Some(before) = place_before.filter(|_| before.is_some_and(|before| before != facts.spec)) {
            notices.push(format!(
                "policy {name} is there twice, at {before} and at {place}, and only the latter counts: drop one of them"
            ));
        }
        self.unlabelled.forget_policy(name);
        if !hangs_on_labels(&facts.spec) {
            let _ = put(FileKind::Policy, policy, &mut self.unlabelled, now);
        }
        notices
    }

    /// Whether a file gives the labels of the namespace that an object is in.
    pub(super) fn knows_namespace(&self, of: &FileObject) -> bool {
        of.name.namespace.is_empty() || self.world.namespaces().contains_key(&of.name.namespace)
    }

    /// Returns the webhook's model of the cluster for an object. A namespace whose labels no file gives has only the label that the
    /// API server itself sets.
    pub(super) fn world_for(&mut self, of: &FileObject) -> &World {
        if self.knows_namespace(of) {
            return &self.world;
        }
        let namespace = &of.name.namespace;
        let labels = BTreeMap::from([(NAMESPACE_NAME.to_owned(), namespace.to_string())]);
        self.unlabelled
            .set_namespace(namespace.clone(), NamespaceFacts { labels, ..NamespaceFacts::default() });
        &self.unlabelled
    }

    /// The policies that may cover an object: the labels of the object's namespace decide, and no file gives
    /// these labels.
    pub(super) fn open(&self, object: &Candidate<'_>) -> impl Iterator<Item = &str> {
        let policies = self.world.policies().iter().filter(move |(_, policy)| {
            let covers = policy.compiled.as_ref().map(|compiled| compiled.covers(object, None));
            hangs_on_labels(&policy.spec) && covers.is_ok_and(|covers| covers.is_none())
        });
        policies.map(|(name, _)| &**name)
    }
}

/// Whether a policy selects namespaces by labels that a file must give.
fn hangs_on_labels(spec: &ConfigPolicySpec) -> bool {
    let Some(selector) = &spec.match_.namespace_selector else { return false };
    let labels = selector.match_labels.iter().flatten().map(|(key, _)| key);
    let expressions = selector.match_expressions.iter().flatten().map(|one| &one.key);
    labels.chain(expressions).any(|key| key != NAMESPACE_NAME)
}
