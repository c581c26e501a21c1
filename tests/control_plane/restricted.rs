//! What our pods may do to the node that they run on.

use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE};

use crate::bed::objects::{data, namespace};
use crate::bed::{Story, eventually, peaceful};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");

/// Pod Security admission itself says so, of the pods as the chart has them, in either topology, with the console.
#[test]
fn our_pods_meet_the_restricted_pod_security_standard() {
    let bed = peaceful();
    let story = Story::new(bed, "restricted");
    let home = format!("{}-enforced", story.home);
    let enforced = data([
        ("pod-security.kubernetes.io/enforce", "restricted"),
        ("pod-security.kubernetes.io/enforce-version", "latest"),
    ]);
    bed.admin.create(&namespace(&home, &enforced)).ok();
    eventually("the namespace has its account", || {
        bed.admin.get("ServiceAccount", &home, "default").ok_or("not yet".into())
    });
    let pods: Vec<Value> = ["split", "combined"].into_iter().flat_map(pods).collect();
    assert_eq!(pods.len(), 5, "webhook, reconciler, and both in one; the console beside them");
    for mut pod in pods {
        pod["metadata"]["namespace"] = home.clone().into();
        bed.admin.create(&pod).ok();
        let mut root = pod.clone();
        root["metadata"]["name"] = "as-root".into();
        root["spec"]["containers"][0]["securityContext"] = json!({ "runAsUser": 0 });
        let refusal = bed.admin.create(&root).refused();
        assert!(refusal.contains("violates PodSecurity"), "{refusal}");
        let name = pod["metadata"]["name"].as_str().expect("a name");
        bed.admin.delete("Pod", &home, name).ok();
        // Two of them have one name, and what has found a node takes a moment to go.
        story.until_gone("Pod", &home, name);
    }
}

/// The pods of the chart's Deployments. Their account and priority are of another namespace than the test's.
fn pods(topology: &str) -> Vec<Value> {
    let mut helm = peaceful().testbed.cluster().helm().expect("helm is there");
    helm.args(["template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", "1.36.0"]);
    let output = helm
        .args(["--set", &format!("topology={topology},console.enabled=true")])
        .output()
        .expect("helm runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("helm writes text");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("helm writes YAML");
    let deployments = objects.into_iter().filter(|object| object["kind"] == "Deployment");
    deployments
        .map(|deployment| {
            let mut spec = deployment["spec"]["template"]["spec"].clone();
            spec["serviceAccountName"] = "default".into();
            let name = deployment["metadata"]["name"].clone();
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
        })
        .collect()
}
