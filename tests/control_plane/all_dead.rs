//! The worst night: policies that would rather have a write refused than unjudged, every process of ours dead, and then the
//! control plane too.

use devcluster::Component;
use serde_json::{Value, json};

use crate::bed::objects::{config_map, data, namespace, ours, secret};
use crate::bed::{Bed, Story, eventually, private};

/// What Kubernetes and we ourselves live on.
const EXEMPT: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", testbed::NAMESPACE];
const HOOKS: &str = "ValidatingWebhookConfiguration";

/// kyverno#16177 (nodes and CSRs held back at a cluster's start), gatekeeper#256 (leader elections), capsule#2036 (the network
/// cannot restart), kubernetes#92157.
#[test]
fn with_fail_policies_for_everything_and_us_dead_the_cluster_lives_and_starts_cold() {
    let bed = private("all-dead");
    let crew = bed.man();
    let story = Story::new(&bed, "lifeless");
    let going = story.called("going");
    let owned = data([("owner", "us"), ("held", "yes")]);
    bed.admin.create(&namespace(&going, &owned)).ok();
    everything_is_held(&bed, &story);
    // Judged and accepted while we live.
    let labelled = |object| labelled(object, "owner", "us");
    bed.admin.create(&labelled(config_map(&going, "app", [("k", "v")]))).ok();
    bed.admin.create(&labelled(secret(&going, "app", [("k", "v")]))).ok();
    let target = story.target("copies");
    bed.admin.apply(&labelled(config_map(&story.home, "app", [("k", "1")]))).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["copy"] = json!({ "labels": { "set": { "owner": "us" } } });
    bed.admin.create(&rule).ok();
    story.until("ConfigMap", &target, "app", [("k", "1")]);

    crew.webhook.kill();
    crew.reconciler.kill();
    until_held(&bed, &story);
    what_keeps_a_cluster_alive_is_written(&bed, "while it runs");
    workloads_run(&story, "before");
    a_new_namespace_is_complete(&bed, &story.called("new"));
    bed.admin.delete("Namespace", "", &going).ok();
    story.until_gone("Namespace", "", &going);

    start_cold(&bed);
    until_held(&bed, &story);
    what_keeps_a_cluster_alive_is_written(&bed, "after a cold start");
    workloads_run(&story, "after");
    a_new_namespace_is_complete(&bed, &story.called("newer"));

    // What we need we make by ourselves, past our own hooks, which still trust another CA.
    bed.release_lease();
    bed.admin.delete("Secret", testbed::NAMESPACE, "copyrator-webhook-ca").ok();
    let crew = bed.man();
    assert!(bed.admin.get("Secret", testbed::NAMESPACE, "copyrator-webhook-ca").is_some());
    eventually("writes are judged again", || {
        let good = bed.admin.try_create(&labelled(config_map(&story.home, "good", [("k", "v")]))).code;
        let bad = bed.admin.try_create(&config_map(&story.home, "bad", [("k", "v")])).code;
        if (good, bad) == (201, 403) { Ok(()) } else { Err(format!("good: {good}, bad: {bad}")) }
    });
    bed.admin.apply(&labelled(config_map(&story.home, "app", [("k", "2")]))).ok();
    story.until("ConfigMap", &target, "app", [("k", "2")]);
    drop(crew);
}

/// Policies with `failurePolicy: Fail` for every kind, in every namespace; for Namespaces those that are labelled.
fn everything_is_held(bed: &Bed, story: &Story<'_>) {
    for (kind, selector) in [
        ("ConfigMap", json!({})),
        ("Secret", json!({})),
        ("Namespace", json!({ "matchLabels": { "held": "yes" } })),
    ] {
        let spec = json!({
            "match": { "kinds": [kind], "namespaceSelector": selector }, "failurePolicy": "Fail",
            "labels": { "required": ["owner"] },
        });
        bed.admin.create(&ours("ConfigPolicy", "", &format!("held-{}", kind.to_lowercase()), spec)).ok();
    }
    eventually("each policy has a hook, and judges", || {
        let hooks = bed.admin.get(HOOKS, "", "copyrator").ok_or("no hooks")?["webhooks"].to_string();
        // Two of the three apply in the same namespaces.
        let names = ["held-configmap.and-1-more.", "held-namespace.namespaces-fail"];
        let missing: Vec<_> = names.iter().filter(|name| !hooks.contains(*name)).collect();
        let codes = probes(bed, story, false);
        if missing.is_empty() && codes == [403; 3] { Ok(()) } else { Err(format!("{missing:?} {codes:?}")) }
    });
}

/// Without this, whatever passes proves nothing.
fn until_held(bed: &Bed, story: &Story<'_>) {
    eventually("the hooks are in force, and nobody answers", || {
        let codes = probes(bed, story, true);
        if codes == [500; 3] { Ok(()) } else { Err(format!("{codes:?}")) }
    });
}

/// What becomes of one object of each kind, which is as the policies want it or not.
fn probes(bed: &Bed, story: &Story<'_>, is_good: bool) -> [u16; 3] {
    let mut held = namespace(&story.called("probe"), &data([("held", "yes")]));
    let mut content =
        [config_map(&story.home, "probe", [("k", "v")]), secret(&story.home, "probe", [("k", "v")])];
    if is_good {
        held = labelled(held, "owner", "us");
        content = content.map(|object| labelled(object, "owner", "us"));
    }
    let [config_map, secret] = content;
    [config_map, secret, held].map(|object| bed.admin.try_create(&object).code)
}

fn labelled(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["labels"][key] = value.into();
    object
}

fn what_keeps_a_cluster_alive_is_written(bed: &Bed, when: &str) {
    let name = when.replace(' ', "-");
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    bed.admin.create(&node).ok();
    bed.admin.merge("Node", "", &name, &json!({ "metadata": { "labels": { "a": "b" } } })).ok();
    let ready = json!({ "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }] });
    bed.admin.merge_status("Node", "", &name, &ready).ok();
    bed.admin.delete("Node", "", &name).ok();
    // The nodes' own controller makes a Lease of the node's name.
    let name = format!("{name}-too");
    for place in EXEMPT {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "namespace": place, "name": name },
            "spec": { "holderIdentity": name },
        });
        // One that asks for copies has a hook of its own, with `failurePolicy: Fail`.
        let mut declaring = secret(place, &name, [("k", "v")]);
        declaring["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
        declaring["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": "nowhere" });
        for object in [lease, config_map(place, &name, [("k", "v")]), declaring] {
            let kind = object["kind"].as_str().expect("a kind");
            bed.admin.create(&object).ok();
            bed.admin.merge(kind, place, &name, &json!({ "metadata": { "labels": { "a": "b" } } })).ok();
            bed.admin.delete(kind, place, &name).ok();
        }
    }
    for place in &EXEMPT[1..] {
        // The namespaces themselves too, whatever is said of them.
        bed.admin.merge("Namespace", "", place, &json!({ "metadata": { "labels": { "held": "yes" } } })).ok();
    }
    // Heartbeats of those that are there.
    let beat = || -> Value {
        let lease = bed.admin.get("Lease", "kube-node-lease", "node-0").expect("node-0 has a Lease");
        lease["spec"]["renewTime"].clone()
    };
    let before = beat();
    eventually("node-0 renews its Lease", || {
        let now = beat();
        if now == before { Err(now.to_string()) } else { Ok(()) }
    });
}

/// Ours, without which nobody would ever answer again, and everybody's.
fn workloads_run(story: &Story<'_>, when: &str) {
    let replicas = |count: u8| json!({ "spec": { "replicas": count } });
    for name in ["copyrator-webhook", "copyrator-reconciler"] {
        story.admin().merge("Deployment", testbed::NAMESPACE, name, &replicas(1)).ok();
        eventually(&format!("a pod of {name} runs"), || {
            let deployment = story.admin().get("Deployment", testbed::NAMESPACE, name).ok_or("it is gone")?;
            let status = &deployment["status"];
            if status["readyReplicas"] == 1 { Ok(()) } else { Err(status.to_string()) }
        });
        story.admin().merge("Deployment", testbed::NAMESPACE, name, &replicas(0)).ok();
    }
    story.deploy(when, &[]);
}

/// What Kubernetes' own controllers put into it, and what is no content of anybody's.
fn a_new_namespace_is_complete(bed: &Bed, name: &str) {
    bed.admin.create(&namespace(name, &data([]))).ok();
    let is_there = |kind: &str, object: &str| {
        eventually(&format!("{kind} {name}/{object} is there"), || {
            bed.admin.get(kind, name, object).map(drop).ok_or_else(|| "it is not".to_owned())
        });
    };
    is_there("ConfigMap", "kube-root-ca.crt");
    is_there("ServiceAccount", "default");
    bed.admin.delete("ConfigMap", name, "kube-root-ca.crt").ok();
    is_there("ConfigMap", "kube-root-ca.crt");
    let mut token = secret(name, "token", []);
    token["type"] = "kubernetes.io/service-account-token".into();
    token["metadata"]["annotations"] = json!({ "kubernetes.io/service-account.name": "default" });
    bed.admin.create(&token).ok();
    eventually("the token is filled in by its controller", || {
        let token = bed.admin.get("Secret", name, "token").ok_or("it is gone")?;
        if token["data"]["token"].is_string() { Ok(()) } else { Err(token["metadata"].to_string()) }
    });
    let mut release = secret(name, "sh.helm.release.v1.app.v1", [("release", "x")]);
    release["type"] = "helm.sh/release.v1".into();
    bed.admin.create(&release).ok();
    bed.account(name, "default");
    bed.admin.delete("Namespace", "", name).ok();
    eventually(&format!("Namespace {name} goes"), || {
        bed.admin.get("Namespace", "", name).map_or(Ok(()), |left| Err(left["status"].to_string()))
    });
}

/// Everything dies, and begins with the store. The API server puts its own ConfigMap back first.
fn start_cold(bed: &Bed) {
    const PARTS: [Component; 5] = [
        Component::Etcd,
        Component::ApiServer,
        Component::ControllerManager,
        Component::Scheduler,
        Component::Kwok,
    ];
    let own = "kube-apiserver-legacy-service-account-token-tracking";
    bed.admin.delete("ConfigMap", "kube-system", own).ok();
    let cluster = bed.testbed.cluster();
    for part in PARTS.into_iter().rev() {
        cluster.component(part).kill().expect("it dies");
    }
    for part in PARTS {
        cluster.component(part).start().expect("it starts");
    }
    eventually("the API server has put its own ConfigMap back", || {
        bed.admin.get("ConfigMap", "kube-system", own).map(drop).ok_or_else(|| "it has not".to_owned())
    });
}
