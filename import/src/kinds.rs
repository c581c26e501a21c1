//! Built-in kinds of Kubernetes: the group and version of a kind that is written without them, and its
//! plural.

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    batch::v1::{CronJob, Job},
    core::v1::{
        ConfigMap, Endpoints, Event, LimitRange, PersistentVolumeClaim, Pod, ReplicationController,
        ResourceQuota, Secret, Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    networking::v1::{Ingress, NetworkPolicy},
    policy::v1::PodDisruptionBudget,
    rbac::v1::{Role, RoleBinding},
};

use crate::api::ResourceType;

/// The namespaced kinds.
const NAMESPACED: [ResourceType; 24] = [
    ResourceType::of::<ConfigMap>(),
    ResourceType::of::<CronJob>(),
    ResourceType::of::<DaemonSet>(),
    ResourceType::of::<Deployment>(),
    ResourceType::of::<EndpointSlice>(),
    ResourceType::of::<Endpoints>(),
    ResourceType::of::<Event>(),
    ResourceType::of::<HorizontalPodAutoscaler>(),
    ResourceType::of::<Ingress>(),
    ResourceType::of::<Job>(),
    ResourceType::of::<LimitRange>(),
    ResourceType::of::<NetworkPolicy>(),
    ResourceType::of::<PersistentVolumeClaim>(),
    ResourceType::of::<Pod>(),
    ResourceType::of::<PodDisruptionBudget>(),
    ResourceType::of::<ReplicaSet>(),
    ResourceType::of::<ReplicationController>(),
    ResourceType::of::<ResourceQuota>(),
    ResourceType::of::<Role>(),
    ResourceType::of::<RoleBinding>(),
    ResourceType::of::<Secret>(),
    ResourceType::of::<Service>(),
    ResourceType::of::<ServiceAccount>(),
    ResourceType::of::<StatefulSet>(),
];

/// The cluster-scoped kinds, besides Namespace.
const CLUSTER_SCOPED: [&str; 14] = [
    "APIService",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
];

/// Returns the built-in namespaced kind of this name, in its newest version.
pub(super) fn known(kind: &str) -> Option<ResourceType> {
    NAMESPACED.into_iter().find(|known| known.kind == kind)
}

/// Whether a built-in kind is cluster-scoped.
pub(super) fn is_cluster_scoped(kind: &str) -> bool {
    CLUSTER_SCOPED.contains(&kind)
}

/// Returns the plural of a built-in namespaced kind, whatever its version.
pub(super) fn plural(api_version: &str, kind: &str) -> Option<&'static str> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    known(kind).filter(|known| known.group == group).map(|known| known.plural)
}
