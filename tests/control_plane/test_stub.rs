//! A Deployment and a Service wherever a namespace is labelled: kinds of which only the fields that a template names are kept. On a
//! cluster that grants the kinds.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, binding, condition, data, label, namespace, ours, uid};
use crate::bed::{Answer, Bed, Story, eventually, same};
use crate::console::{Run, names};

const NAME: &str = "k8s-test-stub";
const RENAMED: &str = "k8s-test-stub-2";
const EXAMPLE: &str = include_str!("../../examples/test-stub.yaml");

/// It comes with the label and goes with it, whatever people and controllers write into it meanwhile.
pub fn it_comes_and_goes_with_a_label(bed: &Bed, until_swept: &dyn Fn()) {
    let story = Story::new(bed, "stub");
    story.admin().create(&template(&story, &deployment("k8s-test-app"), "Never")).ok();
    let place = story.called("testing");
    let labels = data([("story", "stub"), ("stub", "yes")]);
    story.admin().create(&namespace(&place, &labels)).ok();
    let made = until_there(&story, &place);
    assert_eq!(made["spec"]["replicas"], 2);
    assert_eq!(made["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:alpine");
    assert_eq!(annotation(&made, "creator"), Some("k8s-operator-test"));
    let service = story.admin().get("Service", &place, NAME).expect("it was there");
    assert_eq!(service["spec"]["type"], "NodePort");
    // kubectl get deployment,svc --selector=app=k8s-test-app
    let found = [&made, &service].map(|object| label(object, "app"));
    assert_eq!(found, [Some("k8s-test-app"); 2]);
    let allocated = service["spec"]["ports"][0]["nodePort"].clone();
    assert!(allocated.is_number(), "the API server gives a port");
    story.until_condition("CopyratorTemplate", "stub", "Ready", "True", "AllRendered");

    until_endpoints(&story, &place);
    commands_say_whose_it_is(&story, &place);
    people_may_not_take_it(&story, &place);
    what_is_not_named_is_theirs(&story, &place, &allocated, until_swept);
    what_is_in_the_way_stays(&story);
    a_rollout_is_not_undone(&story, &place);
    what_no_update_can_change_is_told(&story, &place);
    a_renamed_service_gets_the_port_of_the_one_before(&story, &place);

    let off = json!({ "metadata": { "labels": { "stub": null } } });
    story.admin().merge("Namespace", "", &place, &off).ok();
    story.until_gone("Deployment", &place, NAME);
    story.until_gone("Service", &place, RENAMED);
    story.admin().delete("CopyratorTemplate", &story.home, "stub").ok();
}

/// The article's client, with HTTP alone: it lists, it makes a Deployment and a Service, it takes them away. The template is the
/// example's.
pub fn it_is_made_and_removed_over_http(bed: &Bed) {
    let story = Story::new(bed, "article");
    let place = story.called("testing");
    let labels = data([("example.com/test-stub", "nginx")]);
    story.admin().create(&namespace(&place, &labels)).ok();
    let run = Run::start(&story, None, &[]);
    assert_eq!(run.api("/nodes").0, 200);
    let (code, all) = run.api("/namespaces");
    assert!(code == 200 && names(&all).contains(&&*place), "{all}");
    let there = |kinds: &str| {
        let (code, list) = run.api(&format!("/namespaces/{place}/{kinds}"));
        assert_eq!(code, 200, "{list}");
        names(&list).contains(&NAME)
    };
    assert!(!there("deployments") && !there("services"));

    let template = EXAMPLE.replace("namespace: platform", &format!("namespace: {}", story.home));
    let path = format!("/api/v1/namespaces/{}/templates/test-stub", story.home);
    let (code, _, answer) = run.send("PUT", &path, &[], &template);
    assert!([200, 201].contains(&code), "{code} {answer}");
    eventually("both are listed", || match (there("deployments"), there("services")) {
        (true, true) => Ok(()),
        seen => Err(format!("{seen:?}")),
    });
    let (code, _, answer) = run.send("DELETE", &path, &[], "");
    assert_eq!(code, 200, "{answer}");
    eventually("neither is listed", || match (there("deployments"), there("services")) {
        (false, false) => Ok(()),
        seen => Err(format!("{seen:?}")),
    });
}

/// EndpointSlices get the labels of their Service, and are nobody's copies: their controller writes them undisturbed.
fn until_endpoints(story: &Story<'_>, place: &str) {
    eventually("the Service has its endpoints", || {
        let labels = format!("kubernetes.io/service-name={NAME}");
        let slices = story.admin().list("EndpointSlice", place, &labels);
        let ready =
            slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten()).count();
        if ready == 2 { Ok(()) } else { Err(format!("{slices:?}")) }
    });
}

fn commands_say_whose_it_is(story: &Story<'_>, place: &str) {
    for object in [format!("deploy/{NAME}"), format!("svc/{NAME}")] {
        let output = story.bed.testbed.copyrator(&["why", &object, "-n", place]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.contains("CopyratorTemplate stub-home/stub") && said.contains("reverts edits"),
            "{output:?}"
        );
    }
    let output =
        story.bed.testbed.copyrator(&["tree", "copyt/stub", "-n", &story.home]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(["Deployment", "Service"].iter().all(|kind| said.contains(kind)), "{output:?}");
    let listed = story.bed.kubectl(&["get", "copyrator", "-n", &story.home], &Value::Null);
    for column in ["INSTANCES", "DESIRED", "CURRENT", "LEAVING", "PROBLEMS", "READY", "REASON"] {
        assert!(listed.contains(column), "{column}: {listed}");
    }
    let row = listed.lines().find(|line| line.starts_with("copyratortemplate.copyrator.dev/stub"));
    let words: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
    assert_eq!(words.get(1..4), Some(&["1", "2", "2"][..]), "{listed}");
}

fn people_may_not_take_it(story: &Story<'_>, place: &str) {
    story.admin().create(&binding(place, "bob", "admin")).ok();
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "stub-statuses" },
        "rules": [{ "apiGroups": ["", "apps"], "resources": ["deployments/status", "services/status"], "verbs": ["patch"] }] });
    story.admin().create(&role).ok();
    story.admin().create(&binding(place, "bob", "stub-statuses")).ok();
    let unmarked = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } });
    let owned = json!({ "metadata": { "ownerReferences": [
        { "apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "8d1b54f5-5b5c-4a0c-9f7b-000000000000" },
    ] } });
    let bob = &story.bed.bob;
    eventually("bob may write in the namespace", || {
        let answer =
            bob.merge("Deployment", place, NAME, &json!({ "metadata": { "labels": { "mine": "yes" } } }));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    let is_guarded = |answer: Answer| {
        let is_told = |said: &str| said.contains("change stub-home/stub") && said.contains("override");
        let said = answer.body["message"].as_str().unwrap_or_default();
        if answer.code == 403 && is_told(said) { Ok(()) } else { Err(answer.body.to_string()) }
    };
    // The API server takes no labels of a Deployment by its status, but annotations and owners.
    let mark = json!({ "metadata": { "annotations": { "copyrator.dev/mark": null } } });
    for (kind, by_status) in [("Deployment", [&mark, &owned]), ("Service", [&unmarked, &owned])] {
        for patch in [&unmarked, &mark, &owned] {
            assert_eq!(is_guarded(bob.merge(kind, place, NAME, patch)), Ok(()));
        }
        for patch in by_status {
            eventually("the policy refuses it by the status, too, which RBAC lets bob write", || {
                is_guarded(bob.merge_by_status(kind, place, NAME, patch))
            });
        }
        assert_eq!(is_guarded(bob.delete(kind, place, NAME)), Ok(()));
    }
    // As the controller of load balancers does, who may not override either.
    let finalizer = |names: Value| json!({ "metadata": { "finalizers": names } });
    let held = finalizer(json!(["service.kubernetes.io/load-balancer-cleanup"]));
    bob.merge("Deployment", place, NAME, &held).refused();
    bob.merge("Service", place, NAME, &held).ok();
    bob.merge("Service", place, NAME, &finalizer(json!([]))).ok();
}

/// Fields that the template names are put right; the others are people's and controllers', and cause no write.
fn what_is_not_named_is_theirs(story: &Story<'_>, place: &str, allocated: &Value, until_swept: &dyn Fn()) {
    let get = || story.admin().get("Deployment", place, NAME).ok_or("it is gone".to_owned());
    let edit = json!({ "spec": { "replicas": 5, "revisionHistoryLimit": 3 } });
    story.bed.bob.merge("Deployment", place, NAME, &edit).ok();
    eventually("the number of replicas is the template's again", || {
        same(get()?["spec"]["replicas"].clone(), json!(2))
    });
    assert_eq!(get().map(|it| it["spec"]["revisionHistoryLimit"].clone()), Ok(json!(3)));
    let image = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "nginx", "image": "other:1" }] } } } });
    story.bed.bob.merge("Deployment", place, NAME, &image).ok();
    eventually("the image is the template's again", || {
        same(get()?["spec"]["template"]["spec"]["containers"][0]["image"].clone(), json!("nginx:alpine"))
    });

    // The rollout that the image caused goes on for a while.
    eventually("the Deployment is at rest", || {
        let status = &get()?["status"];
        let is_ready = [&status["updatedReplicas"], &status["availableReplicas"], &status["replicas"]];
        if is_ready.iter().all(|number| **number == 2) { Ok(()) } else { Err(status.to_string()) }
    });
    until_swept();
    let before = story.bed.our_writes_in(place);
    let theirs =
        json!({ "metadata": { "annotations": { "note": "mine" } }, "spec": { "minReadySeconds": 1 } });
    story.bed.bob.merge("Deployment", place, NAME, &theirs).ok();
    let theirs = json!({ "spec": { "sessionAffinity": "ClientIP" } });
    story.bed.bob.merge("Service", place, NAME, &theirs).ok();
    until_swept();
    assert_eq!(story.bed.our_writes_in(place), before, "something was written that nobody asked for");
    let service = story.admin().get("Service", place, NAME).expect("it was there");
    assert_eq!(
        (&service["spec"]["ports"][0]["nodePort"], &service["spec"]["sessionAffinity"]),
        (allocated, &json!("ClientIP"))
    );
}

fn what_is_in_the_way_stays(story: &Story<'_>) {
    let other = story.bystander("other");
    let mut own = deployment("own");
    own["metadata"]["namespace"] = other.clone().into();
    story.admin().create(&own).ok();
    let label = json!({ "metadata": { "labels": { "story": "stub", "stub": "yes" } } });
    story.admin().merge("Namespace", "", &other, &label).ok();
    eventually("the Deployment in the way is reported", || {
        let template = story.admin().get("CopyratorTemplate", &story.home, "stub").ok_or("it is gone")?;
        let said = template["status"]["problems"].to_string();
        let is_told = said.contains("Conflict") && said.contains("Copyrator did not make it");
        if is_told { Ok(()) } else { Err(template["status"].to_string()) }
    });
    let there = story.admin().get("Deployment", &other, NAME).expect("it stays");
    assert_eq!(there["spec"]["selector"]["matchLabels"]["app"], "own");
    story.admin().merge("Namespace", "", &other, &json!({ "metadata": { "labels": { "stub": null } } })).ok();
}

/// kubectl would bring back the annotations of the older ReplicaSet with its pod template, the older digest of ours among them.
fn a_rollout_is_not_undone(story: &Story<'_>, place: &str) {
    let get = || story.admin().get("Deployment", place, NAME).ok_or("it is gone".to_owned());
    let revision =
        |deployment: &Value| annotation(deployment, "deployment.kubernetes.io/revision").map(str::to_owned);
    let before = revision(&get().unwrap_or_default());
    let mut newer = deployment("k8s-test-app");
    newer["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:stable".into();
    let spec = template(story, &newer, "Never")["spec"].clone();
    story.admin().merge("CopyratorTemplate", &story.home, "stub", &json!({ "spec": spec })).ok();
    eventually("the new image has its ReplicaSet", || {
        let there = get()?;
        same(there["spec"]["template"]["spec"]["containers"][0]["image"].clone(), json!("nginx:stable"))?;
        if revision(&there) == before { Err(format!("{before:?}")) } else { Ok(()) }
    });
    let cluster = story.bed.testbed.cluster();
    let bob = cluster.user("bob").expect("bob is a user");
    let undone =
        cluster.kubectl_as(&bob).args(["rollout", "undo", &format!("deploy/{NAME}"), "-n", place]).output();
    let undone = undone.expect("kubectl runs");
    let said = String::from_utf8_lossy(&undone.stderr);
    assert!(!undone.status.success() && said.contains("override"), "{undone:?}");
    let image = get().map(|it| it["spec"]["template"]["spec"]["containers"][0]["image"].clone());
    assert_eq!(image, Ok(json!("nginx:stable")));
}

/// A selector never changes. With `OnImmutable` the Deployment is made anew, once the API server would accept the new one.
fn what_no_update_can_change_is_told(story: &Story<'_>, place: &str) {
    let before = uid(&story.admin().get("Deployment", place, NAME).expect("it is there"));
    let change = |deployment: &Value, recreate: &str| {
        let spec = template(story, deployment, recreate)["spec"].clone();
        story.admin().merge("CopyratorTemplate", &story.home, "stub", &json!({ "spec": spec })).ok();
    };
    let refused = |what: &str, part: &str| {
        eventually(what, || {
            let template = story.admin().get("CopyratorTemplate", &story.home, "stub").ok_or("it is gone")?;
            let told = condition(&template, "Degraded") == Some(("True".into(), "Refused".into()));
            let is_told = told && template["status"]["problems"].to_string().contains(part);
            if is_told { Ok(()) } else { Err(template["status"].to_string()) }
        });
        assert_eq!(uid(&story.admin().get("Deployment", place, NAME).expect("it stays")), before);
    };
    change(&deployment("another-app"), "Never");
    refused("the change is refused", "recreate: OnImmutable");
    let mut invalid = deployment("another-app");
    invalid["spec"]["template"]["metadata"]["labels"] = json!({ "app": "none" });
    change(&invalid, "OnImmutable");
    refused("what the API server would not accept deletes nothing", "spec.template.metadata.labels");
    change(&deployment("another-app"), "OnImmutable");
    eventually("it is made anew", || {
        let there = story.admin().get("Deployment", place, NAME).ok_or("it is gone")?;
        same(there["spec"]["selector"]["matchLabels"]["app"].clone(), json!("another-app"))
    });
    story.until_condition("CopyratorTemplate", "stub", "Ready", "True", "AllRendered");
    a_service_is_made_anew_with_the_port_that_it_had(story, place);
}

/// An address never changes, and the port of the nodes is taken, by the Service itself, until that is gone.
fn a_service_is_made_anew_with_the_port_that_it_had(story: &Story<'_>, place: &str) {
    let before = story.admin().get("Service", place, NAME).expect("it is there");
    let port = before["spec"]["ports"][0]["nodePort"].clone();
    let mut spec = template(story, &deployment("another-app"), "OnImmutable")["spec"].clone();
    spec["objects"][1]["recreate"] = "OnImmutable".into();
    let service = &mut spec["objects"][1]["template"]["spec"];
    // The API server gives addresses from the other end.
    service["clusterIP"] = "10.96.0.77".into();
    service["ports"][0]["nodePort"] = port.clone();
    story.admin().merge("CopyratorTemplate", &story.home, "stub", &json!({ "spec": spec })).ok();
    eventually("the Service is made anew", || {
        let there = story.admin().get("Service", place, NAME).ok_or("it is gone")?;
        same(there["spec"]["clusterIP"].clone(), json!("10.96.0.77"))?;
        same(there["spec"]["ports"][0]["nodePort"].clone(), port.clone())?;
        if uid(&there) == uid(&before) { Err("it is the same".to_owned()) } else { Ok(()) }
    });
    story.until_condition("CopyratorTemplate", "stub", "Ready", "True", "AllRendered");
}

/// The template gives its Service another name. While the Service of before is there, it holds the port: that is told, and the
/// new one gets the port when the one before is gone.
fn a_renamed_service_gets_the_port_of_the_one_before(story: &Story<'_>, place: &str) {
    let before = story.admin().get("Service", place, NAME).expect("it is there");
    let port = before["spec"]["ports"][0]["nodePort"].clone();
    let hold = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    story.admin().merge("Service", place, NAME, &hold).ok();
    let template = story.admin().get("CopyratorTemplate", &story.home, "stub").expect("it is there");
    let mut spec = template["spec"].clone();
    spec["objects"][1]["template"]["metadata"]["name"] = RENAMED.into();
    spec["objects"][1]["template"]["spec"].as_object_mut().expect("a spec").remove("clusterIP");
    story.admin().merge("CopyratorTemplate", &story.home, "stub", &json!({ "spec": spec })).ok();
    eventually("it is told what holds the port", || {
        let template = story.admin().get("CopyratorTemplate", &story.home, "stub").ok_or("it is gone")?;
        let said = template["status"]["problems"].to_string();
        let old = format!("Service {place}/{NAME}");
        let is_told = ["spec.ports[0].nodePort", "provided port is already allocated", &old];
        if is_told.iter().all(|part| said.contains(part)) { Ok(()) } else { Err(said) }
    });
    let release = json!({ "metadata": { "finalizers": null } });
    story.admin().merge("Service", place, NAME, &release).ok();
    eventually("the new Service has the port", || {
        let there = story.admin().get("Service", place, RENAMED).ok_or("it is not there")?;
        same(there["spec"]["ports"][0]["nodePort"].clone(), port.clone())
    });
    story.until_condition("CopyratorTemplate", "stub", "Ready", "True", "AllRendered");
}

fn until_there(story: &Story<'_>, place: &str) -> Value {
    eventually("Deployment and Service are there", || {
        let service = story.admin().get("Service", place, NAME);
        let deployment = story.admin().get("Deployment", place, NAME).filter(|_| service.is_some());
        deployment.ok_or_else(|| {
            let template = story.admin().get("CopyratorTemplate", &story.home, "stub").unwrap_or_default();
            template["status"].to_string()
        })
    })
}

/// The stub as the article makes it.
fn deployment(app: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": NAME, "labels": { "app": app }, "annotations": { "creator": "k8s-operator-test" } },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": app } },
            "template": {
                "metadata": { "labels": { "app": app } },
                "spec": { "containers": [{
                    "name": "nginx", "image": "nginx:alpine", "env": [],
                    "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } },
                }] },
            },
        },
    })
}

fn template(story: &Story<'_>, deployment: &Value, recreate: &str) -> Value {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": NAME, "labels": { "app": deployment["spec"]["selector"]["matchLabels"]["app"] } },
        "spec": {
            "type": "NodePort", "selector": { "app": deployment["spec"]["selector"]["matchLabels"]["app"] },
            "ports": [{ "port": 8080, "targetPort": 80 }],
        },
    });
    let mut selector = story.selector();
    selector["matchLabels"]["stub"] = "yes".into();
    let spec = json!({
        "forEach": { "namespaces": [{ "namespaceSelector": selector }] },
        "objects": [
            { "id": "deploy", "template": deployment, "recreate": recreate },
            { "id": "service", "template": service },
        ],
        "deletionGrace": "0s",
    });
    ours("CopyratorTemplate", &story.home, "stub", spec)
}
