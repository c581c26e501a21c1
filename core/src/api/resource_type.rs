//! The names of a type of resource in the API.

use k8s_openapi::Resource;
use kube::core::ApiResource;

/// A type of resource, by its names in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceType {
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The version, such as `v1`.
    pub version: &'static str,
    /// Group and version as a manifest has them, such as `apps/v1`.
    pub api_version: &'static str,
    /// The kind, such as `ConfigMap`.
    pub kind: &'static str,
    /// The plural in URLs, roles and webhook rules, such as `configmaps`.
    pub plural: &'static str,
}

impl ResourceType {
    /// The names of a type of `k8s-openapi`.
    pub const fn of<K: Resource>() -> Self {
        Self {
            group: K::GROUP,
            version: K::VERSION,
            api_version: K::API_VERSION,
            kind: K::KIND,
            plural: K::URL_PATH_SEGMENT,
        }
    }

    /// The name in lower case, as commands take it: `configmap`.
    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// Plural and group, as kubectl takes them where two groups have one plural: `certificates.cert-manager.io`.
    pub fn qualified(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The URL of the objects in one namespace, or of all: `/api/v1/namespaces/shop/configmaps`.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let within = namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
        format!("/{root}/{}/{within}{}", self.api_version, self.plural)
    }
}

impl From<ResourceType> for ApiResource {
    fn from(of: ResourceType) -> Self {
        let text = str::to_owned;
        Self {
            group: text(of.group),
            version: text(of.version),
            api_version: text(of.api_version),
            kind: text(of.kind),
            plural: text(of.plural),
        }
    }
}
