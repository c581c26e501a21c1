//! Kinds that neither templates declare nor rules copy, whatever the chart grants.

use crate::api::GROUP;

/// Kinds that no template renders, in any group, with what a user reads about it.
const REFUSED: [(&str, &str); 25] = [
    ("Pod", BY_A_WORKLOAD),
    ("ReplicaSet", BY_A_WORKLOAD),
    ("ReplicationController", BY_A_WORKLOAD),
    ("ControllerRevision", BY_A_WORKLOAD),
    ("Job", "its TTL controller would delete it, and Copyrator would make it again: render a CronJob"),
    ("Endpoints", BY_A_CONTROLLER),
    ("EndpointSlice", BY_A_CONTROLLER),
    ("Lease", BY_A_CONTROLLER),
    ("Event", BY_A_CONTROLLER),
    ("CertificateRequest", BY_A_CONTROLLER),
    ("Binding", BY_A_CONTROLLER),
    ("Role", "it would give rights of its own: bind a ClusterRole by a RoleBinding"),
    ("ClusterRole", CLUSTER_SCOPED),
    ("ClusterRoleBinding", CLUSTER_SCOPED),
    ("Namespace", CLUSTER_SCOPED),
    ("Node", CLUSTER_SCOPED),
    ("PersistentVolume", CLUSTER_SCOPED),
    ("StorageClass", CLUSTER_SCOPED),
    ("PriorityClass", CLUSTER_SCOPED),
    ("CertificateSigningRequest", CLUSTER_SCOPED),
    ("CustomResourceDefinition", CLUSTER_SCOPED),
    ("APIService", CLUSTER_SCOPED),
    ("List", "an object of a template is one object"),
    ("Status", "nothing stores it"),
    ("DeleteOptions", "nothing stores it"),
];
const BY_A_WORKLOAD: &str = "a workload makes it: render a Deployment, StatefulSet or DaemonSet";
const BY_A_CONTROLLER: &str = "a controller makes it";
const CLUSTER_SCOPED: &str =
    "it is in no namespace, and an object is rendered into the namespace that it is for";
const BY_ITS_WRITER: &str =
    "what it may do depends on who writes it, which would be Copyrator and not the template's author";
/// Groups of which no kind is rendered. Of those by their writer, the API server or a webhook takes the user of the request: a
/// TemplateInstance makes objects with that one's rights, and a HierarchyConfiguration or a binding of Rancher gives what that one has. The
/// author was asked about writing the object, and not about that.
const REFUSED_GROUPS: [(&str, &str); 8] = [
    (GROUP, "a kind of Copyrator never makes another one"),
    ("authorization.openshift.io", "bind a ClusterRole by a RoleBinding of rbac.authorization.k8s.io/v1"),
    ("template.openshift.io", BY_ITS_WRITER),
    ("hnc.x-k8s.io", BY_ITS_WRITER),
    ("management.cattle.io", BY_ITS_WRITER),
    ("admissionregistration.k8s.io", CLUSTER_SCOPED),
    ("authentication.k8s.io", "nothing stores it"),
    ("authorization.k8s.io", "nothing stores it"),
];

/// The group in an apiVersion; empty for the core.
pub(in crate::validate) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Why no template renders objects of a kind; `None` of most kinds.
pub(in crate::validate) fn not_rendered(api_version: &str, kind: &str) -> Option<&'static str> {
    let by_group = REFUSED_GROUPS.iter().find(|(refused, _)| *refused == group(api_version));
    by_group.or_else(|| REFUSED.iter().find(|(refused, _)| *refused == kind)).map(|(_, why)| *why)
}
