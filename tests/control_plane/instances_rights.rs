//! What templates give to whom: a user who makes an object chooses its values, and an author gets what that author may read and write.

use serde_json::{Value, json};

use crate::bed::objects::binding;
use crate::bed::{Bed, Story, eventually};
use crate::instances::{cache, everywhere, template};

/// Whatever an expression leaves open: nobody gets marks of ours or of other tools onto what is rendered, and a fault of one object
/// holds back no other.
pub fn who_makes_one_chooses_values_only(bed: &Bed) {
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
pub fn who_makes_one_gives_pods_no_rights(bed: &Bed) {
    let story = Story::new(bed, "pods-rights");
    let place = story.target("a");
    let mut wide = template(&story, "caches", &everywhere(&story), "unused");
    let object = |kind: Value| json!([{ "id": "it", "template": kind }]);
    wide["spec"]["objects"] = object(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "token" }, "type": "kubernetes.io/service-account-token",
    }));
    let refusal = story.admin().create(&wide).refused();
    assert!(refusal.contains("the Secret would contain a token"), "{refusal}");
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
            let (whose, what) = (
                format!("for Memcached number-{number}"),
                format!(" returns {field}, which must be literal"),
            );
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
pub fn who_may_not_list_them_gets_nothing(bed: &Bed) {
    let story = Story::new(bed, "unread");
    story.admin().create(&binding(&story.home, "alice", "admin")).ok();
    story.admin().create(&cache(&story.home, "mine", 4)).ok();
    let template = template(&story, "caches", &json!([]), "cache-${object.metadata.name}");
    eventually("alice may write templates, but not for what she may not list", || {
        let refusal = story.bed.alice.try_create(&template).refused();
        if refusal.contains("list memcacheds") { Ok(()) } else { Err(refusal) }
    });
    may_read_caches(&story, &story.home);
    eventually("alice may write this one", || {
        let answer = story.bed.alice.try_create(&template);
        if answer.code == 201 { Ok(()) } else { Err(answer.body.to_string()) }
    });
    story.bed.alice.create(&template).ok();
    story.until("ConfigMap", &story.home, "cache-mine", [("size", "4"), ("of", "mine")]);
    story.admin().delete("CopyratorTemplate", &story.home, "caches").ok();
    story.until_gone("ConfigMap", &story.home, "cache-mine");
}

/// Nothing comes out of a namespace where the author may not read, and nothing gets into one where the author may not write: no
/// object, no status of an instance, and no name of one in what the template says of itself.
pub fn who_may_not_read_elsewhere_gets_nothing(bed: &Bed) {
    let story = Story::new(bed, "pried");
    let (admin, alice, vault) = (story.admin(), &bed.alice, story.bystander("vault"));
    admin.create(&binding(&story.home, "alice", "admin")).ok();
    admin.create(&cache(&vault, "sealed", 7)).ok();
    let vault_only = json!([{ "names": [vault] }]);
    let mut prying = template(&story, "caches", &vault_only, "cache-${object.metadata.name}");
    prying["spec"]["writeStatus"] = json!({ "nodes": "${[object.metadata.name]}" });
    let until_told = |lacking: &[&str], other: &[&str]| {
        eventually(&format!("alice is told that she lacks {lacking:?} alone"), || {
            let said = alice.try_create(&prying).refused();
            let place = format!("in namespace {vault:?}");
            let is_told = lacking.iter().all(|part| said.contains(&format!("{part} {place}")));
            if is_told && !other.iter().any(|part| said.contains(part)) { Ok(()) } else { Err(said) }
        });
    };
    let caches = "get, list or patch memcacheds.cache.example.com";
    until_told(&["create, delete or patch configmaps", caches], &[]);
    eventually("she writes it while there are no hooks", || {
        bed.unhook();
        let answer = alice.create(&prying);
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    let told = story.until_condition("CopyratorTemplate", "caches", "Authorized", "False", "Forbidden");
    assert!(!told["status"].to_string().contains("sealed"), "{}", told["status"]);
    story.marker("then");
    assert_eq!(bed.our_writes_in(&vault), Vec::new(), "something was written where alice may not");
    let sealed = admin.get("Memcached", &vault, "sealed").expect("it is there");
    assert_eq!(sealed["status"], Value::Null);
    for place in [&vault, &story.home] {
        assert!(admin.get("ConfigMap", place, "cache-sealed").is_none(), "it was rendered in {place}");
    }
    admin.delete("CopyratorTemplate", &story.home, "caches").ok();
    // The marker's rule has the hooks looked at, and put back: what comes after this is judged.
    bed.until_answered();

    // She may write there, but not read; then read, but write no status.
    admin.create(&binding(&vault, "alice", "edit")).ok();
    until_told(&[&format!("user \"alice\" may not {caches}")], &["configmaps"]);
    may_read_caches(&story, &vault);
    until_told(&["user \"alice\" may not patch memcacheds.cache.example.com"], &["list", "configmaps"]);
    prying["spec"]["writeStatus"] = Value::Null;
    eventually("alice may write it without a status", || {
        let answer = alice.try_create(&prying);
        if answer.code == 201 { Ok(()) } else { Err(answer.body.to_string()) }
    });
}

/// Lets alice read the caches of a namespace.
fn may_read_caches(story: &Story<'_>, namespace: &str) {
    let rule = json!([{ "apiGroups": ["cache.example.com"], "resources": ["memcacheds"], "verbs": ["get", "list"] }]);
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "namespace": namespace, "name": "caches" }, "rules": rule });
    story.admin().create(&role).ok();
    let mut bound = binding(namespace, "alice", "caches");
    bound["metadata"]["name"] = "caches".into();
    bound["roleRef"]["kind"] = "Role".into();
    story.admin().create(&bound).ok();
}
