//! What the API server calls the kinds that our own kinds speak of: the only place where group, version and
//! plural of each are written.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    core::v1::{ConfigMap, LimitRange, Namespace, ResourceQuota, Secret, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::RoleBinding,
};

use super::{DataKind, Kind, PolicyKind, ResourceType, WorkloadKind};

impl Kind {
    /// Every one of these kinds that has a name of its own, once.
    pub const ALL: [Self; 10] = [
        Self::ConfigMap,
        Self::Secret,
        Self::NetworkPolicy,
        Self::ResourceQuota,
        Self::LimitRange,
        Self::PodDisruptionBudget,
        Self::ServiceAccount,
        Self::Deployment,
        Self::Service,
        Self::RoleBinding,
    ];

    /// The kind as one that holds data; `None` where everything but metadata and status is its content.
    pub const fn data(self) -> Option<DataKind> {
        match self {
            Self::ConfigMap => Some(DataKind::ConfigMap),
            Self::Secret => Some(DataKind::Secret),
            Self::NetworkPolicy
            | Self::ResourceQuota
            | Self::LimitRange
            | Self::PodDisruptionBudget
            | Self::ServiceAccount
            | Self::Deployment
            | Self::Service
            | Self::RoleBinding
            | Self::Granted(_) => None,
        }
    }

    /// Whether rules copy objects of the kind. Templates declare them all, but for Secrets.
    pub const fn is_copied(self) -> bool {
        match self {
            Self::ConfigMap
            | Self::Secret
            | Self::NetworkPolicy
            | Self::ResourceQuota
            | Self::LimitRange
            | Self::PodDisruptionBudget
            | Self::ServiceAccount
            | Self::RoleBinding => true,
            Self::Granted(kind) => kind.is_copied(),
            Self::Deployment | Self::Service => false,
        }
    }

    /// Whether Copyrator keeps objects of the kind whole, and takes off fields that others add. Of the other kinds it keeps only the
    /// fields that a template names: the cluster, controllers and users fill in the rest.
    pub const fn is_whole(self) -> bool {
        match self {
            Self::ConfigMap
            | Self::Secret
            | Self::NetworkPolicy
            | Self::ResourceQuota
            | Self::LimitRange
            | Self::PodDisruptionBudget
            | Self::ServiceAccount
            | Self::RoleBinding => true,
            Self::Granted(kind) => kind.is_copied(),
            Self::Deployment | Self::Service => false,
        }
    }

    /// The kinds that are written where the chart grants these, in order: ConfigMaps and Secrets always are.
    pub fn copied(granted: &BTreeSet<Self>) -> impl Iterator<Item = Self> {
        let without_name = granted.iter().copied().filter(|kind| matches!(kind, Self::Granted(_)));
        Self::ALL
            .into_iter()
            .filter(|kind| kind.data().is_some() || granted.contains(kind))
            .chain(without_name)
    }

    /// Its names in the API.
    pub const fn resource(self) -> ResourceType {
        match self {
            Self::ConfigMap => ResourceType::of::<ConfigMap>(),
            Self::Secret => ResourceType::of::<Secret>(),
            Self::NetworkPolicy => ResourceType::of::<NetworkPolicy>(),
            Self::ResourceQuota => ResourceType::of::<ResourceQuota>(),
            Self::LimitRange => ResourceType::of::<LimitRange>(),
            Self::PodDisruptionBudget => ResourceType::of::<PodDisruptionBudget>(),
            Self::ServiceAccount => ResourceType::of::<ServiceAccount>(),
            Self::Deployment => ResourceType::of::<Deployment>(),
            Self::Service => ResourceType::of::<Service>(),
            Self::RoleBinding => ResourceType::of::<RoleBinding>(),
            Self::Granted(kind) => kind.resource(),
        }
    }

    /// Whether a manifest names the kind so.
    pub fn is_named(self, api_version: &str, kind: &str) -> bool {
        let resource = self.resource();
        resource.api_version == api_version && resource.kind == kind
    }

    /// The kind as marks name it: no two kinds share it, in whatever version.
    pub fn mark_name(self) -> String {
        match self {
            Self::Granted(kind) => format!("{}.{}", kind.resource().plural, kind.resource().group),
            known => known.resource().kind.to_owned(),
        }
    }

    /// The kind that a manifest names so, if it has a name here.
    pub fn written_as(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.is_named(api_version, kind))
    }

    /// The kind whose name this is, whatever its case: `configmap` as well as `ConfigMap`.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.resource().kind.eq_ignore_ascii_case(word))
    }
}

impl DataKind {
    /// Every one of these kinds, once.
    pub const ALL: [Self; 2] = [Self::ConfigMap, Self::Secret];
}

impl PolicyKind {
    /// Every one of these kinds, once.
    pub const ALL: [Self; 3] = [Self::ConfigMap, Self::Secret, Self::Namespace];

    /// The kind of content that workloads use and rules copy; `None` for a Namespace.
    pub const fn content(self) -> Option<Kind> {
        match self {
            Self::ConfigMap => Some(Kind::ConfigMap),
            Self::Secret => Some(Kind::Secret),
            Self::Namespace => None,
        }
    }

    /// Its names in the API.
    pub const fn resource(self) -> ResourceType {
        match self {
            Self::ConfigMap => ResourceType::of::<ConfigMap>(),
            Self::Secret => ResourceType::of::<Secret>(),
            Self::Namespace => ResourceType::of::<Namespace>(),
        }
    }
}

impl WorkloadKind {
    /// Every one of these kinds, once.
    pub const ALL: [Self; 3] = [Self::Deployment, Self::StatefulSet, Self::DaemonSet];

    /// Its names in the API.
    pub const fn resource(self) -> ResourceType {
        match self {
            Self::Deployment => ResourceType::of::<Deployment>(),
            Self::StatefulSet => ResourceType::of::<StatefulSet>(),
            Self::DaemonSet => ResourceType::of::<DaemonSet>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_made_of_group_version_namespace_and_plural() {
        assert_eq!(Kind::Secret.resource().path(Some("shop")), "/api/v1/namespaces/shop/secrets");
        assert_eq!(PolicyKind::Namespace.resource().path(None), "/api/v1/namespaces");
        assert_eq!(
            WorkloadKind::DaemonSet.resource().path(Some("shop")),
            "/apis/apps/v1/namespaces/shop/daemonsets"
        );
    }

    #[test]
    fn a_kind_is_found_by_its_name_in_any_case() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(&kind.to_string()), Some(kind));
            assert_eq!(Kind::named(&kind.resource().singular()), Some(kind));
        }
        assert_eq!(Kind::named("configmaps"), None, "that is the plural");
    }
}
