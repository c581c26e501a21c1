//! `-l`: the rules and monitors with these labels, and the annotated sources. Their labels are no fact that plans are made
//! from, so that they are asked for apart.

use std::collections::BTreeSet;

use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ListParams, PartialObjectMeta},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;

use super::{
    Exit, fail,
    installed::Installed,
    serve::UsageError,
    sight::Sight,
    survey::{Look, Survey, SurveyError, survey},
};
use crate::{
    api::{ConfigMonitor, CopyratorRule},
    model::{NamespacedName, World},
    validate::{Selector, parse_selector},
};

/// Of which labels.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct LabelArgs {
    /// Only what has these labels, as kubectl takes them: team=blue,tier!=db.
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
}

impl LabelArgs {
    /// The same, checked.
    pub(super) fn check(self) -> Result<Option<Labels>, UsageError> {
        let wrong = |message: String| UsageError::Value { flag: "selector", message };
        let Some(text) = self.selector else { return Ok(None) };
        let mut problems = Vec::new();
        let selector = parse_selector(&text).map_err(wrong)?;
        let selector = Selector::compile("--selector", &selector, &mut problems);
        match problems.first() {
            Some(problem) => Err(wrong(problem.message.clone())),
            None => Ok(Some(Labels { text, selector })),
        }
    }
}

/// Labels asked for.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    /// As written.
    pub text: String,
    /// As understood.
    pub selector: Selector,
}

/// The rules and monitors that have the labels asked for.
#[derive(Debug)]
pub(super) struct Selected {
    rules: BTreeSet<NamespacedName>,
    monitors: BTreeSet<NamespacedName>,
    selector: Selector,
}

/// Why it cannot be told which objects have the labels.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {plural} by label")]
pub(super) struct SelectError {
    plural: &'static str,
    #[source]
    source: Box<kube::Error>,
}

impl SelectError {
    /// How a command ends that cannot go on.
    pub(super) fn exit(&self) -> Exit {
        if matches!(&*self.source, kube::Error::Api(_)) { Exit::Findings } else { Exit::Unreachable }
    }
}

/// What is there, and of it what labels choose. What stands in the way is told, and how the command ends.
pub(super) async fn look(
    client: &Client,
    installed: &Installed,
    look: Look<'_>,
    labels: Option<Labels>,
) -> Result<Survey, Exit> {
    let sight = Sight::find(client, installed).await.map_err(SurveyError::from);
    let sight = sight.map_err(|error| fail(&error, error.exit()))?;
    let selected =
        Selected::find_if(client, &sight, labels).await.map_err(|error| fail(&error, error.exit()))?;
    let seen = survey(client, (installed, &sight), look).await.map_err(|error| fail(&error, error.exit()))?;
    Ok(seen.only(selected))
}

impl Selected {
    /// Asks the cluster, where labels are asked for.
    pub(super) async fn find_if(
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

    /// Whether a rule has the labels; of a source that asks by annotation, its own count.
    pub(super) fn has_rule(&self, world: &World, rule: &NamespacedName) -> bool {
        let Some(source) = rule.annotated() else { return self.rules.contains(rule) };
        let facts = world.object(&source);
        facts
            .is_some_and(|facts| self.selector.matches(|label| facts.labels.get(label).map(|value| &**value)))
    }

    /// Whether a monitor has them.
    pub(super) fn has_monitor(&self, monitor: &NamespacedName) -> bool {
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
        // Of a namespace that may not be seen the survey tells.
        Err(kube::Error::Api(status)) if status.code == 403 && scope.is_some() => Ok(Vec::new()),
        Err(source) => Err(SelectError { plural, source: Box::new(source) }),
    }
}
