//! The rules and monitors with these labels, and the annotated sources. Their labels are no fact that plans
//! are made from, so that they are asked for apart.

use std::collections::BTreeSet;

use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ListParams, PartialObjectMeta},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;

use crate::{
    api::{ConfigMonitor, CopyratorRule},
    cli::{arguments::Labels, operator::Sight, terminal::Exit},
    model::World,
    names::NamespacedName,
    validate::Selector,
};

/// The rules and monitors that have the labels asked for.
#[derive(Debug)]
pub(crate) struct Selected {
    rules: BTreeSet<NamespacedName>,
    monitors: BTreeSet<NamespacedName>,
    selector: Selector,
}

/// Why it cannot be told which objects have the labels.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {plural} by label")]
pub(crate) struct SelectError {
    plural: &'static str,
    #[source]
    source: Box<kube::Error>,
}

impl SelectError {
    /// How a command ends that cannot go on.
    pub(crate) fn exit(&self) -> Exit {
        if matches!(&*self.source, kube::Error::Api(_)) { Exit::Findings } else { Exit::Unreachable }
    }
}

impl Selected {
    /// Asks the cluster, where labels are asked for.
    pub(crate) async fn find_if(
        client: &Client,
        sight: &Sight,
        labels: Option<Labels>,
    ) -> Result<Option<Self>, SelectError> {
        match labels {
            Some(labels) => Self::find(client, sight, labels).await.map(Some),
            None => Ok(None),
        }
    }

    async fn find(client: &Client, sight: &Sight, labels: Labels) -> Result<Self, SelectError> {
        let (mut rules, mut monitors) = (BTreeSet::new(), BTreeSet::new());
        for scope in sight.scopes(None) {
            let (of_rules, of_monitors) = tokio::join!(
                labelled::<CopyratorRule>(client, scope, &labels, "copyratorrules.copyrator.dev"),
                labelled::<ConfigMonitor>(client, scope, &labels, "configmonitors.copyrator.dev"),
            );
            rules.extend(of_rules?);
            monitors.extend(of_monitors?);
        }
        Ok(Self { rules, monitors, selector: labels.selector })
    }

    /// Whether a rule has the labels; for a source that asks by annotation, its own labels count.
    pub(crate) fn has_rule(&self, world: &World, rule: &NamespacedName) -> bool {
        let Some(source) = rule.annotated() else { return self.rules.contains(rule) };
        let facts = world.object(&source);
        facts
            .is_some_and(|facts| self.selector.matches(|label| facts.labels.get(label).map(|value| &**value)))
    }

    /// Whether a monitor has them.
    pub(crate) fn has_monitor(&self, monitor: &NamespacedName) -> bool {
        self.monitors.contains(monitor)
    }
}

async fn labelled<K>(
    client: &Client,
    scope: Option<&str>,
    labels: &Labels,
    plural: &'static str,
) -> Result<Vec<NamespacedName>, SelectError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let name = |object: PartialObjectMeta<K>| {
        NamespacedName::new(object.namespace().unwrap_or_default(), object.name_any())
    };
    match api.list_metadata(&ListParams::default().labels(&labels.text)).await {
        Ok(found) => Ok(found.items.into_iter().map(name).collect()),
        // The survey tells of a namespace that may not be seen.
        Err(kube::Error::Api(status)) if status.code == 403 && scope.is_some() => Ok(Vec::new()),
        Err(source) => Err(SelectError { plural, source: Box::new(source) }),
    }
}
