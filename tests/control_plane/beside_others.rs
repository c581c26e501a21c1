//! Others write into what a template declares: admission adds and rewrites, controllers annotate, somebody scales. On a cluster that
//! grants the kinds.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, condition, data, deployment, namespace, ours};
use crate::bed::{Bed, Story, eventually, same};

const NAME: &str = "web";
const POLICY: &str = "beside";
/// Each image comes from a mirror, and beside each container there is another.
const REWRITTEN: &str = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: \
    object.spec.template.spec.containers.filter(c, !c.image.startsWith('mirror.example.com/'))\
    .map(c, Object.spec.template.spec.containers{name: c.name, image: 'mirror.example.com/' + c.image}) \
    + [Object.spec.template.spec.containers{name: 'sidecar', image: 'mirror.example.com/proxy:1'}]}}}}";

/// A Deployment without `replicas`, under a policy that changes it. Once everybody has written, nobody of ours
/// writes again, whatever a sweep has compared: the audit log says so.
pub fn nobody_fights(bed: &Bed, until_swept: &dyn Fn()) {
    let story = Story::new(bed, "beside");
    let place = story.called("a");
    let labels = data([("story", "beside"), ("beside", "yes")]);
    story.admin().create(&namespace(&place, &labels)).ok();
    rewrite(&story);
    eventually("the policy is in force", || {
        let probe = story.admin().try_create(&deployment(&place, "probe", json!({}))).ok();
        same(containers(&probe).len(), 2)
    });

    story.admin().create(&template(&story, "nginx:1")).ok();
    story.until_condition("CopyratorTemplate", NAME, "Ready", "True", "AllRendered");
    let get = || story.admin().get("Deployment", &place, NAME).ok_or("it does not exist".to_owned());
    // By the subresource.
    bed.kubectl(&["scale", "deployment", NAME, "--namespace", &place, "--replicas=3"], &Value::Null);
    let at_rest = |replicas: u8, image: &str, revision: &str| {
        eventually(&format!("{replicas} pods of {image} are there"), || {
            let deployment = get()?;
            let status = &deployment["status"];
            same(annotation(&deployment, "deployment.kubernetes.io/revision"), Some(revision))?;
            let expected = [("main", image), ("sidecar", "mirror.example.com/proxy:1")];
            same(
                containers(&deployment),
                expected.map(|(name, image)| (name.into(), image.into())).to_vec(),
            )?;
            let counts = [&status["replicas"], &status["updatedReplicas"], &status["availableReplicas"]];
            same(counts.map(Clone::clone), [replicas; 3].map(Value::from)).map_err(|_| status.to_string())
        });
    };
    at_rest(3, "mirror.example.com/nginx:1", "1");
    not_kept_is_told(&story);
    // What the text changes comes, and the rest stays.
    let change = json!({ "spec": template(&story, "nginx:2")["spec"] });
    story.admin().merge("CopyratorTemplate", &story.home, NAME, &change).ok();
    at_rest(3, "mirror.example.com/nginx:2", "2");
    // By an apply, as somebody else's operator does.
    let applied = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "namespace": place, "name": NAME }, "spec": { "replicas": 4 } });
    story.admin().apply_as("another-operator", &applied).ok();
    at_rest(4, "mirror.example.com/nginx:2", "2");
    // Kubernetes' own autoscaler goes to the least number by itself. It has no metrics here, and stays there.
    let scaled = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": NAME });
    let autoscaler = json!({ "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "namespace": place, "name": NAME },
        "spec": { "scaleTargetRef": scaled, "minReplicas": 5, "maxReplicas": 6 } });
    story.admin().create(&autoscaler).ok();
    at_rest(5, "mirror.example.com/nginx:2", "2");
    story.until_condition("CopyratorTemplate", NAME, "Ready", "True", "AllRendered");

    until_swept();
    let before = bed.our_writes_in(&place);
    until_swept();
    assert_eq!(bed.our_writes_in(&place), before, "something was written again");
    at_rest(5, "mirror.example.com/nginx:2", "2");
    not_kept_is_told(&story);

    // Once the policy is gone, a sweep finds that the declared image would be kept.
    leave(&story, POLICY);
    at_rest(5, "nginx:2", "3");
    eventually("nothing is told any more", || {
        let template = story.admin().get("CopyratorTemplate", &story.home, NAME).ok_or("it is gone")?;
        same(condition(&template, "Degraded"), None)
    });
    story.admin().delete("HorizontalPodAutoscaler", &place, NAME).ok();
    story.admin().delete("CopyratorTemplate", &story.home, NAME).ok();
    story.until_gone("Deployment", &place, NAME);
}

/// A copy that a policy rewrites is told, and nothing is written again, whatever a sweep has compared. Of this list the order is
/// content: the API server does not merge it.
pub fn a_rewritten_copy_is_told(bed: &Bed, until_swept: &dyn Fn()) {
    let story = Story::new(bed, "rewritten");
    let place = story.called("a");
    let labels = data([("story", "rewritten"), ("rewritten", "yes")]);
    story.admin().create(&namespace(&place, &labels)).ok();
    let turned = "object.spec.policyTypes == ['Ingress', 'Egress'] ? \
        [JSONPatch{op: 'replace', path: '/spec/policyTypes', value: ['Egress', 'Ingress']}] : []";
    let rewritten = json!({ "patchType": "JSONPatch", "jsonPatch": { "expression": turned } });
    let networks = json!({ "apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"], "resources": ["networkpolicies"] });
    change(&story, ("rewritten", networks, rewritten));
    let network = |namespace: &str, name: &str| {
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "namespace": namespace, "name": name },
            "spec": { "podSelector": {}, "policyTypes": ["Ingress", "Egress"] } })
    };
    let types = |policy: &Value| policy["spec"]["policyTypes"].clone();
    eventually("the policy is in force", || {
        let probe = story.admin().try_create(&network(&place, "probe")).ok();
        same(types(&probe), json!(["Egress", "Ingress"]))
    });

    story.admin().create(&network(&story.home, "deny")).ok();
    story.admin().create(&story.rule("NetworkPolicy", &["deny"])).ok();
    let told = || {
        let rule = story.until_condition("CopyratorRule", "rule", "Degraded", "True", "NotKept");
        let message = rule["status"]["problems"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains(" spec.policyTypes[1]: a mutating webhook"), "{rule}");
        assert_eq!(rule["status"]["current"], rule["status"]["desired"], "{rule}");
    };
    told();
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    until_swept();
    let before = bed.our_writes_in(&place);
    until_swept();
    assert_eq!(bed.our_writes_in(&place), before, "it was written again");
    told();

    leave(&story, "rewritten");
    eventually("the copy is like its source, and nothing is told any more", || {
        let copy = story.admin().get("NetworkPolicy", &place, "deny").ok_or("it is gone")?;
        same(types(&copy), json!(["Ingress", "Egress"]))?;
        let rule = story.admin().get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        same(condition(&rule, "Degraded"), None)
    });
    story.admin().delete("CopyratorRule", &story.home, "rule").ok();
    story.until_gone("NetworkPolicy", &place, "deny");
}

/// The status names the field that the policy changes, and not the sidecar, which the template does not declare.
fn not_kept_is_told(story: &Story<'_>) {
    let told = story.until_condition("CopyratorTemplate", NAME, "Degraded", "True", "NotKept");
    let problems = &told["status"]["problems"];
    assert_eq!(told["status"]["current"], told["status"]["desired"], "{problems}");
    let message = problems[0]["message"].as_str().unwrap_or_default();
    assert!(message.contains(" spec.template.spec.containers[main].image: a mutating webhook"), "{problems}");
}

/// Has the API server change what comes into the story's namespace.
fn rewrite(story: &Story<'_>) {
    let deployments = json!({ "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"] });
    let rewritten =
        json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": REWRITTEN } });
    change(story, (POLICY, deployments, rewritten));
}

/// A policy of this name changes what is written of these resources into namespaces with its name as label.
fn change(story: &Story<'_>, (name, mut resources, mutation): (&str, Value, Value)) {
    resources["operations"] = json!(["CREATE", "UPDATE"]);
    let spec = json!({
        "matchConstraints": { "namespaceSelector": { "matchLabels": { name: "yes" } }, "resourceRules": [resources] },
        "failurePolicy": "Fail", "reinvocationPolicy": "Never", "mutations": [mutation],
    });
    for (kind, spec) in
        [("MutatingAdmissionPolicy", spec), ("MutatingAdmissionPolicyBinding", json!({ "policyName": name }))]
    {
        let object = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name }, "spec": spec });
        story.admin().create(&object).ok();
    }
}

/// The policy goes.
fn leave(story: &Story<'_>, name: &str) {
    for kind in ["MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"] {
        story.admin().delete(kind, "", name).ok();
    }
}

/// Names and images, by name.
fn containers(deployment: &Value) -> Vec<(String, String)> {
    let all = deployment["spec"]["template"]["spec"]["containers"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all: Vec<_> =
        all.into_iter().flatten().map(|it| (text(&it["name"]), text(&it["image"]))).collect();
    all.sort();
    all
}

fn template(story: &Story<'_>, image: &str) -> Value {
    let mut deployment = deployment("", NAME, json!({}));
    deployment["metadata"] = json!({ "name": NAME });
    deployment["spec"].as_object_mut().expect("an object").remove("replicas");
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    container["image"] = image.into();
    // Stored otherwise than written: 1 for 1000m, and nothing for what is empty.
    container["resources"] = json!({ "limits": { "cpu": "1000m", "memory": "1024Mi" } });
    container["env"] = json!([]);
    let spec = json!({
        "forEach": { "namespaces": [{ "namespaceSelector": story.selector() }] },
        "objects": [{ "id": "deploy", "template": deployment }],
        "deletionGrace": "0s",
    });
    ours("CopyratorTemplate", &story.home, NAME, spec)
}
