//! `-l`: the rules and monitors with these labels, and the annotated sources. Their labels are no fact that plans are made
//! from, so that they are asked for apart.

use std::collections::BTreeSet;

use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ListParams, PartialObjectMeta},
};

use super::{
    Exit, fail,
    installed::Installed,
    serve::UsageError,
    survey::{Look, Survey, survey},
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
    let selected = Selected::find_if(client, labels).await.map_err(|error| fail(&error, error.exit()))?;
    let seen = survey(client, installed, look).await.map_err(|error| fail(&error, error.exit()))?;
    Ok(seen.only(selected))
}

impl Selected {
    /// Asks the cluster, where labels are asked for.
    pub(super) async fn find_if(
        client: &Client,
        labels: Option<Labels>,
    ) -> Result<Option<Self>, SelectError> {
        match labels {
            Some(labels) => Self::find(client, labels).await.map(Some),
            None => Ok(None),
        }
    }

    async fn find(client: &Client, labels: Labels) -> Result<Self, SelectError> {
        let params = ListParams::default().labels(&labels.text);
        let (rules, monitors) =
            (Api::<CopyratorRule>::all(client.clone()), Api::<ConfigMonitor>::all(client.clone()));
        let (rules, monitors) = tokio::join!(rules.list_metadata(&params), monitors.list_metadata(&params));
        let failed = |plural| move |source| SelectError { plural, source: Box::new(source) };
        Ok(Self {
            rules: named(rules.map_err(failed("copyratorrules.copyrator.dev"))?.items),
            monitors: named(monitors.map_err(failed("configmonitors.copyrator.dev"))?.items),
            selector: labels.selector,
        })
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

fn named<K: Resource<DynamicType = ()>>(objects: Vec<PartialObjectMeta<K>>) -> BTreeSet<NamespacedName> {
    let name = |object: PartialObjectMeta<K>| {
        NamespacedName::new(object.namespace().unwrap_or_default(), object.name_any())
    };
    objects.into_iter().map(name).collect()
}
