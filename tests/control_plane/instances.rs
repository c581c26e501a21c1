//! Objects that templates declare for each object of a kind.

use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE};

use crate::any_kind;
use crate::at_rest::{a_deployment_and_a_service, nothing_was_tried};
use crate::bed::objects::{data_of, label, ours, uid, version};
use crate::bed::{Bed, Story, eventually, private, same};
use crate::children::{a_child_restarts_for_its_sibling, the_author_of_an_object_is_told};
use crate::copied_custom;
use crate::import;
use crate::instances_rights::{
    who_makes_one_chooses_values_only, who_makes_one_gives_pods_no_rights,
    who_may_not_list_them_gets_nothing, who_may_not_read_elsewhere_gets_nothing,
};
use crate::narrowed;
use crate::rights::unused_on;

/// The chart.
pub const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
const RECONCILER: &str = "system:serviceaccount:copyrator-system:copyrator-reconciler";
const FLAGS: [&str; 4] = [
    "--copy-kinds",
    "Deployment,Service",
    "--template-kinds",
    "v1/PersistentVolumeClaim/persistentvolumeclaims/render,\
     cache.example.com/v1alpha1/Memcached/memcacheds/forEach+render+statusField,cert-manager.io/v1/Certificate/certificates/render,\
     networking.k8s.io/v1/Ingress/ingresses/render,shop.example.com/v2/Shelf/shelves/render,look.example.com/v1/Theme/themes/render+copy",
];

#[test]
fn each_object_of_a_kind_gets_what_a_template_declares() {
    let bed = private("instances");
    let kind = json!({ "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "resource": "memcacheds", "use": ["forEach", "render", "statusField"] });
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "resource": "persistentvolumeclaims", "use": ["render"] });
    let kinds: Vec<Value> =
        [kind, claim].into_iter().chain(any_kind::granted()).chain([copied_custom::granted()]).collect();
    let granted = format!("templates.kinds={}", json!(kinds));
    let copied = "copies.kinds={Deployment,Service}";
    let upgrade = ["upgrade", RELEASE, CHART, "-n", NAMESPACE, "--reuse-values"];
    bed.helm(&[&upgrade[..], &["--set", copied, "--set-json", &granted]].concat());
    let crew = bed.man_with(&[&FLAGS[..], &["--sweep-interval", "3s"]].concat());
    a_kind_that_is_not_served_stops_nobody(&bed);
    made_changed_and_gone(&bed);
    two_that_want_one_place(&bed);
    narrowed::a_label_taken_off_is_warned_of_and_what_holds_data_stays(&bed);
    narrowed::what_was_orphaned_on_request_stays(&bed);
    a_child_restarts_for_its_sibling(&bed);
    the_author_of_an_object_is_told(&bed);
    what_is_rendered_of_its_own_kind_is_no_instance(&bed);
    who_makes_one_chooses_values_only(&bed);
    who_makes_one_gives_pods_no_rights(&bed);
    who_may_not_list_them_gets_nothing(&bed);
    who_may_not_read_elsewhere_gets_nothing(&bed);
    any_kind::objects_of_any_granted_kind(&bed, &|| crew.until_swept(2));
    copied_custom::custom_resources_are_copied(&bed, &|| crew.until_swept(2));
    import::a_namespace_config_becomes_a_template(&bed);
    drop(crew);
    let crew = gone_while_no_operator_runs(&bed);
    the_definition_goes_and_comes(&bed);
    let forbidden: Vec<_> =
        bed.requests().into_iter().filter(|it| it.user == RECONCILER && it.is_forbidden()).collect();
    assert!(forbidden.is_empty(), "a right is missing: {forbidden:#?}");
    assert_eq!(
        unused_on(
            &bed,
            &[
                "cache.example.com",
                "cert-manager.io",
                "networking.k8s.io",
                "shop.example.com",
                "look.example.com"
            ]
        ),
        Vec::<String>::new()
    );
    drop(crew);
}

/// As the article that this comes from has it, without a status subresource; and with a pod, as some operators have it.
fn definition() -> Value {
    let size = json!({ "type": "integer", "minimum": 1, "maximum": 10 });
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let nodes = json!({ "type": "array", "items": { "type": "string" } });
    let properties = json!({
        "spec": { "type": "object", "properties": { "size": size, "pod": open } },
        "status": { "type": "object", "properties": { "nodes": nodes } },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "memcacheds.cache.example.com" },
        "spec": {
            "group": "cache.example.com", "scope": "Namespaced",
            "names": { "plural": "memcacheds", "singular": "memcached", "kind": "Memcached", "shortNames": ["mc"] },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } } }],
        },
    })
}

/// Defines the kind, and waits until it is served.
pub fn define(bed: &Bed) {
    bed.admin.create(&definition()).ok();
    eventually("the kind is served", || {
        let listed = bed.admin.try_list("Memcached");
        if listed.code == 200 { Ok(()) } else { Err(listed.body.to_string()) }
    });
}

/// A cache of this size.
pub fn cache(namespace: &str, name: &str, size: u8) -> Value {
    json!({ "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": { "namespace": namespace, "name": name }, "spec": { "size": size } })
}

/// A template that gives each cache in these namespaces a ConfigMap of this name.
pub fn template(story: &Story<'_>, name: &str, namespaces: &Value, object_name: &str) -> Value {
    let data = json!({ "size": "${string(object.spec.size)}", "of": "${object.metadata.name}" });
    let object =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": object_name }, "data": data });
    let spec = json!({
        "forEach": { "objects": { "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "namespaces": namespaces } },
        "objects": [{ "id": "cache", "template": object }],
        "deletionGrace": "0s",
    });
    ours("CopyratorTemplate", &story.home, name, spec)
}

/// The story's targets, as terms of a template.
pub fn everywhere(story: &Story<'_>) -> Value {
    json!([{ "namespaceSelector": story.selector() }])
}

pub fn until_counted(story: &Story<'_>, name: &str, instances: u8, current: u8) {
    eventually(&format!("{name} counts {instances} instances"), || {
        let template = story.admin().get("CopyratorTemplate", &story.home, name).ok_or("it is gone")?;
        let counted = ["instances", "current"].map(|field| template["status"][field].clone());
        same(counted, [instances, current].map(Value::from)).map_err(|_| template["status"].to_string())
    });
}

fn a_kind_that_is_not_served_stops_nobody(bed: &Bed) {
    let story = Story::new(bed, "unserved");
    story.admin().create(&template(&story, "caches", &json!([]), "x")).ok();
    story.until_condition("CopyratorTemplate", "caches", "Ready", "False", "KindNotServed");
    story.marker("others-go-on");
    let other = json!([{ "op": "replace", "path": "/spec/forEach/objects/kind", "value": "Redis" }]);
    story.admin().patch_json("CopyratorTemplate", &story.home, "caches", &other).ok();
    let said = story.until_condition("CopyratorTemplate", "caches", "Ready", "False", "KindNotGranted");
    assert!(said["status"].to_string().contains("templates.kinds"), "{said}");
    story.admin().delete("CopyratorTemplate", &story.home, "caches").ok();
    define(bed);
}

fn made_changed_and_gone(bed: &Bed) {
    let story = Story::new(bed, "cached");
    let place = story.target("a");
    story
        .admin()
        .create(&template(&story, "caches", &everywhere(&story), "cache-${object.metadata.name}"))
        .ok();
    story.until_condition("CopyratorTemplate", "caches", "Ready", "True", "NoInstance");
    let instance = story.admin().create(&cache(&place, "web", 3)).ok();
    let object = story.until("ConfigMap", &place, "cache-web", [("size", "3"), ("of", "web")]);
    let owner = &object["metadata"]["ownerReferences"];
    let expected = json!([{ "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "name": "web",
        "uid": uid(&instance), "controller": false, "blockOwnerDeletion": false }]);
    assert_eq!(*owner, expected);
    story.admin().merge("Memcached", &place, "web", &json!({ "spec": { "size": 5 } })).ok();
    let object = story.until("ConfigMap", &place, "cache-web", [("size", "5"), ("of", "web")]);
    until_counted(&story, "caches", 1, 1);

    // What no expression reads changes nothing.
    story.admin().merge("Memcached", &place, "web", &json!({ "status": { "nodes": ["one"] } })).ok();
    let elsewhere = story.bystander("other");
    story.admin().create(&cache(&elsewhere, "web", 3)).ok();
    story.marker("quiet");
    let still = story.until("ConfigMap", &place, "cache-web", [("size", "5"), ("of", "web")]);
    assert_eq!(version(&still), version(&object), "something was written");
    assert!(story.admin().get("ConfigMap", &elsewhere, "cache-web").is_none());

    // Another owner is taken off; its own stays.
    let stranger = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "00000000-0000-0000-0000-000000000000" });
    let added = json!([{ "op": "add", "path": "/metadata/ownerReferences/-", "value": stranger }]);
    story.admin().patch_json("ConfigMap", &place, "cache-web", &added);
    eventually("it has its own owner only", || {
        let object = story.admin().get("ConfigMap", &place, "cache-web").ok_or("it is gone")?;
        same(object["metadata"]["ownerReferences"].clone(), expected.clone())
    });

    let said = |arguments: &[&str]| {
        let output = bed.testbed.copyrator(&[arguments, &FLAGS].concat()).output().expect("it runs");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    eventually("status counts the object as in order", || {
        let status = said(&["status", "-n", &story.home]);
        let is_counted = status.contains("CopyratorTemplate") && status.contains("1 of 1 objects");
        if is_counted { Ok(()) } else { Err(status) }
    });
    let why = said(&["why", "-n", &place, "configmap/cache-web"]);
    assert!(
        why.contains("CopyratorTemplate cached-home/caches") && why.contains("Memcached cached-a/web"),
        "{why}"
    );
    let tree = said(&["tree", "-n", &story.home, "copyratortemplate/caches"]);
    assert!(tree.contains("cache-web"), "{tree}");
    eventually("plan counts it, too", || {
        let plan = said(&["plan", "-n", &place]);
        if plan.contains("1 copy in order") { Ok(()) } else { Err(plan) }
    });

    story.admin().delete("Memcached", &place, "web").ok();
    story.until_gone("ConfigMap", &place, "cache-web");
    until_counted(&story, "caches", 0, 0);

    // What is to stay has no owner, and loses its marks.
    let retain = json!({ "spec": { "deletionPolicy": "Retain" } });
    story.admin().merge("CopyratorTemplate", &story.home, "caches", &retain).ok();
    story.admin().create(&cache(&place, "kept", 2)).ok();
    eventually("it has no owner", || {
        let object = story.admin().get("ConfigMap", &place, "cache-kept").ok_or("it does not exist")?;
        same(object["metadata"]["ownerReferences"].clone(), Value::Null)
    });
    story.admin().delete("Memcached", &place, "kept").ok();
    eventually("it is nobody's", || {
        let object = story.admin().get("ConfigMap", &place, "cache-kept").ok_or("it is gone")?;
        same(object["metadata"]["labels"].clone(), Value::Null)
    });
    story.admin().delete("CopyratorTemplate", &story.home, "caches").ok();
}

fn two_that_want_one_place(bed: &Bed) {
    let story = Story::new(bed, "rivals");
    let place = story.target("a");
    story.admin().create(&template(&story, "caches", &everywhere(&story), "only")).ok();
    story.admin().create(&cache(&place, "b", 1)).ok();
    story.until("ConfigMap", &place, "only", [("size", "1"), ("of", "b")]);
    story.admin().create(&cache(&place, "a", 2)).ok();
    eventually("the other one is told", || {
        let template = story.admin().get("CopyratorTemplate", &story.home, "caches").ok_or("it is gone")?;
        let said = template["status"]["problems"].to_string();
        if said.contains("DuplicateName") { Ok(()) } else { Err(said) }
    });
    story.until("ConfigMap", &place, "only", [("size", "1"), ("of", "b")]);
    story.admin().delete("Memcached", &place, "b").ok();
    story.until("ConfigMap", &place, "only", [("size", "2"), ("of", "a")]);
    until_counted(&story, "caches", 1, 1);
    story.admin().delete("CopyratorTemplate", &story.home, "caches").ok();
    story.until_gone("ConfigMap", &place, "only");
}

/// An object that a template declares is never what it, or another one, is rendered for.
fn what_is_rendered_of_its_own_kind_is_no_instance(bed: &Bed) {
    let story = Story::new(bed, "twins");
    story.admin().create(&cache(&story.home, "one", 1)).ok();
    let twin = json!({ "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": { "name": "twin-${object.metadata.name}" }, "spec": { "size": "${object.spec.size}" } });
    let mut own = template(&story, "twins", &json!([]), "x");
    own["spec"]["objects"] = json!([{ "id": "twin", "template": twin }]);
    story.admin().create(&own).ok();
    let until_size = |size: u8| {
        eventually("the twin has the size of its instance", || {
            let twin = story.admin().get("Memcached", &story.home, "twin-one").ok_or("it does not exist")?;
            same(twin["spec"]["size"].clone(), size.into())
        });
    };
    until_size(1);
    let sized = |name: &str, size: u8| {
        story.admin().merge("Memcached", &story.home, name, &json!({ "spec": { "size": size } })).ok();
    };
    sized("one", 2);
    until_size(2);
    sized("twin-one", 3);
    until_size(2);
    until_counted(&story, "twins", 1, 1);
    assert!(story.admin().get("Memcached", &story.home, "twin-twin-one").is_none());
    story.admin().delete("CopyratorTemplate", &story.home, "twins").ok();
    story.until_gone("Memcached", &story.home, "twin-one");
}

fn gone_while_no_operator_runs(bed: &Bed) -> crate::bed::Crew {
    let story = Story::new(bed, "orphans");
    let place = story.target("a");
    let crew = bed.man_with(&FLAGS);
    story
        .admin()
        .create(&template(&story, "caches", &everywhere(&story), "cache-${object.metadata.name}"))
        .ok();
    for name in ["goes", "leaves", "changes", "stays"] {
        story.admin().create(&cache(&place, name, 1)).ok();
        story.until("ConfigMap", &place, &format!("cache-{name}"), [("size", "1"), ("of", name)]);
    }
    let at_rest = a_deployment_and_a_service(&story);
    drop(crew);
    let stopped = Timestamp::now();
    story.admin().delete("Memcached", &place, "goes").ok();
    story.until_gone("ConfigMap", &place, "cache-goes");
    // The garbage collector takes the owner off, and the object stays for as long as no operator runs.
    bed.kubectl(&["delete", "memcached", "leaves", "-n", &place, "--cascade=orphan"], &Value::Null);
    let left = story.admin().get("ConfigMap", &place, "cache-leaves").expect("it is there");
    assert_eq!(left["metadata"]["ownerReferences"], Value::Null);
    story.admin().merge("Memcached", &place, "changes", &json!({ "spec": { "size": 2 } })).ok();
    story.admin().create(&cache(&place, "comes", 7)).ok();
    let stays = story.admin().get("ConfigMap", &place, "cache-stays").expect("it is there");
    let crew = bed.man_with(&FLAGS);
    story.until("ConfigMap", &place, "cache-changes", [("size", "2"), ("of", "changes")]);
    story.until("ConfigMap", &place, "cache-comes", [("size", "7"), ("of", "comes")]);
    // Whoever deleted the cache wanted to keep it.
    eventually("what was left behind is an ordinary object", || {
        let left = story.admin().get("ConfigMap", &place, "cache-leaves").ok_or("it was deleted")?;
        same(label(&left, "copyrator.dev/rule"), None)
    });
    until_counted(&story, "caches", 3, 3);
    let still = story.admin().get("ConfigMap", &place, "cache-stays").expect("it is there");
    assert_eq!(version(&still), version(&stays), "something was written");
    story.marker("started-again");
    crew.until_idle();
    nothing_was_tried(bed, &at_rest, stopped);
    crew
}

/// Its objects go with it, and with them what was made for them. What has no owner stays.
fn the_definition_goes_and_comes(bed: &Bed) {
    let story = Story::at_home(bed, "orphans");
    let place = story.called("a");
    story.admin().delete("CustomResourceDefinition", "", "memcacheds.cache.example.com").ok();
    story.until_condition("CopyratorTemplate", "caches", "Ready", "False", "KindNotServed");
    for name in ["changes", "stays", "comes"] {
        story.until_gone("ConfigMap", &place, &format!("cache-{name}"));
    }
    story.marker("others-go-on");
    define(bed);
    story.until_condition("CopyratorTemplate", "caches", "Ready", "True", "NoInstance");
    story.admin().create(&cache(&place, "again", 9)).ok();
    let object = story.until("ConfigMap", &place, "cache-again", [("size", "9"), ("of", "again")]);
    assert_eq!(data_of(&object).len(), 2);
}
