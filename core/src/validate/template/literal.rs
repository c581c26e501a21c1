//! Fields that only a template's text may set. A template acts with the rights of its author, and the user
//! who creates an instance, or labels a namespace, chooses the results of expressions. Therefore an
//! expression must not choose the ServiceAccount or the node of pods, or give pods access to the host or to
//! Secrets.

use serde_json::Value;

use crate::{marks::never_carried, validate::printable};

/// Fields of a pod's spec that are literal in every kind, also at the end of a longer name
/// (`podSecurityContext`, `driverServiceAccount`). The last two fields are no fields of pods: one belongs to
/// a PersistentVolumeClaim, which can bind any existing volume, the other to a RoleBinding.
const LITERAL: [&str; 22] = [
    "serviceAccountName",
    "serviceAccount",
    "automountServiceAccountToken",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "hostUsers",
    "hostPath",
    "hostPort",
    "shareProcessNamespace",
    "securityContext",
    "runtimeClassName",
    "priorityClassName",
    "nodeName",
    "schedulerName",
    "resourceClaims",
    "hostAliases",
    "dnsConfig",
    "ephemeralContainers",
    "volumeDevices",
    "volumeName",
    "roleRef",
];
/// Fields that the template's text must contain. Their content may come from expressions, since a Secret for
/// each instance, or a node pool for each team, is common.
const WRITTEN: [&str; 6] =
    ["secretKeyRef", "secretRef", "imagePullSecrets", "nodeSelector", "affinity", "tolerations"];
/// The fields of a pod's spec that expressions may set, in Kubernetes' own workload kinds. All other fields
/// of the spec are literal: new versions of Kubernetes add fields that give pods more rights.
const OF_A_POD: [&str; 19] = [
    "activeDeadlineSeconds",
    "affinity",
    "containers",
    "dnsPolicy",
    "enableServiceLinks",
    "hostname",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "os",
    "readinessGates",
    "resources",
    "restartPolicy",
    "setHostnameAsFQDN",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];
/// The fields of a container that expressions may set.
const OF_A_CONTAINER: [&str; 22] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeMounts",
    "workingDir",
];
/// The fields of a volume that expressions may set. All other fields can reach Secrets, the host or other
/// volumes.
const OF_A_VOLUME: [&str; 4] = ["name", "emptyDir", "configMap", "downwardAPI"];
/// A field of a volume that the template's text must contain; the claim's name may come from an expression.
const CLAIM: &str = "persistentVolumeClaim";
/// The fields of metadata that expressions may set.
const METADATA: [&str; 3] = ["name", "labels", "annotations"];
/// The prefix of a pod's annotations that set the AppArmor profiles of its containers.
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// The longest path in a message, in bytes. An instance chooses the keys in a path, and so its length.
const LONGEST_PATH: usize = 256;

/// The place of a field in a manifest, which decides whether the field must be literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldContext {
    /// A place without restrictions: labels, the data of a ConfigMap, a status.
    Free,
    /// Any field without a context of its own.
    Elsewhere,
    /// A workload kind of Kubernetes, whose field `template` is a pod template.
    Workload,
    /// The template of a pod.
    PodTemplate,
    /// The spec of a pod.
    Pod,
    /// A list of containers of a pod.
    Containers,
    /// One entry of a list of containers.
    Container,
    /// A list of volumes.
    Volumes,
    /// One entry of a list of volumes.
    Volume,
    /// Metadata of the object, or of a template in the object.
    Metadata,
    /// A map of labels or annotations.
    Keys,
}

impl FieldContext {
    /// Returns the place of an object's fields.
    pub(super) fn of_object(object: &Value) -> Self {
        let group =
            object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map(|(group, _)| group);
        match (group, object["kind"].as_str().unwrap_or_default()) {
            (None, "ConfigMap" | "Secret") => Self::Free,
            (Some("apps"), "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
            | (Some("batch"), "Job" | "CronJob")
            | (None, "ReplicationController" | "PodTemplate") => Self::Workload,
            _ => Self::Elsewhere,
        }
    }

    /// Returns the place of the value of this field.
    pub(super) fn field(self, name: &str) -> Self {
        match self {
            Self::Free | Self::Keys => Self::Free,
            Self::Workload if name == "template" => Self::PodTemplate,
            Self::Workload if ["spec", "jobTemplate"].contains(&name) => Self::Workload,
            Self::PodTemplate if name == "spec" => Self::Pod,
            Self::Pod if name.ends_with("ontainers") => Self::Containers,
            Self::Metadata if ["labels", "annotations"].contains(&name) => Self::Keys,
            _ if name == "metadata" => Self::Metadata,
            _ if name.ends_with("olumes") => Self::Volumes,
            _ => Self::Elsewhere,
        }
    }

    /// Returns the place of a list's items.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Volumes => Self::Volume,
            Self::Containers => Self::Container,
            Self::Free => Self::Free,
            _ => Self::Elsewhere,
        }
    }

    /// Whether this field must contain no expression in this place.
    pub(super) fn is_literal(self, name: &str) -> bool {
        match self {
            Self::Free | Self::Keys | Self::Metadata => false,
            Self::Volume => name != CLAIM && !OF_A_VOLUME.contains(&name),
            Self::Pod => !OF_A_POD.contains(&name),
            Self::Container => !OF_A_CONTAINER.contains(&name),
            Self::Elsewhere | Self::Workload | Self::PodTemplate | Self::Containers | Self::Volumes => {
                is_of_literal(name)
            }
        }
    }

    /// Whether the result of an expression must not contain this field in this place.
    fn is_kept(self, name: &str) -> bool {
        match self {
            Self::Free => false,
            Self::Metadata => !METADATA.contains(&name),
            Self::Keys => never_carried(name) || name.starts_with(APPARMOR),
            Self::Volume => !OF_A_VOLUME.contains(&name),
            _ => self.is_literal(name) || WRITTEN.contains(&name),
        }
    }
}

/// Whether the name is in [`LITERAL`], or ends with the words of an entry.
fn is_of_literal(name: &str) -> bool {
    LITERAL.iter().any(|field| {
        let end = name.len().checked_sub(field.len()).and_then(|at| name.get(at..));
        let begins_a_word = |end: &str| end.starts_with(|first: char| first.is_ascii_uppercase());
        name == *field || end.is_some_and(|end| begins_a_word(end) && end.eq_ignore_ascii_case(field))
    })
}

/// Returns the path of the first field in an expression's result that only the template's text may set.
pub(super) fn smuggled(value: &Value, context: FieldContext) -> Option<String> {
    let path = match value {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            if context.is_kept(name) {
                return Some(format!(".{name}"));
            }
            smuggled(value, context.field(name)).map(|path| format!(".{name}{path}"))
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| smuggled(item, context.item()).map(|path| format!("[{index}]{path}"))),
        _ => None,
    };
    path.map(|path| printable(path, LONGEST_PATH))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_gives_pods_more_rights_is_found_at_any_depth() {
        use FieldContext::{Container, Elsewhere, Free, Keys, Metadata, Pod, Volume, Volumes, Workload};
        for (context, value, found) in [
            (Elsewhere, json!({"replicas": 3, "secret": "of a custom resource"}), None),
            (
                Elsewhere,
                json!({"template": {"spec": {"serviceAccountName": "admin"}}}),
                Some(".template.spec.serviceAccountName"),
            ),
            (Elsewhere, json!([{"securityContext": {}}]), Some("[0].securityContext")),
            (Elsewhere, json!({"podSecurityContext": {}}), Some(".podSecurityContext")),
            (Elsewhere, json!({"driver": {"sparkServiceAccount": "a"}}), Some(".driver.sparkServiceAccount")),
            (Elsewhere, json!({"volumeName": "of-others"}), Some(".volumeName")),
            (Elsewhere, json!({"bindings": [{"clusterRoleRef": {}}]}), Some(".bindings[0].clusterRoleRef")),
            (Elsewhere, json!({"sessionAffinity": "None", "hostname": "a", "supernodeName": "a"}), None),
            (Elsewhere, json!({"ports": [{"hostPort": 22}]}), Some(".ports[0].hostPort")),
            (
                Elsewhere,
                json!({"volumes": [{"name": "a", "emptyDir": {}}, {"configMap": {"name": "a"}}]}),
                None,
            ),
            (Elsewhere, json!({"volumes": [{"secret": {"secretName": "a"}}]}), Some(".volumes[0].secret")),
            (Elsewhere, json!({"extraVolumes": [{"csi": {}}]}), Some(".extraVolumes[0].csi")),
            (
                Elsewhere,
                json!([{"valueFrom": {"secretKeyRef": {"name": "a"}}}]),
                Some("[0].valueFrom.secretKeyRef"),
            ),
            (Elsewhere, json!({"tolerations": []}), Some(".tolerations")),
            (Elsewhere, json!({"podSchedulerName": "a"}), Some(".podSchedulerName")),
            (Elsewhere, json!({"priority": 1, "fieldOfTomorrow": 1}), None),
            (Pod, json!({"fieldOfTomorrow": 1}), Some(".fieldOfTomorrow")),
            (Pod, json!({"hostAliases": []}), Some(".hostAliases")),
            (Pod, json!({"nodeSelector": {}}), Some(".nodeSelector")),
            (Pod, json!({"containers": [{"privileged": true}]}), Some(".containers[0].privileged")),
            (
                Pod,
                json!({"containers": [{"ports": [{"hostPort": 1}]}]}),
                Some(".containers[0].ports[0].hostPort"),
            ),
            (Pod, json!({"restartPolicy": "Always", "volumes": [{"name": "a", "emptyDir": {}}]}), None),
            (
                Container,
                json!({"name": "a", "image": "b", "env": [], "args": [], "resources": {"limits": {}}}),
                None,
            ),
            (
                Workload,
                json!({"spec": {"replicas": 1, "template": {"metadata": {"labels": {"a": "b"}}}}}),
                None,
            ),
            (
                Workload,
                json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"resourceClaims": []}}}}}}),
                Some(".spec.jobTemplate.spec.template.spec.resourceClaims"),
            ),
            (Elsewhere, json!({"metadata": {"labels": {"nodeName": "a"}}}), None),
            (Elsewhere, json!({"metadata": {"finalizers": ["a/b"]}}), Some(".metadata.finalizers")),
            (
                Metadata,
                json!({"annotations": {"copyrator.dev/mark": "a"}}),
                Some(".annotations.copyrator.dev/mark"),
            ),
            (
                Keys,
                json!({"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}),
                Some(".container.apparmor.security.beta.kubernetes.io/a"),
            ),
            (Volume, json!({"projected": {}}), Some(".projected")),
            (
                Volumes,
                json!([{"persistentVolumeClaim": {"claimName": "a"}}]),
                Some("[0].persistentVolumeClaim"),
            ),
            (Free, json!({"securityContext": {}}), None),
        ] {
            assert_eq!(smuggled(&value, context).as_deref(), found, "{value}");
        }
        let long = smuggled(&json!({"x".repeat(5_000): {"nodeName": "a"}}), Elsewhere).unwrap();
        assert!(long.len() <= LONGEST_PATH + "…".len(), "{}", long.len());
    }
}
