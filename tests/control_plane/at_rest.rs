//! Objects of a template that nothing happens to while the operator is stopped and started again, in the cluster of
//! [`super::instances`].

use jiff::Timestamp;
use serde_json::json;

use crate::bed::objects::{deployment, ours};
use crate::bed::{Bed, Request, Story};

const RECONCILER: &str = "system:serviceaccount:copyrator-system:copyrator-reconciler";

/// Of kinds of which only the fields that a template names are kept, and stored otherwise than written. Returns the namespace.
pub fn a_deployment_and_a_service(story: &Story<'_>) -> String {
    let place = story.bystander("at-rest");
    let mut deployment = deployment("", "web", json!({}));
    deployment["metadata"] = json!({ "name": "web" });
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    container["resources"] = json!({ "limits": { "cpu": "1000m" } });
    container["env"] = json!([]);
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } });
    let spec = json!({
        "forEach": { "namespaces": [{ "names": [place] }] },
        "objects": [{ "id": "deploy", "template": deployment }, { "id": "service", "template": service }],
    });
    story.admin().create(&ours("CopyratorTemplate", &story.home, "at-rest", spec)).ok();
    story.until_condition("CopyratorTemplate", "at-rest", "Ready", "True", "AllRendered");
    place
}

/// Since then the reconciler has written nothing there, nor asked by a dry run what a write would change.
pub fn nothing_was_tried(bed: &Bed, place: &str, since: Timestamp) {
    let mut tried = bed.requests();
    let is_later = |it: &Request| it.at.0.parse::<Timestamp>().expect("a time") >= since;
    let is_write = |it: &Request| !["get", "list", "watch"].contains(&&*it.verb);
    tried.retain(|it| it.user == RECONCILER && it.namespace == place && is_write(it) && is_later(it));
    assert!(tried.is_empty(), "started again, it wrote or made dry runs: {tried:#?}");
}
