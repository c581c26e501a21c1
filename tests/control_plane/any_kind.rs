//! Objects of kinds that Copyrator learns from the chart's value `templates.kinds`, in the cluster of [`super::instances`].

use serde_json::{Value, json};

use crate::bed::objects::{annotation, binding, data, namespace, ours, uid, version};
use crate::bed::{Bed, Story, eventually, same};
use crate::plan::run;

/// What the chart grants.
pub fn granted() -> [Value; 3] {
    [
        json!({ "apiVersion": "cert-manager.io/v1", "kind": "Certificate", "resource": "certificates", "use": ["render"] }),
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "resource": "ingresses", "use": ["render"] }),
        json!({ "apiVersion": "shop.example.com/v2", "kind": "Shelf", "resource": "shelves", "use": ["render"] }),
    ]
}

pub fn objects_of_any_granted_kind(bed: &Bed, until_swept: &dyn Fn()) {
    let story = Story::new(bed, "anykind");
    let (first, second) = (story.target("first"), story.target("second"));
    not_granted_is_said(&story);
    waits_for_its_definition(&story, &first, &second);
    kept_and_guarded(&story, &first);
    the_rest_is_the_cluster_s(&story, &second);
    the_definition_goes_and_comes(&story, &first);
    what_another_version_leaves_out_is_written_once(&story, &first, until_swept);
    story.admin().delete("CopyratorTemplate", &story.home, "tls").ok();
    for (kind, name) in [("Certificate", "web"), ("Ingress", "web")] {
        story.until_gone(kind, &first, name);
        story.until_gone(kind, &second, name);
    }
}

fn definition() -> Value {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "certificates.cert-manager.io" },
        "spec": {
            "group": "cert-manager.io", "scope": "Namespaced",
            "names": { "plural": "certificates", "singular": "certificate", "kind": "Certificate" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": open, "status": open } } } }],
        },
    })
}

fn template(story: &Story<'_>) -> Value {
    let host = "${namespaceObject.metadata.name}.example.com";
    let certificate = json!({ "apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": { "name": "web" },
        "spec": { "secretName": "web-tls", "dnsNames": [host], "issuerRef": { "name": "letsencrypt" } } });
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let ingress = json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "web" },
        "spec": { "tls": [{ "hosts": [host], "secretName": "${tls.spec.secretName}" }], "defaultBackend": backend } });
    let spec = json!({
        "forEach": { "namespaces": [{ "namespaceSelector": story.selector() }] },
        "objects": [{ "id": "tls", "template": certificate }, { "id": "ingress", "template": ingress }],
        "deletionGrace": "0s",
    });
    ours("CopyratorTemplate", &story.home, "tls", spec)
}

fn not_granted_is_said(story: &Story<'_>) {
    let scaler = json!({ "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
        "spec": { "maxReplicas": 3, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } } });
    let mut other = template(story);
    other["metadata"]["name"] = "scaled".into();
    other["spec"]["objects"] = json!([{ "id": "scaler", "template": scaler }]);
    story.admin().create(&other).ok();
    let said = story.until_condition("CopyratorTemplate", "scaled", "Ready", "False", "KindNotGranted");
    let said = said["status"].to_string();
    assert!(
        said.contains("HorizontalPodAutoscaler of autoscaling/v2")
            && said.contains("horizontalpodautoscalers")
            && said.contains("helm upgrade"),
        "{said}"
    );
    story.admin().delete("CopyratorTemplate", &story.home, "scaled").ok();
}

fn define(story: &Story<'_>) {
    story.admin().create(&definition()).ok();
    eventually("the kind is served", || {
        let listed = story.admin().try_list("Certificate");
        if listed.code == 200 { Ok(()) } else { Err(listed.body.to_string()) }
    });
}

/// Nothing of a template is written while one of its kinds is not served.
fn waits_for_its_definition(story: &Story<'_>, first: &str, second: &str) {
    story.admin().create(&template(story)).ok();
    story.until_condition("CopyratorTemplate", "tls", "Ready", "False", "KindNotServed");
    assert!(story.admin().get("Ingress", first, "web").is_none());
    define(story);
    for place in [first, second] {
        eventually("the objects are there", || {
            let certificate = story.admin().get("Certificate", place, "web").ok_or("no Certificate")?;
            let ingress = story.admin().get("Ingress", place, "web").ok_or("no Ingress")?;
            same(certificate["spec"]["dnsNames"][0].clone(), format!("{place}.example.com").into())?;
            same(ingress["spec"]["tls"][0]["secretName"].clone(), "web-tls".into())
        });
    }
    let template = story.until_condition("CopyratorTemplate", "tls", "Ready", "True", "AllRendered");
    assert_eq!(template["status"]["current"], 4, "{}", template["status"]);
    let said = run(story, None, &["why", "certificate/web", "-n", first], "");
    assert!(
        said.text.contains(&format!("CopyratorTemplate {}/tls", story.home)),
        "{}{}",
        said.text,
        said.notes
    );
    let said = run(story, None, &["why", "issuer/web", "-n", first], "");
    assert!(said.code == Some(1) && said.notes.contains("templates.kinds"), "{}{}", said.text, said.notes);
    let said = run(story, None, &["tree", "copyt/tls", "-n", &story.home], "");
    assert!(
        said.text.contains("Certificate") && said.text.contains("Ingress"),
        "{}{}",
        said.text,
        said.notes
    );
    let said = run(story, None, &["plan", "-n", first], "");
    assert!(said.text.contains("2 copies in order"), "{}{}", said.text, said.notes);
}

fn kept_and_guarded(story: &Story<'_>, place: &str) {
    let (admin, bob) = (story.admin(), &story.bed.bob);
    let rules = json!([{ "apiGroups": ["cert-manager.io"], "resources": ["certificates", "certificates/status"], "verbs": ["*"] }]);
    admin
        .create(&json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": "anykind-certificates", "labels": { "rbac.authorization.k8s.io/aggregate-to-admin": "true" } },
            "rules": rules }))
        .ok();
    admin.create(&binding(place, "bob", "admin")).ok();
    // What a controller makes of an object has its labels, and no marks: bob stands for the controller.
    let object = admin.get("Certificate", place, "web").expect("it is there");
    let labels = object["metadata"]["labels"].clone();
    let child = json!({ "apiVersion": "cert-manager.io/v1", "kind": "Certificate",
        "metadata": { "namespace": place, "name": "child", "labels": labels }, "spec": { "secretName": "x" } });
    eventually("bob may write certificates, and labels alone are no mark", || {
        let answer = bob.create(&child);
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    let mut forged = child.clone();
    forged["metadata"]["name"] = "forged".into();
    forged["metadata"]["annotations"] =
        json!({ "copyrator.dev/mark": annotation(&object, "copyrator.dev/mark") });
    assert!(bob.create(&forged).refused().contains("may not carry"));
    let copied = copied_with_annotations(story, &object);
    let unmarked = json!({ "metadata": { "annotations": { "copyrator.dev/mark": null } } });
    assert!(
        bob.merge("Certificate", place, "web", &unmarked)
            .refused()
            .contains("is kept as a CopyratorTemplate declares it")
    );
    assert!(bob.delete("Certificate", place, "web").refused().contains("override"));
    let dangling = json!({ "metadata": { "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "none",
        "uid": "00000000-0000-0000-0000-000000000000" }] } });
    assert!(bob.merge("Certificate", place, "web", &dangling).refused().contains("override"));
    // Its status, which bob may write, is no other way: the API server leaves metadata alone there.
    let metadata = object["metadata"].clone();
    for patch in [&unmarked, &dangling] {
        let now = bob.merge_by_status("Certificate", place, "web", patch).ok()["metadata"].clone();
        for field in ["labels", "annotations", "ownerReferences"] {
            assert_eq!(now[field], metadata[field], "{field} by the status");
        }
    }
    // Its content is anybody's to write, and ours to put right where the template names the field.
    let edit = json!({ "spec": { "dnsNames": ["evil.example.com"], "usages": ["server auth"] } });
    bob.merge("Certificate", place, "web", &edit).ok();
    eventually("what the template names is put right, and the rest stays", || {
        let object = admin.get("Certificate", place, "web").ok_or("it is gone")?;
        let seen = [&object["spec"]["dnsNames"], &object["spec"]["usages"]].map(Clone::clone);
        same(seen, [json!([format!("{place}.example.com")]), json!(["server auth"])])
    });
    let still = admin
        .get("Certificate", place, "copied")
        .expect("what bears the marks of another object is left alone");
    assert_eq!(version(&still), version(&copied), "{still}");
    for name in ["child", "copied"] {
        bob.delete("Certificate", place, name).ok();
    }
}

/// A controller that copies annotations, too, as those of a Gateway to its Deployment, makes an object that Copyrator does not manage:
/// `copyrator.dev/object` names the parent. Where it names the object itself, or is missing, the mark is replayed.
fn copied_with_annotations(story: &Story<'_>, object: &Value) -> Value {
    let (bob, place) = (&story.bed.bob, object["metadata"]["namespace"].as_str().unwrap_or_default());
    let named = format!("certificates.cert-manager.io/{place}/web");
    assert_eq!(annotation(object, "copyrator.dev/object"), Some(&*named));
    let of = |name: &str, named: Value| {
        let mut copied = json!({ "apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": { "namespace": place,
            "name": name, "labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"] }, "spec": object["spec"] });
        match named {
            Value::Null => drop(
                copied["metadata"]["annotations"]
                    .as_object_mut()
                    .map(|all| all.remove("copyrator.dev/object")),
            ),
            named => copied["metadata"]["annotations"]["copyrator.dev/object"] = named,
        }
        copied
    };
    bob.create(&of("copied", json!(named))).ok();
    let annotated = |key: &str, value: Value| json!({ "metadata": { "annotations": { key: value } } });
    let copied =
        bob.merge("Certificate", place, "copied", &annotated("copyrator.dev/digest", json!("0"))).ok();
    let itself = json!(format!("certificates.cert-manager.io/{place}/copied"));
    for named in [Value::Null, itself] {
        let refusal = bob
            .merge("Certificate", place, "copied", &annotated("copyrator.dev/object", named.clone()))
            .refused();
        assert!(refusal.contains("may not carry"), "{named}: {refusal}");
    }
    // Under the parent's name as after a deletion: the API server asks its policies before it looks whether there is such an object.
    for (name, named) in [("other", Value::Null), ("web", json!(named)), ("web", Value::Null)] {
        let refusal = bob.create(&of(name, named.clone())).refused();
        assert!(refusal.contains("may not carry"), "{name}, {named}: {refusal}");
    }
    let other =
        annotated("copyrator.dev/object", json!(format!("certificates.cert-manager.io/{place}/other")));
    let refusal = bob.merge("Certificate", place, "web", &other).refused();
    assert!(refusal.contains("is kept as a CopyratorTemplate declares it"), "{refusal}");
    copied
}

/// Defaults, a status, a finalizer: none of them has us write again.
fn the_rest_is_the_cluster_s(story: &Story<'_>, place: &str) {
    let finalizer = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    story.admin().merge("Certificate", place, "web", &finalizer).ok();
    story.admin().merge_status("Certificate", place, "web", &json!({ "status": { "ready": true } })).ok();
    let before =
        ["Certificate", "Ingress"].map(|kind| story.admin().get(kind, place, "web").expect("it is there"));
    story.marker("nothing-to-do");
    for (kind, before) in ["Certificate", "Ingress"].into_iter().zip(before) {
        let after = story.admin().get(kind, place, "web").expect("it is there");
        assert_eq!(version(&after), version(&before), "{kind} was written: {after}");
    }
    story.admin().merge("Certificate", place, "web", &json!({ "metadata": { "finalizers": null } })).ok();
}

fn the_definition_goes_and_comes(story: &Story<'_>, place: &str) {
    let before = story.admin().get("Ingress", place, "web").expect("it is there");
    story.admin().delete("CustomResourceDefinition", "", "certificates.cert-manager.io").ok();
    story.until_gone("CustomResourceDefinition", "", "certificates.cert-manager.io");
    story.until_condition("CopyratorTemplate", "tls", "Ready", "False", "KindNotServed");
    // What is of another kind stays as it is, in new namespaces, too.
    let late = story.called("late");
    story.admin().create(&namespace(&late, &data([("story", "anykind")]))).ok();
    story.marker("the-others-go-on");
    let after = story.admin().get("Ingress", place, "web").expect("it is there");
    assert_eq!((uid(&after), version(&after)), (uid(&before), version(&before)));
    define(story);
    eventually("the objects are there again", || {
        for place in [place, &late] {
            story.admin().get("Certificate", place, "web").ok_or("no Certificate")?;
            story.admin().get("Ingress", place, "web").ok_or("no Ingress")?;
        }
        Ok(())
    });
    story.until_condition("CopyratorTemplate", "tls", "Ready", "True", "AllRendered");
    story.admin().delete("Namespace", "", &late).ok();
}

/// The version in which objects are stored does not have a field of the version that the template is written in.
fn what_another_version_leaves_out_is_written_once(story: &Story<'_>, place: &str, until_swept: &dyn Fn()) {
    let version = |name: &str, is_stored: bool, fields: Value| {
        let spec = json!({ "type": "object", "properties": fields });
        json!({ "name": name, "served": true, "storage": is_stored,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } } })
    };
    let (size, colour) = (json!({ "type": "integer" }), json!({ "type": "string" }));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "shelves.shop.example.com" },
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": { "plural": "shelves", "singular": "shelf", "kind": "Shelf" },
            "versions": [
                version("v1", true, json!({ "size": size })),
                version("v2", false, json!({ "size": size, "colour": colour })),
            ],
        },
    });
    story.admin().create(&definition).ok();
    let shelf = json!({ "apiVersion": "shop.example.com/v2", "kind": "Shelf", "metadata": { "name": "web" },
        "spec": { "size": 2, "colour": "red" } });
    let spec = json!({
        "forEach": { "namespaces": [{ "namespaceSelector": story.selector() }] },
        "objects": [{ "id": "shelf", "template": shelf }],
        "deletionGrace": "0s",
    });
    story.admin().create(&ours("CopyratorTemplate", &story.home, "shelf", spec)).ok();
    let told = story.until_condition("CopyratorTemplate", "shelf", "Degraded", "True", "NotKept");
    let problems = &told["status"]["problems"];
    let message = problems[0]["message"].as_str().unwrap_or_default();
    assert!(message.contains(" spec.colour: ") && !problems.to_string().contains("size"), "{problems}");
    until_swept();
    let before = story.bed.our_writes_in(place);
    until_swept();
    assert_eq!(story.bed.our_writes_in(place), before, "it was written again");
    // What the stored version has is put right.
    let edit = json!({ "spec": { "size": 3 } });
    story.admin().merge("Shelf", place, "web", &edit).ok();
    eventually("the size is put right", || {
        let object = story.admin().get("Shelf", place, "web").ok_or("it is gone")?;
        same(object["spec"].clone(), json!({ "size": 2 }))
    });
    story.until_condition("CopyratorTemplate", "shelf", "Degraded", "True", "NotKept");
    story.admin().delete("CopyratorTemplate", &story.home, "shelf").ok();
    story.until_gone("Shelf", place, "web");
}
