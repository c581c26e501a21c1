//! Objects that templates declare for each object of a kind.

use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE};

use crate::any_kind;
use crate::at_rest::{a_deployment_and_a_service, nothing_was_tried};
use crate::bed::objects::{binding, data_of, ours, uid, version};
use crate::bed::{Bed, Story, eventually, private, same};
use crate::copied_custom;
use crate::import;
use crate::rights::unused_on;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
const RECONCILER: &str = "system:serviceaccount:copyrator-system:copyrator-reconciler";
const FLAGS: [&str; 4] = [
    "--copy-kinds",
    "Deployment,Service",
    "--template-kinds",
    "cache.example.com/v1alpha1/Memcached/memcacheds/forEach+render,cert-manager.io/v1/Certificate/certificates/render,\
     networking.k8s.io/v1/Ingress/ingresses/render,shop.example.com/v2/Shelf/shelves/render,look.example.com/v1/Theme/themes/render+copy",
];

#[test]
fn each_object_of_a_kind_gets_what_a_template_declares() {
    let bed = private("instances");
    let kind = json!({ "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached", "resource": "memcacheds", "use": ["forEach", "render"] });
    let kinds: Vec<Value> =
        [kind].into_iter().chain(any_kind::granted()).chain([copied_custom::granted()]).collect();
    let granted = format!("templates.kinds={}", json!(kinds));
    let copied = "copies.kinds={Deployment,Service}";
    let upgrade = ["upgrade", RELEASE, CHART, "-n", NAMESPACE, "--reuse-values"];
    bed.helm(&[&upgrade[..], &["--set", copied, "--set-json", &granted]].concat());
    let crew = bed.man_with(&[&FLAGS[..], &["--sweep-interval", "3s"]].concat());
    a_kind_that_is_not_served_stops_nobody(&bed);
    made_changed_and_gone(&bed);
    two_that_want_one_place(&bed);
    what_is_rendered_of_its_own_kind_is_no_instance(&bed);
    who_makes_one_chooses_values_only(&bed);
    who_makes_one_gives_pods_no_rights(&bed);
    who_may_not_list_them_gets_nothing(&bed);
    any_kind::objects_of_any_granted_kind(&bed, &|| crew.until_swept(2));
    copied_custom::custom_resources_are_copied(&bed);
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

fn define(bed: &Bed) {
    bed.admin.create(&definition()).ok();
    eventually("the kind is served", || {
        let listed = bed.admin.try_list("Memcached");
        if listed.code == 200 { Ok(()) } else { Err(listed.body.to_string()) }
    });
}

fn cache(namespace: &str, name: &str, size: u8) -> Value {
    json!({ "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": { "namespace": namespace, "name": name }, "spec": { "size": size } })
}

fn template(story: &Story<'_>, name: &str, namespaces: &Value, object_name: &str) -> Value {
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

fn everywhere(story: &Story<'_>) -> Value {
    json!([{ "namespaceSelector": story.selector() }])
}

fn until_counted(story: &Story<'_>, name: &str, instances: u8, current: u8) {
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

/// Whatever an expression leaves open: nobody gets marks of ours or of other tools onto what is rendered, and a fault of one object
/// holds back no other.
fn who_makes_one_chooses_values_only(bed: &Bed) {
    let story = Story::new(bed, "smuggled");
    let place = story.target("a");
    let mut wide = template(&story, "caches", &everywhere(&story), "cache-${object.metadata.name}");
    for field in ["labels", "annotations"] {
        let whole = format!("${{object.metadata.{field}}}");
        wide["spec"]["objects"][0]["template"]["metadata"][field] = whole.into();
    }
    story.admin().create(&wide).ok();
    for (name, field, key) in [
        ("marked", "labels", "copyrator.dev/rule"),
        ("helm", "labels", "app.kubernetes.io/managed-by"),
        ("tracked", "annotations", "argocd.argoproj.io/tracking-id"),
        ("fine", "labels", "tier"),
    ] {
        let mut cache = cache(&place, name, 1);
        cache["metadata"][field] = json!({ key: "x" });
        story.admin().create(&cache).ok();
    }
    story.until("ConfigMap", &place, "cache-fine", [("size", "1"), ("of", "fine")]);
    eventually("all three are told", || {
        let template = story.admin().get("CopyratorTemplate", &story.home, "caches").ok_or("it is gone")?;
        let problems = template["status"]["problems"].as_array().cloned().unwrap_or_default();
        let said: Vec<String> = problems.iter().map(|problem| problem["message"].to_string()).collect();
        let is_told =
            |name: &str| said.iter().any(|message| message.contains(&format!("for Memcached {name}")));
        if ["marked", "helm", "tracked"].into_iter().all(is_told) && said.len() == 3 {
            Ok(())
        } else {
            Err(format!("{said:?}"))
        }
    });
    for name in ["cache-marked", "cache-helm", "cache-tracked"] {
        assert!(story.admin().get("ConfigMap", &place, name).is_none());
    }
    story.admin().delete("CopyratorTemplate", &story.home, "caches").ok();
    story.until_gone("ConfigMap", &place, "cache-fine");
}

/// A template that takes a whole pod from the object leaves open what runs, and not what it may do, nor whose it is.
fn who_makes_one_gives_pods_no_rights(bed: &Bed) {
    let story = Story::new(bed, "pods-rights");
    let place = story.target("a");
    let mut wide = template(&story, "caches", &everywhere(&story), "unused");
    let object = |kind: Value| json!([{ "id": "it", "template": kind }]);
    wide["spec"]["objects"] = object(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "token" }, "type": "kubernetes.io/service-account-token",
    }));
    let refusal = story.admin().create(&wide).refused();
    assert!(refusal.contains("service-account-token is not rendered"), "{refusal}");
    wide["spec"]["objects"] = object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "pod-${object.metadata.name}" },
        "spec": { "replicas": 0, "selector": { "matchLabels": { "app": "it" } }, "template": "${object.spec.pod}" },
    }));
    story.admin().create(&wide).ok();
    let make = |name: &str, at: &str, value: &Value| {
        let mut pod = json!({ "metadata": { "labels": { "app": "it" } },
            "spec": { "containers": [{ "name": "main", "image": "example.com/app" }] } });
        let (above, field) = at.rsplit_once('/').expect("a path");
        let above = pod.pointer_mut(above).expect("it is there");
        above.as_object_mut().expect("a map").insert(field.to_owned(), value.clone());
        let mut cache = cache(&place, name, 1);
        cache["spec"]["pod"] = pod;
        story.admin().create(&cache).ok();
    };
    make("fine", "/spec/terminationGracePeriodSeconds", &json!(5));
    let of_secret =
        json!([{ "name": "a", "valueFrom": { "secretKeyRef": { "name": "others", "key": "k" } } }]);
    let volume = |what: Value| json!([{ "name": "a" }, { "name": "b", "emptyDir": {} }, what]);
    let smuggled = [
        ("/spec/serviceAccountName", json!("admin"), "spec.serviceAccountName"),
        ("/spec/hostNetwork", json!(true), "spec.hostNetwork"),
        ("/spec/nodeName", json!("master"), "spec.nodeName"),
        (
            "/spec/volumes",
            volume(json!({ "name": "c", "hostPath": { "path": "/" } })),
            "spec.volumes[2].hostPath",
        ),
        (
            "/spec/volumes",
            volume(json!({ "name": "c", "secret": { "secretName": "others" } })),
            "spec.volumes[2].secret",
        ),
        ("/spec/containers/0/env", of_secret, "spec.containers[0].env[0].valueFrom.secretKeyRef"),
        (
            "/spec/containers/0/securityContext",
            json!({ "runAsUser": 0 }),
            "spec.containers[0].securityContext",
        ),
        (
            "/metadata/annotations",
            json!({ "argocd.argoproj.io/tracking-id": "x" }),
            "metadata.annotations.argocd.argoproj.io/tracking-id",
        ),
        (
            "/metadata/labels",
            json!({ "app": "it", "copyrator.dev/rule": "x" }),
            "metadata.labels.copyrator.dev/rule",
        ),
    ];
    // One object each, so that each is told.
    for (number, (at, value, _)) in smuggled.iter().enumerate() {
        make(&format!("number-{number}"), at, value);
    }
    eventually("the harmless one is made", || {
        story.admin().get("Deployment", &place, "pod-fine").map(drop).ok_or("it does not exist".to_owned())
    });
    eventually("each of the others is told", || {
        let template = story.admin().get("CopyratorTemplate", &story.home, "caches").ok_or("it is gone")?;
        let problems = template["status"]["problems"].as_array().cloned().unwrap_or_default();
        let is_told = |(number, (_, _, field)): (usize, &(&str, Value, &str))| {
            let (whose, what) =
                (format!("for Memcached number-{number}"), format!(" gives {field}, which only"));
            let said = problems.iter().filter_map(|problem| problem["message"].as_str());
            said.clone().any(|said| said.contains(&whose) && said.contains(&what))
        };
        if smuggled.iter().enumerate().all(is_told) { Ok(()) } else { Err(template["status"].to_string()) }
    });
    let made = story.admin().list("Deployment", &place, "");
    assert_eq!(made.len(), 1, "{made:#?}");
    story.admin().delete("CopyratorTemplate", &story.home, "caches").ok();
    story.until_gone("Deployment", &place, "pod-fine");
}

/// An author needs the right to read the objects, since their values get into what is written.
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

fn who_may_not_list_them_gets_nothing(bed: &Bed) {
    let story = Story::new(bed, "unread");
    story.admin().create(&binding(&story.home, "alice", "admin")).ok();
    story.admin().create(&cache(&story.home, "mine", 4)).ok();
    let template = template(&story, "caches", &json!([]), "cache-${object.metadata.name}");
    eventually("alice may write templates, but not for what she may not list", || {
        let refusal = story.bed.alice.try_create(&template).refused();
        if refusal.contains("list memcacheds") { Ok(()) } else { Err(refusal) }
    });
    let rule = json!([{ "apiGroups": ["cache.example.com"], "resources": ["memcacheds"], "verbs": ["get", "list"] }]);
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "namespace": story.home, "name": "caches" }, "rules": rule });
    story.admin().create(&role).ok();
    let mut bound = binding(&story.home, "alice", "caches");
    bound["metadata"]["name"] = "caches".into();
    bound["roleRef"]["kind"] = "Role".into();
    story.admin().create(&bound).ok();
    eventually("alice may write this one", || {
        let answer = story.bed.alice.try_create(&template);
        if answer.code == 201 { Ok(()) } else { Err(answer.body.to_string()) }
    });
    story.bed.alice.create(&template).ok();
    story.until("ConfigMap", &story.home, "cache-mine", [("size", "4"), ("of", "mine")]);
    story.admin().delete("CopyratorTemplate", &story.home, "caches").ok();
    story.until_gone("ConfigMap", &story.home, "cache-mine");
}

fn gone_while_no_operator_runs(bed: &Bed) -> crate::bed::Crew {
    let story = Story::new(bed, "orphans");
    let place = story.target("a");
    let crew = bed.man_with(&FLAGS);
    story
        .admin()
        .create(&template(&story, "caches", &everywhere(&story), "cache-${object.metadata.name}"))
        .ok();
    for name in ["goes", "changes", "stays"] {
        story.admin().create(&cache(&place, name, 1)).ok();
        story.until("ConfigMap", &place, &format!("cache-{name}"), [("size", "1"), ("of", name)]);
    }
    let at_rest = a_deployment_and_a_service(&story);
    drop(crew);
    let stopped = Timestamp::now();
    story.admin().delete("Memcached", &place, "goes").ok();
    story.until_gone("ConfigMap", &place, "cache-goes");
    story.admin().merge("Memcached", &place, "changes", &json!({ "spec": { "size": 2 } })).ok();
    story.admin().create(&cache(&place, "comes", 7)).ok();
    let stays = story.admin().get("ConfigMap", &place, "cache-stays").expect("it is there");
    let crew = bed.man_with(&FLAGS);
    story.until("ConfigMap", &place, "cache-changes", [("size", "2"), ("of", "changes")]);
    story.until("ConfigMap", &place, "cache-comes", [("size", "7"), ("of", "comes")]);
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
