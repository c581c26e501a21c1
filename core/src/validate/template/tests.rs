//! Templates as people write them, compiled.

use serde_json::{Value, json};

use super::*;

/// A template for each NginxServer, as in the operator that this replaces: a Deployment, and a Service if the
/// instance is exposed.
pub(super) fn nginx() -> Value {
    json!({
        "forEach": {"objects": {"apiVersion": "web.example.com/v1", "kind": "NginxServer"}},
        "objects": [
            {"id": "service", "includeWhen": "object.spec.?expose.orValue(true)", "template": {
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "${object.metadata.name}", "annotations": {"of": "${deploy.metadata.uid}"}},
                "spec": {"selector": {"app": "nginx-${object.metadata.name}"}, "ports": [{"port": 80}]},
            }},
            {"id": "deploy", "template": {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "${object.metadata.name}", "labels": {"team": "${namespaceObject.metadata.labels.team}"}},
                "spec": {
                    "replicas": "${object.spec.replicas}",
                    "selector": {"matchLabels": {"app": "nginx-${object.metadata.name}"}},
                    "template": {
                        "metadata": {"labels": {"app": "nginx-${object.metadata.name}"}},
                        "spec": {"serviceAccountName": "nginx", "containers": [{
                            "name": "nginx", "image": "nginx:${object.spec.version}", "resources": "${object.spec.resources}",
                            "command": ["sh", "-c", "echo $${HOME}"],
                        }]},
                    },
                },
            }},
        ],
        "writeStatus": {
            "availableReplicas": "${deploy.status.?availableReplicas.orValue(0)}",
            "podNames": "${pods(deploy).map(pod, pod.metadata.name)}",
        },
    })
}

pub(super) fn compiled(spec: &Value) -> Result<CompiledTemplate, Vec<String>> {
    let compiled = CompiledTemplate::compile(&serde_json::from_value(spec.clone()).unwrap());
    compiled.map_err(|problems| problems.into_iter().map(|problem| problem.message).collect())
}

/// Each change of the template above, and what is said of it.
#[test]
fn what_cannot_be_served_is_refused_when_it_is_written() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 42] = [
        (
            |spec| spec["forEach"]["namespaces"] = json!([{"names": ["a"]}]),
            "spec.forEach: needs either namespaces or objects",
        ),
        (
            |spec| spec["forEach"] = json!({"namespaces": [{"names": ["a"]}]}),
            "\"object\" is not a variable here; the variables are namespaceObject",
        ),
        (|spec| spec["forEach"]["objects"]["kind"] = json!("Secret"), ""),
        (
            |spec| spec["forEach"]["objects"] = json!({"apiVersion": "v1", "kind": "Secret"}),
            "spec.forEach.objects.kind: Secret is not allowed",
        ),
        (
            |spec| spec["forEach"]["objects"] = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "X"}),
            "Copyrator's own kinds are not allowed",
        ),
        (
            |spec| spec["objects"][0]["id"] = json!("namespace"),
            "spec.objects[0].id: \"namespace\" is reserved",
        ),
        (|spec| spec["objects"][0]["id"] = json!("deploy"), "is already the id of another object"),
        (|spec| spec["objects"][0]["id"] = json!("a-b"), "is not a valid id"),
        (
            |spec| {
                spec["objects"][1]["template"]["metadata"]["labels"]["of"] = json!("${service.metadata.uid}")
            },
            "spec.objects: service → deploy → service depend on each other in a circle; remove one of the references",
        ),
        (
            |spec| spec["objects"][1]["template"]["kind"] = json!("${object.spec.kind}"),
            "spec.objects[1].template.kind: must be literal",
        ),
        (
            |spec| spec["objects"][1]["template"]["kind"] = json!("ReplicaSet"),
            "a template cannot render ReplicaSet: a workload creates this kind",
        ),
        (
            |spec| spec["objects"][0]["template"]["kind"] = json!("Namespace"),
            "a template cannot render Namespace: the kind is cluster-scoped",
        ),
        (
            |spec| spec["objects"][0]["template"]["apiVersion"] = json!("copyrator.dev/v1alpha1"),
            "Copyrator never creates objects of its own kinds",
        ),
        (
            |spec| spec["objects"][0]["template"]["status"] = json!({}),
            "spec.objects[0].template.status: is not allowed",
        ),
        (
            |spec| spec["objects"][0]["template"]["metadata"]["namespace"] = json!("a"),
            "a template sets only name, labels and annotations in metadata",
        ),
        (
            |spec| spec["objects"][0]["template"]["metadata"]["ownerReferences"] = json!([]),
            "metadata.ownerReferences: is not allowed",
        ),
        (
            |spec| {
                spec["objects"][0]["template"]["metadata"]["annotations"]["copyrator.dev/copy-to"] =
                    json!("a")
            },
            "annotations[copyrator.dev/copy-to]: is not allowed",
        ),
        (
            |spec| spec["objects"][0]["template"]["spec"]["ports"] = json!("${object.spec"),
            "has an expression without an end",
        ),
        (
            |spec| spec["objects"][0]["template"]["spec"] = json!({"${object.spec.key}": 1}),
            "keys must be literal",
        ),
        (
            |spec| spec["objects"][0]["includeWhen"] = json!("1 + 1"),
            "spec.objects[0].includeWhen: returns a sum, not true or false",
        ),
        (|spec| spec["objects"][1]["recreate"] = json!("OnImmutable"), ""),
        (
            |spec| {
                spec["objects"][1]["recreate"] = json!("OnImmutable");
                spec["objects"][1]["template"]["kind"] = json!("StatefulSet");
            },
            "spec.objects[1].recreate: OnImmutable is not accepted for StatefulSet: deleting the object to recreate it would delete its data",
        ),
        (
            |spec| {
                spec["objects"][0]["recreate"] = json!("OnImmutable");
                spec["objects"][0]["template"]["kind"] = json!("PersistentVolumeClaim");
            },
            "spec.objects[0].recreate: OnImmutable is not accepted for PersistentVolumeClaim: deleting the object to recreate it would delete its data",
        ),
        (
            |spec| {
                spec["objects"][1]["template"]["spec"]["template"]["spec"]["serviceAccountName"] =
                    json!("${object.spec.account}")
            },
            "spec.objects[1].template.spec.template.spec.serviceAccountName: must be literal",
        ),
        (
            |spec| {
                spec["objects"][1]["template"]["spec"]["template"]["spec"]["volumes"] =
                    json!([{"name": "a", "secret": {"secretName": "${object.spec.a}"}}])
            },
            "volumes[0].secret: must be literal",
        ),
        (
            |spec| spec["writeStatus"]["again"] = json!("${object.status.again}"),
            "reads a field of object.status that writeStatus writes",
        ),
        (|spec| spec["writeStatus"]["again"] = json!("${pods(other)}"), "\"other\" is not a variable here"),
        (
            |spec| spec["objects"][0]["template"] = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "bootstrap.kubernetes.io/token"}),
            "spec.objects[0].template.type: a template cannot render bootstrap.kubernetes.io/token",
        ),
        (
            |spec| spec["objects"][0]["template"] = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "${object.spec.type}"}),
            "spec.objects[0].template.type: must be literal",
        ),
        (
            |spec| {
                spec["conflictPolicy"] = json!("Adopt");
                spec["objects"][1]["template"]["metadata"]["name"] = json!("web");
                spec["objects"][0]["template"]["metadata"]["name"] = json!("${deploy.metadata.labels.team}");
            },
            "the name of service reads deploy",
        ),
        (
            |spec| spec["objects"][0]["template"]["metadata"] = json!("${object.metadata}"),
            "metadata: must be a literal map",
        ),
        (
            |spec| spec["objects"][0]["template"]["metadata"]["name"] = json!("A_b"),
            "metadata.name: is not a valid object name",
        ),
        (
            |spec| spec["objects"][0]["template"]["metadata"]["labels"] = json!({"x": 1}),
            "labels[x]: must be a string",
        ),
        (
            |spec| spec["objects"][0]["template"]["metadata"]["labels"] = json!({"-x": "1"}),
            "labels[-x]: is not a valid key",
        ),
        (|spec| spec["objects"][0]["template"]["apiVersion"] = json!("a/b/c"), "is not a group and version"),
        (|spec| spec["objects"][0]["template"]["kind"] = json!("Role"), "a template cannot render Role"),
        (|spec| spec["objects"][0]["id"] = json!("optional"), "is reserved"),
        (
            |spec| spec["objects"][0]["includeWhen"] = json!("${object.spec.expose}"),
            "includeWhen: is an expression: write it without ${ and }",
        ),
        (
            |spec| spec["objects"][1]["template"]["metadata"]["labels"]["a"] = json!("${HOME}"),
            "write $${ for a literal ${",
        ),
        (
            |spec| spec["writeStatus"]["pods"] = json!("${pods(service)}"),
            "service is a Service, but pods(…) needs",
        ),
        (
            |spec| {
                let one = spec["objects"][0].clone();
                spec["objects"] = (0..33).map(|_| one.clone()).collect();
            },
            "has 33 entries, more than the maximum of 32",
        ),
        (
            |spec| spec["conflictPolicy"] = json!("Overwrite"),
            "Overwrite is not allowed, because the name of deploy reads object",
        ),
    ];
    for (change, said) in cases {
        let mut spec = nginx();
        change(&mut spec);
        let problems = compiled(&spec).err().unwrap_or_default();
        let is_told = problems.iter().any(|problem| problem.contains(said));
        assert!(if said.is_empty() { problems.is_empty() } else { is_told }, "{said}: {problems:#?}");
    }
}

#[test]
fn rolebindings_leave_no_right_to_the_instance() {
    let binding = |role: &str, subject: &str, for_each: Value| {
        let template = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "a"},
            "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "Group", "name": subject}]});
        compiled(&json!({"forEach": for_each, "objects": [{"id": "a", "template": template}]})).map(drop)
    };
    let objects = || json!({"objects": {"apiVersion": "a.b/v1", "kind": "A"}});
    let namespaces = || json!({"namespaces": [{"namespaceSelector": {}}]});
    let label = "${namespaceObject.metadata.labels.team}";
    assert_eq!(binding("view", label, namespaces()), Ok(()));
    let refused = |at: &str| Err(vec![format!("spec.objects[0].template.{at}: {}", node::MUST_BE_LITERAL)]);
    assert_eq!(binding(label, "team", namespaces()), refused("roleRef"));
    assert_eq!(binding("view", "${object.spec.team}", objects()), refused("subjects"));
    let elsewhere = json!({"apiVersion": "authorization.openshift.io/v1", "kind": "RoleBinding", "metadata": {"name": "a"},
        "roleRef": {"kind": "Role", "name": "a"}, "userNames": "${object.spec.users}"});
    let problems = compiled(&json!({"forEach": objects(), "objects": [{"id": "a", "template": elsewhere}]}))
        .unwrap_err();
    assert!(problems[1].contains("roleRef: must name a ClusterRole"), "{problems:?}");
    assert!(problems[2].contains("userNames: must be literal"), "{problems:?}");
}

#[test]
fn what_the_operator_does_not_act_on_yet_is_told_all_at_once() {
    let told = |spec: Value| -> Vec<String> {
        unserved(&compiled(&spec).unwrap()).into_iter().map(|problem| problem.message).collect()
    };
    assert_eq!(told(nginx()), [""; 0]);
    let object = |id: &str, version: &str, kind: &str| {
        let mut template = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
        if kind == "RoleBinding" {
            template["roleRef"] = json!({"kind": "ClusterRole", "name": "view"});
        }
        json!({"id": id, "template": template})
    };
    let each =
        |objects: Value| json!({"forEach": {"namespaces": [{"namespaceSelector": {}}]}, "objects": objects});
    let served = [
        ("v1", "ConfigMap"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("v1", "ResourceQuota"),
        ("v1", "LimitRange"),
        ("policy/v1", "PodDisruptionBudget"),
        ("v1", "ServiceAccount"),
        ("apps/v1", "Deployment"),
        ("v1", "Service"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        // Whether such a kind is granted is not for the compiler to know.
        ("cert-manager.io/v1", "Certificate"),
    ];
    let objects =
        served.iter().enumerate().map(|(at, (version, kind))| object(&format!("o{at}"), version, kind));
    assert_eq!(told(each(objects.collect())), [""; 0]);
    let of_secret = told(each(json!([object("a", "v1", "Secret")])));
    let expected = "spec.objects[a].template.kind: a template cannot render a Secret: ";
    assert!(of_secret.len() == 1 && of_secret[0].starts_with(expected), "{of_secret:?}");
    let mut overwriting = each(json!([object("a", "cert-manager.io/v1", "Certificate")]));
    overwriting["conflictPolicy"] = json!("Overwrite");
    let expected = "spec.conflictPolicy: only Refuse is allowed with a Certificate: Copyrator neither adopts nor overwrites objects of this kind";
    assert_eq!(told(overwriting), [expected]);
}

/// It is kept in memory several times as large, also while it may do nothing.
#[test]
fn a_template_that_is_too_large_is_refused() {
    let data: serde_json::Map<String, Value> =
        (0..40_000).map(|key| (format!("k{key}"), json!(""))).collect();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    let spec = json!({"forEach": {"namespaces": [{"namespaceSelector": {}}]}, "objects": [{"id": "a", "template": object}]});
    let problems = compiled(&spec).map(drop).unwrap_err();
    assert!(
        problems.len() == 1
            && problems[0].starts_with("spec: has ")
            && problems[0].contains("maximum of 256"),
        "{problems:?}"
    );
}
