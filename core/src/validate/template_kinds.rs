//! Kinds that templates never render, and kinds that templates are never rendered for.

use crate::{api::GROUP, names::TemplateKind};

/// Kinds that no template renders, in any group, with the reason that the user reads.
const REFUSED: [(&str, &str); 25] = [
    ("Pod", BY_A_WORKLOAD),
    ("ReplicaSet", BY_A_WORKLOAD),
    ("ReplicationController", BY_A_WORKLOAD),
    ("ControllerRevision", BY_A_WORKLOAD),
    ("Job", "the TTL controller would delete the Job, and Copyrator would create it again: render a CronJob"),
    ("Endpoints", BY_A_CONTROLLER),
    ("EndpointSlice", BY_A_CONTROLLER),
    ("Lease", BY_A_CONTROLLER),
    ("Event", BY_A_CONTROLLER),
    ("CertificateRequest", BY_A_CONTROLLER),
    ("Binding", BY_A_CONTROLLER),
    ("Role", "a Role would grant rights: bind a ClusterRole with a RoleBinding instead"),
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
    ("List", "a List is not one object: write each object as an entry of its own"),
    ("Status", "nothing stores it"),
    ("DeleteOptions", "nothing stores it"),
];
const BY_A_WORKLOAD: &str = "a workload creates this kind: render a Deployment, StatefulSet or DaemonSet";
const BY_A_CONTROLLER: &str = "a controller creates this kind";
const CLUSTER_SCOPED: &str = "the kind is cluster-scoped, and Copyrator writes only namespaced objects";
const BY_ITS_WRITER: &str =
    "its rights depend on the user who writes it: that would be Copyrator, not the template's author";
/// Groups whose kinds no template renders. In the groups with [`BY_ITS_WRITER`], the API server or a webhook
/// uses the rights of the requesting user, who would be Copyrator: a TemplateInstance makes objects with
/// these rights, and a HierarchyConfiguration or a binding of Rancher grants them. Copyrator only checks that
/// the author may write the object itself.
const REFUSED_GROUPS: [(&str, &str); 8] = [
    (GROUP, "Copyrator never creates objects of its own kinds"),
    ("authorization.openshift.io", "bind a ClusterRole with a RoleBinding of rbac.authorization.k8s.io/v1"),
    ("template.openshift.io", BY_ITS_WRITER),
    ("hnc.x-k8s.io", BY_ITS_WRITER),
    ("management.cattle.io", BY_ITS_WRITER),
    ("admissionregistration.k8s.io", CLUSTER_SCOPED),
    ("authentication.k8s.io", "nothing stores it"),
    ("authorization.k8s.io", "nothing stores it"),
];
/// The reason why templates do not render Secrets.
const READ_BY_ALL: &str =
    "everyone who may read the template could read the Secret's values: copy a Secret with a CopyratorRule";

/// Returns the reason why templates never render objects of a kind; `None` for a kind that templates may
/// render. (`template::served` refuses Secrets.)
pub(in crate::validate) fn never_rendered(api_version: &str, kind: &str) -> Option<&'static str> {
    let by_group = REFUSED_GROUPS.iter().find(|(refused, _)| *refused == group(api_version));
    by_group.or_else(|| REFUSED.iter().find(|(refused, _)| *refused == kind)).map(|(_, why)| *why)
}

/// Returns the reason why templates are never rendered for objects of a kind; `None` for a kind that is
/// allowed.
pub(super) fn never_instances(api_version: &str, kind: &str) -> Option<&'static str> {
    match (group(api_version), kind) {
        ("", "Secret") => Some(
            "Secret is not allowed: expressions could put its values into other objects; use a CopyratorRule",
        ),
        ("", "Namespace") => Some("Namespace is not allowed here: use forEach.namespaces"),
        (_, "Event") => Some("Event is not allowed"),
        (GROUP, _) => Some("Copyrator's own kinds are not allowed"),
        _ => None,
    }
}

/// Returns the reason why a kind must not be granted for one of its uses: no template could use the kind in
/// this way.
pub fn grant_fault(granted: &TemplateKind) -> Option<String> {
    let (api_version, kind) = (&*granted.kind.api_version, &*granted.kind.kind);
    let secret = (api_version == "v1" && kind == "Secret").then_some(READ_BY_ALL);
    let rendered = granted.rendered.and_then(|_| never_rendered(api_version, kind).or(secret));
    let rendered =
        rendered.map(|why| format!("render of {}: a template cannot render this kind: {why}", granted.kind));
    let read = Some(granted).filter(|it| it.for_each).and_then(|_| never_instances(api_version, kind));
    rendered.or_else(|| read.map(|why| format!("forEach of {}: {why}", granted.kind)))
}

/// The group in an apiVersion; empty for the core.
pub(in crate::validate) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GrantedKinds;

    #[test]
    fn what_no_template_could_use_is_not_granted() {
        for (text, fault) in [
            (
                "v1/Pod/pods/render",
                Some("render of Pod of v1: a template cannot render this kind: a workload creates this kind"),
            ),
            ("v1/Pod/pods/forEach+status", None),
            ("batch/v1/Job/jobs/forEach+render", Some("render of Job of batch/v1")),
            ("rbac.authorization.k8s.io/v1/Role/roles/render", Some("a Role would grant rights")),
            ("hnc.x-k8s.io/v1/Anything/anythings/render", Some("rights depend on the user who writes it")),
            (
                "copyrator.dev/v1alpha1/CopyratorRule/copyratorrules/forEach",
                Some("Copyrator's own kinds are not allowed"),
            ),
            ("v1/Secret/secrets/render", Some("copy a Secret with a CopyratorRule")),
            ("v1/Secret/secrets/forEach", Some("forEach of Secret of v1: Secret is not allowed")),
            ("v1/Namespace/namespaces/forEach", Some("use forEach.namespaces")),
            ("cert-manager.io/v1/Certificate/certificates/render+forEach", None),
            ("v1/PersistentVolumeClaim/persistentvolumeclaims/render", None),
            ("v1/ConfigMap/configmaps/forEach", None),
        ] {
            let said = grant_fault(&TemplateKind::read(text, &GrantedKinds::default()).unwrap());
            match fault {
                None => assert_eq!(said, None, "{text}"),
                Some(fault) => {
                    assert!(said.as_ref().is_some_and(|said| said.contains(fault)), "{text}: {said:?}")
                }
            }
        }
    }

    /// The chart's schema refuses the same kinds as the process.
    #[test]
    fn the_charts_schema_has_the_same_kinds() {
        let text = include_str!("../../../charts/copyrator/values.schema.json");
        let schema: serde_json::Value = serde_json::from_str(text).unwrap();
        let kinds = &schema["properties"]["templates"]["properties"]["kinds"]["items"]["allOf"];
        let if_kind = |at: usize| kinds[at]["if"]["properties"]["kind"]["enum"].clone();
        let refused: Vec<&str> = REFUSED.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(if_kind(0), serde_json::json!(refused));
        let groups: Vec<String> = REFUSED_GROUPS.iter().map(|(group, _)| group.replace('.', "\\.")).collect();
        let pattern = format!("^({})/", groups.join("|"));
        assert_eq!(kinds[1]["if"]["properties"]["apiVersion"]["pattern"], pattern);
    }
}
