//! Names of ConfigMaps, Secrets, workloads and other namespaced objects.

mod granted;
mod instance;
mod name_kind;

use std::{fmt, sync::Arc};

pub use granted::{GrantedKinds, TooManyKinds};
pub(crate) use instance::is_of_kubernetes;
pub use instance::{InstanceKind, InstanceName, NoTemplateKind, StatusPlace, TemplateKind, rendered_kind};

pub use name_kind::{ALIKE, NameKind, NameState};

pub use crate::api::Kind;
use crate::api::WorkloadKind;

/// The namespaces of Kubernetes itself, which never take copies.
pub const OF_KUBERNETES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// Prefix that distinguishes the names of templates from those of rules.
const TEMPLATE: &str = "template:";

/// Namespace and name of an object whose kind is known from context; written `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// The namespace that holds the object.
    pub namespace: Arc<str>,
    /// The object's name in it.
    pub name: Arc<str>,
}

impl NamespacedName {
    /// Builds the name from its two parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The object whose own annotations declare the rule of this name; `None` for a `CopyratorRule`, whose
    /// name cannot contain a colon.
    pub fn annotated(&self) -> Option<ObjectKey> {
        let (kind, name) = self.name.split_once(':')?;
        let kind = Kind::named(kind).filter(|kind| kind.data().is_some())?;
        Some(ObjectKey::new(kind, self.namespace.clone(), name))
    }

    /// The name of a `CopyratorTemplate` where rules and templates share a map: `template:NAME`, which no
    /// object can have.
    pub fn of_template(namespace: impl Into<Arc<str>>, name: &str) -> Self {
        Self::new(namespace, format!("{TEMPLATE}{name}"))
    }

    /// The name of the `CopyratorTemplate`; `None` for a rule.
    pub fn template(&self) -> Option<&str> {
        self.name.strip_prefix(TEMPLATE)
    }

    /// The kind and name for messages: `rule platform/registry`, `CopyratorTemplate platform/kit`.
    pub fn said(&self) -> String {
        match self.template() {
            Some(name) => format!("CopyratorTemplate {}/{name}", self.namespace),
            None => format!("rule {self}"),
        }
    }

    /// Reads `namespace/name`; `None` without exactly one slash.
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then(|| Self::new(namespace, name))
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Kind, namespace and name of an object: a source, an object that a workload uses, or the slot of a copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its kind, such as ConfigMap.
    pub kind: Kind,
    /// The namespace that holds the object.
    pub namespace: Arc<str>,
    /// The object's name in it.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Builds the key from its three parts.
    pub fn new(kind: Kind, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }

    /// The name of the rule that this object's own annotations declare: `configmap:NAME` or `secret:NAME`.
    pub fn annotation_rule(&self) -> NamespacedName {
        NamespacedName::new(
            self.namespace.clone(),
            format!("{}:{}", self.kind.resource().singular(), self.name),
        )
    }

    /// Namespace and name, without the kind.
    pub fn named(&self) -> NamespacedName {
        NamespacedName { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Kind, namespace and name of a Deployment, StatefulSet or DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey {
    /// Which kind of workload it is.
    pub kind: WorkloadKind,
    /// The namespace that holds the workload.
    pub namespace: Arc<str>,
    /// The workload's name in it.
    pub name: Arc<str>,
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}
