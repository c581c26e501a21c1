//! The workloads and pods that may restart, and the objects that cause their restarts, in the form that
//! commands show.

use std::{borrow::Cow, fmt, sync::Arc};

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use super::fields;
use crate::{
    model::World,
    names::{Declarer, NamespacedName, ObjectKey, WorkloadKey},
    plan::restart::Cause,
};

/// A workload, or the pods that a monitor itself selects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Restartable {
    /// A Deployment, StatefulSet or DaemonSet.
    Workload(WorkloadKey),
    /// The pods of this monitor.
    Pods(Declarer),
}

/// What may restart, as the fields of a row.
#[derive(Serialize, JsonSchema)]
struct RestartableFields<'r> {
    /// `Deployment`, `StatefulSet`, `DaemonSet`; `Pods` of the monitor of that name.
    kind: &'r str,
    namespace: &'r str,
    name: &'r str,
}

impl Restartable {
    /// The kind of the workload; `Pods` for a monitor.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Workload(key) => key.kind.resource().kind,
            Self::Pods(_) => "Pods",
        }
    }

    /// The namespace of the workload, or of the monitor.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Workload(key) => &key.namespace,
            Self::Pods(monitor) => monitor.namespace(),
        }
    }

    /// The name of the workload, or of the monitor.
    pub fn name(&self) -> Arc<str> {
        match self {
            Self::Workload(key) => key.name.clone(),
            Self::Pods(monitor) => monitor.named().name,
        }
    }

    /// The name without the namespace, for the status of a monitor, which covers only its own namespace.
    pub fn in_status(&self) -> String {
        match self {
            Self::Workload(key) => format!("{} {}", key.kind, key.name),
            Self::Pods(_) => "pods without a workload".into(),
        }
    }
}

/// `Deployment shop/web`, or `Pods of ConfigMonitor shop/web`.
impl fmt::Display for Restartable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload(key) => key.fmt(f),
            Self::Pods(monitor) => write!(f, "Pods of ConfigMonitor {monitor}"),
        }
    }
}

impl JsonSchema for Restartable {
    fn schema_name() -> Cow<'static, str> {
        RestartableFields::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RestartableFields::json_schema(generator)
    }
}

impl Serialize for Restartable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, namespace, name) = (self.kind(), self.namespace(), self.name());
        RestartableFields { kind, namespace, name: &name }.serialize(serializer)
    }
}

/// An object that has changed since what runs was recorded, and what it is a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CauseRow")]
pub struct RestartCause {
    /// The ConfigMap or Secret, in the namespace of what restarts.
    #[serde(flatten, serialize_with = "fields::kind_and_name")]
    #[schemars(with = "fields::KindAndName<'static>")]
    pub object: ObjectKey,
    /// An upper bound of its last change.
    #[schemars(with = "String")]
    pub changed_at: Timestamp,
    /// `namespace/name` of the source, where it is a copy.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "fields::text")]
    #[schemars(with = "Option<String>")]
    pub copy_of: Option<NamespacedName>,
    /// The rule or template that makes it, where it is a copy.
    #[serde(skip)]
    pub rule: Option<Declarer>,
}

impl RestartCause {
    /// Creates a cause; the source and the rule come from the marks of its object.
    pub(super) fn new(world: &World, cause: &Cause) -> Self {
        let marks = world.object(&cause.object).and_then(|facts| facts.marks.as_deref());
        Self {
            object: cause.object.clone(),
            changed_at: cause.changed_at,
            copy_of: marks.map(|marks| marks.origin()),
            rule: marks.map(|marks| marks.rule.clone()),
        }
    }

    /// Converts the causes of a plan like [`Self::new`].
    pub(super) fn all(world: &World, causes: &[Cause]) -> Vec<Self> {
        causes.iter().map(|cause| Self::new(world, cause)).collect()
    }
}
