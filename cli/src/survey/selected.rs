//! The rules, monitors and annotated sources with the selected labels. Plans do not use the labels of rules
//! and monitors, so the labels are listed separately.

use std::collections::BTreeSet;

use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ListParams, PartialObjectMeta},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;

use crate::{
    api::{ConfigMonitor, CopyratorRule},
    arguments::Labels,
    decoded::Decoded,
    installed::ReadScope,
    model::World,
    names::{Declarer, NamespacedName},
    terminal::Exit,
    validate::Selector,
};

/// The rules and monitors with the selected labels.
#[derive(Debug)]
pub(crate) struct Selected {
    rules: BTreeSet<Declarer>,
    monitors: BTreeSet<Declarer>,
    selector: Selector,
}

/// Why the objects with the labels could not be listed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {plural} by label")]
pub(crate) struct SelectError {
    plural: &'static str,
    #[source]
    source: Box<kube::Error>,
}

impl SelectError {
    /// The exit code of the command.
    pub(crate) fn exit(&self) -> Exit {
        if matches!(&*self.source, kube::Error::Api(_)) { Exit::Findings } else { Exit::Unreachable }
    }
}

impl Selected {
    /// Lists the objects with the labels, if a selector is given.
    pub(crate) async fn find_if(
        client: &Client,
        read_scope: &ReadScope,
        labels: Option<Labels>,
    ) -> Result<Option<Self>, SelectError> {
        match labels {
            Some(labels) => Self::find(client, read_scope, labels).await.map(Some),
            None => Ok(None),
        }
    }

    async fn find(client: &Client, read_scope: &ReadScope, labels: Labels) -> Result<Self, SelectError> {
        let (mut rules, mut monitors) = (BTreeSet::new(), BTreeSet::new());
        for scope in read_scope.scopes(None) {
            let (of_rules, of_monitors) = tokio::join!(
                labelled::<CopyratorRule>(client, scope, &labels, "copyratorrules.copyrator.dev"),
                labelled::<ConfigMonitor>(client, scope, &labels, "configmonitors.copyrator.dev"),
            );
            rules.extend(of_rules?.into_iter().map(Declarer::Rule));
            monitors.extend(of_monitors?.into_iter().map(Declarer::Monitor));
        }
        Ok(Self { rules, monitors, selector: labels.selector })
    }

    /// Whether a rule has the labels; for an annotated source, its own labels are compared.
    pub(crate) fn has_rule(&self, world: &World, rule: &Declarer) -> bool {
        let Some(source) = rule.as_annotated() else { return self.rules.contains(rule) };
        let facts = world.object(source);
        facts.is_some_and(|facts| facts.labels.are_selected_by(&self.selector))
    }

    /// Whether a monitor has the labels.
    pub(crate) fn has_monitor(&self, monitor: &Declarer) -> bool {
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
    let api: Api<Decoded<PartialObjectMeta<K>>> = match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let name = |object: Decoded<PartialObjectMeta<K>>| {
        NamespacedName::new(object.namespace().unwrap_or_default(), object.name_any())
    };
    match api.list(&ListParams::default().labels(&labels.text)).await {
        Ok(found) => Ok(found.items.into_iter().map(name).collect()),
        // The survey reports a namespace that may not be read.
        Err(kube::Error::Api(status)) if status.code == 403 && scope.is_some() => Ok(Vec::new()),
        Err(source) => Err(SelectError { plural, source: Box::new(source) }),
    }
}
