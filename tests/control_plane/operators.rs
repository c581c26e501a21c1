//! What operators of one's own were written for: the two of the articles, by templates, with the definitions of the articles.

use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE};

use crate::bed::objects::{binding, config_map, data, label, pod, uid};
use crate::bed::{Bed, Story, enforcing_owners, eventually, same};
use crate::operators_killed::killed_at_any_of_its_writes;
use crate::plan::run;
use crate::rights::unused_on;
use crate::statuses;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
const RECONCILER: &str = "system:serviceaccount:copyrator-system:copyrator-reconciler";
pub const MEMCACHED: &str = include_str!("../../examples/memcached.yaml");
/// The definition, and the template.
pub const NGINX: &str = include_str!("../../examples/nginx-server.yaml");
/// What the reconciler is started with.
pub const FLAGS: [&str; 4] = [
    "--copy-kinds",
    "Deployment,Service",
    "--template-kinds",
    "cache.example.com/v1alpha1/Memcached/memcacheds/forEach+statusField,\
     web.example.com/v1/NginxServer/nginxservers/forEach+statusField,\
     pairs.example.com/v1/Pair/pairs/forEach+status,\
     bares.example.com/v1/Bare/bares/forEach+status,\
     fulls.example.com/v1/Full/fulls/forEach+statusField",
];

#[test]
fn operators_without_code() {
    let bed = enforcing_owners("operators");
    let mut kinds = json!([
        { "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "resource": "memcacheds", "use": ["forEach", "statusField"] },
        { "apiVersion": "web.example.com/v1", "kind": "NginxServer", "resource": "nginxservers", "use": ["forEach", "statusField"] },
    ]);
    kinds.as_array_mut().expect("it is a list").extend(statuses::granted());
    let granted = format!("templates.kinds={kinds}");
    let args = [
        "upgrade",
        RELEASE,
        CHART,
        "-n",
        NAMESPACE,
        "--reuse-values",
        "--set",
        "copies.kinds={Deployment,Service}",
    ];
    bed.helm(&[&args[..], &["--set-json", &granted]].concat());
    let crew = bed.man_with(&FLAGS);
    memcached(&bed);
    nginx(&bed);
    a_field_of_somebody_else(&bed);
    statuses::define(&bed);
    statuses::a_type_error_stops_its_instance_before_anything_is_written(&bed);
    statuses::fields_that_are_written_no_more_go(&bed);
    statuses::templates_write_one_status_beside_each_other(&bed);
    statuses::templates_that_drive_each_other_are_braked(&bed);
    statuses::a_status_that_has_its_place_elsewhere_is_told(&bed);
    let crew = killed_at_any_of_its_writes(&bed, crew);
    let forbidden: Vec<_> =
        bed.requests().into_iter().filter(|it| it.user == RECONCILER && it.is_forbidden()).collect();
    assert!(forbidden.is_empty(), "a right is missing: {forbidden:#?}");
    assert_eq!(
        unused_on(&bed, &["cache.example.com", "web.example.com", "pairs.example.com"]),
        Vec::<String>::new()
    );
    drop(crew);
}

/// Makes the definition, and the template in the story's home.
fn install(story: &Story<'_>, example: &str, kind: &str) {
    let definition = example.split("\n---\n").next().unwrap_or_default();
    let definition: Value = serde_saphyr::from_str(definition).expect("the example is YAML");
    story.admin().create(&definition).ok();
    eventually("the kind is served", || {
        let listed = story.admin().try_list(kind);
        if listed.code == 200 { Ok(()) } else { Err(listed.body.to_string()) }
    });
    story.admin().create(&template_of(story, example)).ok();
}

/// An example's template, the last of its objects, for the story's home.
pub fn template_of(story: &Story<'_>, example: &str) -> Value {
    let text = example.split("\n---\n").last().unwrap_or_default();
    let mut template: Value = serde_saphyr::from_str(text).expect("the example is YAML");
    template["metadata"]["namespace"] = story.home.as_str().into();
    template
}

/// An instance of one of the two kinds.
pub fn instance(kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    let version = if kind == "Memcached" { "cache.example.com/v1alpha1" } else { "web.example.com/v1" };
    json!({ "apiVersion": version, "kind": kind, "metadata": { "namespace": namespace, "name": name }, "spec": spec })
}

/// The names of a workload's pods that are to stay.
fn pods(story: &Story<'_>, place: &str, labels: &str) -> Value {
    let pods = story.admin().list("Pod", place, labels);
    let there = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    there.map(|pod| pod["metadata"]["name"].clone()).collect()
}

#[track_caller]
pub fn until_nodes(story: &Story<'_>, place: &str, name: &str, wanted: usize) {
    eventually(&format!("status.nodes of {place}/{name} names {wanted} pods"), || {
        let cache = story.admin().get("Memcached", place, name).ok_or("it is gone")?;
        let pods = pods(story, place, &format!("memcached={name}"));
        same(pods.as_array().map(Vec::len), Some(wanted))?;
        same(cache["status"]["nodes"].clone(), pods)
    });
}

/// Created, scaled, deleted; then it is silent.
fn memcached(bed: &Bed) {
    let story = Story::new(bed, "caching");
    install(&story, MEMCACHED, "Memcached");
    let place = story.target("a");
    let made =
        story.admin().create(&instance("Memcached", &place, "example-memcached", json!({ "size": 3 }))).ok();
    let deployment = eventually("the Deployment is there", || {
        story.admin().get("Deployment", &place, "example-memcached").ok_or("it does not exist".to_owned())
    });
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["uid"], uid(&made));
    until_nodes(&story, &place, "example-memcached", 3);
    story.admin().merge("Memcached", &place, "example-memcached", &json!({ "spec": { "size": 2 } })).ok();
    until_nodes(&story, &place, "example-memcached", 2);
    story.until_condition("CopyratorTemplate", "memcached", "Ready", "True", "AllRendered");
    story.marker("settled");
    // The Deployment's controller writes its status for as long as a pod goes.
    let before = bed.our_writes_in(&place);
    story.marker("quiet");
    assert_eq!(bed.our_writes_in(&place), before, "something was written again");

    // No event tells of a pod that comes without the Deployment.
    let resync = json!({ "spec": { "resync": "10s" } });
    story.admin().merge("CopyratorTemplate", &story.home, "memcached", &resync).ok();
    story.until_condition("CopyratorTemplate", "memcached", "Ready", "True", "AllRendered");
    let labels = data([("app", "memcached"), ("memcached", "example-memcached")]);
    story.admin().create(&pod(&place, "stray", &labels)).ok();
    until_nodes(&story, &place, "example-memcached", 3);
    story.admin().delete("Pod", &place, "stray").ok();
    blocking_an_owner_takes_a_right(&story, &place, &made);
    commands_name_expressions(&story, &place);

    story.admin().delete("Memcached", &place, "example-memcached").ok();
    story.until_gone("Deployment", &place, "example-memcached");
    eventually("its pods are gone", || same(pods(&story, &place, "app=memcached"), json!([])));
    story.admin().delete("CopyratorTemplate", &story.home, "memcached").ok();
}

/// `why` tells the expressions that gave the fields, `plan` what they read of the instances.
fn commands_name_expressions(story: &Story<'_>, place: &str) {
    let said = run(story, None, &["why", "deploy/example-memcached", "-n", place], "");
    let field = "spec.replicas: ${object.?spec.?size.orValue(1)}";
    assert!(said.text.contains(field), "{}", said.text);
    let owner = "when this owner or the CustomResourceDefinition of Memcached of cache.example.com/v1alpha1 is deleted";
    assert!(said.text.contains(owner), "{}", said.text);
    let said = run(story, None, &["doctor"], "");
    let goes = format!(
        "that CopyratorTemplate {}/memcached selects, and the 1 object that the template made for them",
        story.home
    );
    assert!(
        said.notes.contains("deleting CustomResourceDefinition memcacheds.cache.example.com")
            && said.notes.contains(&goes),
        "{}",
        said.notes
    );
    let example = MEMCACHED.replace("namespace: platform", &format!("namespace: {}", story.home));
    let said = run(story, None, &["plan", "-n", &story.home, "-f", "-"], &example);
    assert!(
        said.text.contains(
            "users who may write these fields control what the template renders: object.metadata.name"
        ),
        "{}",
        said.text
    );
    // A template that is changed says what changes of each object, and nothing of what others have put there.
    let changed = example.replace("image: memcached:1.4.36", "image: memcached:9");
    let said = run(story, None, &["plan", "-n", &story.home, "-f", "-"], &changed);
    let container = "spec.template.spec.containers[memcached]";
    let lines = [
        format!("  ~ Deployment {place}/example-memcached"),
        format!("      - {container}.image: \"memcached:1.4.36\""),
        format!("      + {container}.image: \"memcached:9\""),
    ];
    assert!(said.text.contains(&(lines.join("\n") + "\n")), "{}", said.text);
    assert_eq!(said.text.matches("\n      ").count(), 2, "{}", said.text);
}

/// The admission plugin OwnerReferencesPermissionEnforcement is on, and what we make passes it.
fn blocking_an_owner_takes_a_right(story: &Story<'_>, place: &str, owner: &Value) {
    story.admin().create(&binding(place, "bob", "edit")).ok();
    let mut owned = config_map(place, "owned", []);
    eventually("bob may write in the namespace", || {
        let answer = story.bed.bob.try_create(&owned);
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    let mut reference = json!({ "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "name": "example-memcached", "uid": uid(owner), "blockOwnerDeletion": true });
    owned["metadata"]["ownerReferences"] = json!([reference]);
    let refusal = story.bed.bob.try_create(&owned).refused();
    assert!(refusal.contains("cannot set blockOwnerDeletion"), "{refusal}");
    reference["blockOwnerDeletion"] = false.into();
    owned["metadata"]["ownerReferences"] = json!([reference]);
    story.bed.bob.try_create(&owned).ok();
    // Without its owner the Deployment would stay where no operator runs.
    let stripped = json!({ "metadata": { "ownerReferences": null } });
    let refusal = story.bed.bob.merge("Deployment", place, "example-memcached", &stripped).refused();
    assert!(refusal.contains("is kept as a CopyratorTemplate declares it"), "{refusal}");
}

/// Created, scaled, with another image, deleted.
fn nginx(bed: &Bed) {
    let story = Story::new(bed, "serving");
    let place = story.target("a");
    install(&story, NGINX, "NginxServer");
    let spec = json!({ "replicas": 2, "image": "nginx:1.19.6" });
    story.admin().create(&instance("NginxServer", &place, "example-nginx", spec)).ok();
    until_served(&story, &place, "example-nginx", 2, "nginx:1.19.6");
    let change = json!({ "spec": { "replicas": 3, "image": "nginx:1.21" } });
    story.admin().merge("NginxServer", &place, "example-nginx", &change).ok();
    until_served(&story, &place, "example-nginx", 3, "nginx:1.21");
    let deployment = story.admin().get("Deployment", &place, "example-nginx").unwrap_or_default();
    assert_eq!(label(&deployment, "app"), Some("nginx"));

    // Somebody writes into the status, and it is told.
    let other = json!({ "status": { "availableReplicas": 9 } });
    story.admin().merge("NginxServer", &place, "example-nginx", &other).ok();
    eventually("the status is told to be somebody's, or is right again", || {
        let template =
            story.admin().get("CopyratorTemplate", &story.home, "nginx-server").ok_or("it is gone")?;
        let said = template["status"]["problems"].to_string();
        if said.contains("FieldOwned") { Ok(()) } else { Err(said) }
    });
    // The other field goes on.
    let fewer = json!({ "spec": { "replicas": 2 } });
    story.admin().merge("NginxServer", &place, "example-nginx", &fewer).ok();
    eventually("podNames names the pods that are left", || {
        let server = story.admin().get("NginxServer", &place, "example-nginx").ok_or("it is gone")?;
        same(server["status"]["availableReplicas"].clone(), json!(9))?;
        let pods = pods(&story, &place, "nginx=example-nginx");
        same(pods.as_array().map(Vec::len), Some(2))?;
        same(server["status"]["podNames"].clone(), pods)
    });
    story.admin().delete("NginxServer", &place, "example-nginx").ok();
    story.until_gone("Deployment", &place, "example-nginx");
    story.until_gone("Service", &place, "example-nginx");
    story.admin().delete("CopyratorTemplate", &story.home, "nginx-server").ok();
}

/// Waits until an instance has its Deployment, its Service, its pods and its status.
#[track_caller]
pub fn until_served(story: &Story<'_>, place: &str, name: &str, replicas: u8, image: &str) {
    eventually(&format!("{replicas} of {image} are served by {place}/{name}"), || {
        let deployment = story.admin().get("Deployment", place, name).ok_or("no Deployment")?;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        same(container["image"].clone(), json!(image))?;
        let service = story.admin().get("Service", place, name).ok_or("no Service")?;
        let seen = service["metadata"]["annotations"]["example.com/deployment"].clone();
        same(seen, json!(uid(&deployment)))?;
        let server = story.admin().get("NginxServer", place, name).ok_or("it is gone")?;
        same(server["status"]["availableReplicas"].clone(), json!(replicas))?;
        let pods = pods(story, place, &format!("nginx={name}"));
        same(pods.as_array().map(Vec::len), Some(replicas.into()))?;
        same(server["status"]["podNames"].clone(), pods)
    });
}

/// A status that somebody else writes is theirs.
fn a_field_of_somebody_else(bed: &Bed) {
    let story = Story::new(bed, "owned");
    let place = story.target("a");
    let mut cache = instance("Memcached", &place, "theirs", json!({ "size": 1 }));
    cache["status"] = json!({ "nodes": ["elsewhere"] });
    story.admin().apply_as("their-operator", &cache).ok();
    story.admin().create(&template_of(&story, MEMCACHED)).ok();
    let degraded = story.until_condition("CopyratorTemplate", "memcached", "Degraded", "True", "FieldOwned");
    assert!(degraded["status"].to_string().contains("their-operator"), "{degraded}");
    let still = story.admin().get("Memcached", &place, "theirs").expect("it is there");
    assert_eq!(still["status"]["nodes"], json!(["elsewhere"]));
    story.admin().delete("CopyratorTemplate", &story.home, "memcached").ok();
}
