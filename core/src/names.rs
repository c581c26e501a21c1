//! Names of ConfigMaps, Secrets, workloads and other namespaced objects.

mod declarer;
mod granted;
mod instance;
mod name_kind;

use std::{fmt, sync::Arc};

pub use declarer::Declarer;
pub use granted::{GrantedKinds, TooManyKinds};
pub(crate) use instance::is_of_kubernetes;
pub use instance::{InstanceKind, InstanceName, NoTemplateKind, StatusPlace, TemplateKind, rendered_kind};

pub use name_kind::{ALIKE, NameKind, NameState};

pub use crate::api::Kind;
use crate::api::WorkloadKind;

/// The namespaces of Kubernetes itself, which never take copies.
pub const OF_KUBERNETES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

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
