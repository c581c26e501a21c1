//! Where objects are at the API server.

use serde_json::Value;

/// Kind, plural, prefix, whether in a namespace.
const KINDS: &[(&str, &str, &str, bool)] = &[
    ("Namespace", "namespaces", "/api/v1", false),
    ("Node", "nodes", "/api/v1", false),
    ("ConfigMap", "configmaps", "/api/v1", true),
    ("Secret", "secrets", "/api/v1", true),
    ("Pod", "pods", "/api/v1", true),
    ("Service", "services", "/api/v1", true),
    ("ServiceAccount", "serviceaccounts", "/api/v1", true),
    ("PersistentVolumeClaim", "persistentvolumeclaims", "/api/v1", true),
    ("Event", "events", "/apis/events.k8s.io/v1", true),
    ("Deployment", "deployments", "/apis/apps/v1", true),
    ("ReplicaSet", "replicasets", "/apis/apps/v1", true),
    ("DaemonSet", "daemonsets", "/apis/apps/v1", true),
    ("StatefulSet", "statefulsets", "/apis/apps/v1", true),
    ("ControllerRevision", "controllerrevisions", "/apis/apps/v1", true),
    ("Job", "jobs", "/apis/batch/v1", true),
    ("EndpointSlice", "endpointslices", "/apis/discovery.k8s.io/v1", true),
    ("Lease", "leases", "/apis/coordination.k8s.io/v1", true),
    ("Role", "roles", "/apis/rbac.authorization.k8s.io/v1", true),
    ("RoleBinding", "rolebindings", "/apis/rbac.authorization.k8s.io/v1", true),
    ("ClusterRole", "clusterroles", "/apis/rbac.authorization.k8s.io/v1", false),
    ("ClusterRoleBinding", "clusterrolebindings", "/apis/rbac.authorization.k8s.io/v1", false),
    ("NetworkPolicy", "networkpolicies", "/apis/networking.k8s.io/v1", true),
    ("ResourceQuota", "resourcequotas", "/api/v1", true),
    ("LimitRange", "limitranges", "/api/v1", true),
    ("PodDisruptionBudget", "poddisruptionbudgets", "/apis/policy/v1", true),
    ("HorizontalPodAutoscaler", "horizontalpodautoscalers", "/apis/autoscaling/v2", true),
    (
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1",
        false,
    ),
    (
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1",
        false,
    ),
    (
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "/apis/admissionregistration.k8s.io/v1",
        false,
    ),
    (
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "/apis/admissionregistration.k8s.io/v1",
        false,
    ),
    ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", "/apis/admissionregistration.k8s.io/v1", false),
    (
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        "/apis/admissionregistration.k8s.io/v1",
        false,
    ),
    ("FlowSchema", "flowschemas", "/apis/flowcontrol.apiserver.k8s.io/v1", false),
    (
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        "/apis/flowcontrol.apiserver.k8s.io/v1",
        false,
    ),
    ("CustomResourceDefinition", "customresourcedefinitions", "/apis/apiextensions.k8s.io/v1", false),
    ("SelfSubjectAccessReview", "selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1", false),
    ("Certificate", "certificates", "/apis/cert-manager.io/v1", true),
    ("NamespaceConfig", "namespaceconfigs", "/apis/redhatcop.redhat.io/v1alpha1", false),
    ("Theme", "themes", "/apis/look.example.com/v1", true),
    ("Shelf", "shelves", "/apis/shop.example.com/v2", true),
    ("PrometheusRule", "prometheusrules", "/apis/monitoring.coreos.com/v1", true),
    ("ServiceMonitor", "servicemonitors", "/apis/monitoring.coreos.com/v1", true),
    ("CopyratorRule", "copyratorrules", "/apis/copyrator.dev/v1alpha1", true),
    ("ConfigMonitor", "configmonitors", "/apis/copyrator.dev/v1alpha1", true),
    ("ConfigPolicy", "configpolicies", "/apis/copyrator.dev/v1alpha1", false),
    ("CopyratorTemplate", "copyratortemplates", "/apis/copyrator.dev/v1alpha1", true),
    ("Ingress", "ingresses", "/apis/networking.k8s.io/v1", true),
    ("Memcached", "memcacheds", "/apis/cache.example.com/v1alpha1", true),
    ("Pair", "pairs", "/apis/pairs.example.com/v1", true),
    ("Bare", "bares", "/apis/bares.example.com/v1", true),
    ("Full", "fulls", "/apis/fulls.example.com/v1", true),
    ("NginxServer", "nginxservers", "/apis/web.example.com/v1", true),
];

/// The path of a collection; an empty namespace means all of them.
pub fn collection(kind: &str, namespace: &str) -> String {
    let found = KINDS.iter().find(|(known, ..)| *known == kind);
    let (_, plural, prefix, namespaced) =
        found.unwrap_or_else(|| panic!("no path for {kind}: add it to KINDS"));
    match (namespaced, namespace) {
        (true, namespace) if !namespace.is_empty() => format!("{prefix}/namespaces/{namespace}/{plural}"),
        _ => format!("{prefix}/{plural}"),
    }
}

/// The path of one object.
pub fn object(kind: &str, namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection(kind, namespace))
}

/// Kind, namespace and name of an object as written.
pub fn identity(object: &Value) -> (&str, &str, &str) {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}
