//! The simulated nodes, and the rights of kwok, which simulates them.

use serde_json::{Value, json};

use crate::cluster::DevCluster;
use crate::identities;

/// What the cluster gets before kwok starts: kwok's rights, and the nodes.
pub(crate) fn objects(nodes: u32) -> Value {
    let mut items = vec![role(), binding()];
    items.extend((0..nodes).map(node));
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// Frees the nodes of the kwok that ended: the next one has another identity, and would leave them alone
/// until their leases run out, 40 seconds later.
pub(crate) fn give_up_leases(cluster: &DevCluster) {
    // Without an API server there is nothing to free yet, and kwok waits by itself.
    let _ = cluster.ask(&["delete", "leases", "--all", "--namespace=kube-node-lease", "--wait=false"]);
}

fn node(number: u32) -> Value {
    let name = format!("node-{number}");
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/type": "kwok",
            },
        },
    })
}

/// As in kwok's own manifests, less the rights to its custom resources, which we don't use.
fn role() -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": identities::KWOK },
        "rules": [
            rule("", &["nodes"], &["get", "list", "watch"]),
            rule("", &["pods"], &["get", "list", "watch", "patch", "update", "delete"]),
            rule("", &["nodes/status", "pods/status"], &["patch", "update"]),
            rule("", &["events"], &["create", "patch", "update"]),
            rule(
                "coordination.k8s.io",
                &["leases"],
                &["create", "get", "list", "watch", "patch", "update"],
            ),
        ],
    })
}

fn binding() -> Value {
    let api_group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": identities::KWOK },
        "roleRef": { "apiGroup": api_group, "kind": "ClusterRole", "name": identities::KWOK },
        "subjects": [{ "apiGroup": api_group, "kind": "User", "name": identities::KWOK }],
    })
}
