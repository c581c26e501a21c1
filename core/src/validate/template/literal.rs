//! Fields that only a template's text may set. A template acts with the rights of its author, and the user
//! who creates an instance, or labels a namespace, chooses what expressions give. So an expression never
//! chooses the account or the node that pods run with, nor gives pods access to the host or to Secrets.

use serde_json::Value;

use crate::{marks::never_carried, validate::printable};

/// Fields of a pod's specification that are literal, wherever a kind has them, also as part of a longer name: `podSecurityContext`,
/// `driverServiceAccount`. The last two are a claim's, which can take any volume that is there, and a binding's.
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
/// Fields that the template's text must have; what is in them may come from expressions, since a Secret for each
/// instance, or a node pool for each team, is common.
const WRITTEN: [&str; 6] =
    ["secretKeyRef", "secretRef", "imagePullSecrets", "nodeSelector", "affinity", "tolerations"];
/// The fields of a pod's specification that expressions may give, in the kinds of Kubernetes that have one. All else is literal there:
/// Kubernetes adds fields that give pods more.
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
/// The same of a container.
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
/// What an expression may give of a volume. All else can reach Secrets, the host or other volumes.
const OF_A_VOLUME: [&str; 4] = ["name", "emptyDir", "configMap", "downwardAPI"];
/// Of other volumes, the text must have this field, and its name may come from an expression.
const CLAIM: &str = "persistentVolumeClaim";
/// Of metadata, what an expression may give.
const METADATA: [&str; 3] = ["name", "labels", "annotations"];
/// The security profile of a container, as an annotation of its pod.
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// The longest path in a message, in bytes: an instance chooses the keys.
const LONGEST_PATH: usize = 256;

/// In which field a value stands, as far as it matters for what must be literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldContext {
    /// Where nothing is restricted: labels, the data of a ConfigMap, a status.
    Free,
    /// Any field that is none of the others.
    Elsewhere,
    /// In a kind of Kubernetes that makes pods, where a field `template` is that of a pod.
    Workload,
    /// In the template of a pod.
    PodTemplate,
    /// In the specification of a pod.
    Pod,
    /// In a list of containers of it.
    Containers,
    /// One entry of that list.
    Container,
    /// In a list of volumes.
    Volumes,
    /// One entry of a list of volumes.
    Volume,
    /// Metadata of the object, or of a template in it.
    Metadata,
    /// A map of labels or annotations.
    Keys,
}

impl FieldContext {
    /// Where the fields of an object stand.
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

    /// Where the value of this field stands.
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

    /// Where an item of a list stands.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Volumes => Self::Volume,
            Self::Containers => Self::Container,
            Self::Free => Self::Free,
            _ => Self::Elsewhere,
        }
    }

    /// Whether there must be no expression in this field, here.
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

    /// Whether an expression must not give this field, here.
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

/// Whether it is one of [`LITERAL`], or ends with one as its last words.
fn is_of_literal(name: &str) -> bool {
    LITERAL.iter().any(|field| {
        let end = name.len().checked_sub(field.len()).and_then(|at| name.get(at..));
        let begins_a_word = |end: &str| end.starts_with(|first: char| first.is_ascii_uppercase());
        name == *field || end.is_some_and(|end| begins_a_word(end) && end.eq_ignore_ascii_case(field))
    })
}

/// The first field, in what an expression gave, that only the template's text may set: its path below the
/// expression.
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
