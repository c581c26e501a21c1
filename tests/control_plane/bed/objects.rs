//! Objects as people write them.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Keys and values.
pub type Data = BTreeMap<String, String>;

/// Keys and values, from pairs.
pub fn data<const N: usize>(pairs: [(&str, &str); N]) -> Data {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A namespace.
pub fn namespace(name: &str, labels: &Data) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
}

/// A ConfigMap.
pub fn config_map<const N: usize>(namespace: &str, name: &str, pairs: [(&str, &str); N]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": namespace, "name": name },
        "data": data(pairs),
    })
}

/// A Secret.
pub fn secret<const N: usize>(namespace: &str, name: &str, pairs: [(&str, &str); N]) -> Value {
    let encoded: Data = data(pairs).into_iter().map(|(key, value)| (key, STANDARD.encode(value))).collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": { "namespace": namespace, "name": name },
        "data": encoded,
    })
}

/// An object of one of our kinds.
pub fn ours(kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    let mut object =
        json!({ "apiVersion": "copyrator.dev/v1alpha1", "kind": kind, "metadata": { "name": name } });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object["spec"] = spec;
    object
}

/// A Deployment of one pod that is labelled `app: <name>` and runs `pod` in addition to a plain container.
pub fn deployment(namespace: &str, name: &str, container: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "namespace": namespace, "name": name },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": { "containers": [with_name(container)] } },
        },
    })
}

/// A workload whose pods wait until somebody lets them start, as those do that miss a ConfigMap: here nothing looks into
/// volumes.
pub fn gated(mut workload: Value) -> Value {
    workload["spec"]["template"]["spec"]["schedulingGates"] = json!([{ "name": "example.com/config" }]);
    workload
}

/// A pod that nobody controls.
pub fn pod(namespace: &str, name: &str, labels: &Data) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "labels": labels },
        "spec": { "containers": [with_name(json!({}))] },
    })
}

fn with_name(mut container: Value) -> Value {
    container["name"] = "main".into();
    container["image"] = "example.com/app".into();
    container
}

/// A binding of a user to a role of all namespaces (`edit`, `admin`), in one namespace.
pub fn binding(namespace: &str, user: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "namespace": namespace, "name": format!("{user}-{role}") },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    })
}

/// The keys and values of a ConfigMap or Secret, decoded.
pub fn data_of(object: &Value) -> Data {
    let entries = object["data"].as_object().into_iter().flatten();
    let is_secret = object["kind"] == "Secret";
    entries
        .map(|(key, value)| {
            let value = value.as_str().unwrap_or_default();
            let decoded = is_secret.then(|| STANDARD.decode(value).expect("a Secret's values are base64"));
            (
                key.clone(),
                decoded.map_or_else(|| value.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into()),
            )
        })
        .collect()
}

/// An annotation's value, or nothing.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// A label's value, or nothing.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

/// What changes with each write.
pub fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

/// What another object of the same name does not share.
pub fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// A condition's status and reason.
pub fn condition(object: &Value, kind: &str) -> Option<(String, String)> {
    let all = object["status"]["conditions"].as_array()?;
    let found = all.iter().find(|condition| condition["type"] == kind)?;
    Some((found["status"].as_str()?.to_owned(), found["reason"].as_str()?.to_owned()))
}

/// An object as a backup tool writes it back.
pub fn as_saved(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    for of_the_server in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        metadata.remove(of_the_server);
    }
    object.as_object_mut().expect("an object").remove("status");
    object
}
