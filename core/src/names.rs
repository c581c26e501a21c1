//! Names of ConfigMaps, Secrets, workloads and whatever else has a namespace.

use std::{fmt, sync::Arc};

pub use crate::api::CopyKind as Kind;
use crate::api::WorkloadKind;

/// A namespaced object of a kind known from context.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl NamespacedName {
    /// Names an object.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The object whose own annotations declare the rule of this name; `None` where it is a `CopyratorRule`,
    /// whose name takes no colon.
    pub fn annotated(&self) -> Option<ObjectKey> {
        let (kind, name) = self.name.split_once(':')?;
        let kind = match kind {
            "configmap" => Kind::ConfigMap,
            "secret" => Kind::Secret,
            _ => return None,
        };
        Some(ObjectKey::new(kind, self.namespace.clone(), name))
    }

    /// Reads `namespace/name`.
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

/// A ConfigMap or Secret: as a source, as a used object, or as the slot that a copy belongs in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// ConfigMap or Secret.
    pub kind: Kind,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Names an object.
    pub fn new(kind: Kind, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }

    /// The name of the rule that this object's own annotations declare: `configmap:NAME` or `secret:NAME`.
    pub fn annotation_rule(&self) -> NamespacedName {
        let kind = match self.kind {
            Kind::ConfigMap => "configmap",
            Kind::Secret => "secret",
        };
        NamespacedName::new(self.namespace.clone(), format!("{kind}:{}", self.name))
    }

    /// The same name without the kind.
    pub fn named(&self) -> NamespacedName {
        NamespacedName { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// A Deployment, StatefulSet or DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}
