//! From another tool to us on a live cluster: what it copied stays where and as it is, and is ours afterwards.

use std::process::Command;

use serde_json::{Value, json};

use crate::bed::objects::{annotation, config_map, label, secret, uid, version};
use crate::bed::{Bed, Story, eventually, peaceful};
use crate::plan::run;

const REFLECTOR: &str = "reflector.v1.k8s.emberstack.com";
const REPLICATOR: &str = "replicator.v1.mittwald.de";

fn annotated(mut object: Value, annotations: Value) -> Value {
    object["metadata"]["annotations"] = annotations;
    object
}

/// What `copyrator import` prints for the story's home, and its exit code.
fn import(story: &Story<'_>) -> (Vec<Value>, String, Option<i32>) {
    let kubeconfig = story.bed.testbed.cluster().admin_kubeconfig();
    let mut command = Command::new(env!("CARGO_BIN_EXE_copyrator"));
    let command = command.arg("import").arg("--kubeconfig").arg(kubeconfig).args(["-n", &story.home]);
    let output = command.output().expect("copyrator runs");
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let rules = documents.into_iter().filter(|one| !one.is_null()).collect();
    (rules, format!("{out}{err}"), output.status.code())
}

/// trust-manager#99, #100: changing hands must not take copies away, not even for a moment, and nobody restarts.
#[test]
fn what_another_tool_copied_is_taken_over_and_not_written_over() {
    let story = Story::new(peaceful(), "imported");
    let (blue, same, other) = (story.target("blue"), story.bystander("same"), story.bystander("other"));
    let admin = story.admin();
    let source = json!({
        format!("{REFLECTOR}/reflection-allowed"): "true",
        format!("{REFLECTOR}/reflection-auto-enabled"): "true",
        format!("{REFLECTOR}/reflection-auto-namespaces"): format!("{same},{other},{}", story.called("team-.*")),
    });
    admin.create(&annotated(secret(&story.home, "registry", [("k", "1")]), source)).ok();
    let source = json!({ format!("{REPLICATOR}/replicate-to-matching"): "story=imported" });
    admin.create(&annotated(config_map(&story.home, "settings", [("k", "1")]), source)).ok();
    // What the two made of that; one of theirs was edited since.
    let mirror = json!({ format!("{REFLECTOR}/reflects"): format!("{}/registry", story.home), format!("{REFLECTOR}/auto-reflects"): "True" });
    let kept = admin.create(&annotated(secret(&same, "registry", [("k", "1")]), mirror.clone())).ok();
    let edited = admin.create(&annotated(secret(&other, "registry", [("k", "theirs")]), mirror)).ok();
    let replica = json!({ format!("{REPLICATOR}/replicated-from-version"): "1" });
    let replica = admin.create(&annotated(config_map(&blue, "settings", [("k", "1")]), replica)).ok();

    let (rules, text, code) = import(&story);
    assert_eq!((rules.len(), code), (2, Some(0)), "{text}");
    assert!(text.contains("Stop the other tool") && text.contains("2 rules, suspended"), "{text}");
    for rule in &rules {
        admin.create(rule).ok();
    }
    story.marker("applied");
    for (kind, namespace, name, before) in
        [("Secret", &same, "registry", &kept), ("ConfigMap", &blue, "settings", &replica)]
    {
        let now = admin.get(kind, namespace, name).expect("it stays");
        assert_eq!(version(&now), version(before), "a suspended rule wrote");
    }

    let go = json!({ "spec": { "suspend": false } });
    for rule in &rules {
        let name = rule["metadata"]["name"].as_str().expect("a rule has a name");
        admin.merge("CopyratorRule", &story.home, name, &go).ok();
    }
    for (kind, namespace, name, before) in
        [("Secret", &same, "registry", &kept), ("ConfigMap", &blue, "settings", &replica)]
    {
        let now = eventually(&format!("{kind} {namespace}/{name} is taken over"), || {
            let now = admin.get(kind, namespace, name).ok_or("it is gone")?;
            match label(&now, "app.kubernetes.io/managed-by") {
                Some("copyrator") => Ok(now),
                _ => Err(now["metadata"].to_string()),
            }
        });
        assert_eq!(uid(&now), uid(before), "it was made anew");
        assert_eq!(now["data"], before["data"]);
        assert!(annotation(&now, "copyrator.dev/source").is_some());
    }
    let rule = story.until_condition("CopyratorRule", "reflector-registry", "Degraded", "True", "Conflict");
    assert_eq!(rule["status"]["problems"][0]["namespace"], json!(other), "{}", rule["status"]);
    let still = admin.get("Secret", &other, "registry").expect("it stays");
    assert_eq!(version(&still), version(&edited), "what differs was written over");

    // From here on it is ours: new namespaces and new content.
    let team = story.bystander("team-a");
    story.until("Secret", &team, "registry", [("k", "1")]);
    let change = json!({ "stringData": { "k": "2" } });
    admin.merge("Secret", &story.home, "registry", &change).ok();
    for target in [&same, &team] {
        story.until("Secret", target, "registry", [("k", "2")]);
    }
}

/// What may not be listed is said, and nothing is printed as if it were everything.
#[test]
fn an_import_that_may_not_look_says_so() {
    let story = Story::new(peaceful(), "import-refused");
    let kubeconfig = story.bed.testbed.cluster().user("alice").expect("a user of the cluster");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_copyrator"));
        command.arg("import").args(arguments).output().expect("copyrator runs")
    };
    let kubeconfig = kubeconfig.to_string_lossy();
    let refused = run(&["--kubeconfig", &kubeconfig, "-n", &story.home]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot list configmaps in namespace import-refused-home"), "{said}");
    assert!(refused.stdout.is_empty());
    // Nobody is there, and no such file.
    let nobody = tempfile::NamedTempFile::new().expect("a file");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{ "name": "x", "cluster": { "server": "http://127.0.0.1:1" } }],
        "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
        "users": [{ "name": "x", "user": {} }],
    });
    std::fs::write(nobody.path(), config.to_string()).expect("it is written");
    let nobody = nobody.path().to_string_lossy().into_owned();
    assert_eq!(run(&["--kubeconfig", &nobody]).status.code(), Some(3));
    assert_eq!(run(&["-f", "/nonexistent.yaml"]).status.code(), Some(2));
}

/// Not in the cluster of the others: a NamespaceConfig is in no namespace, and each import there would read it.
pub fn a_namespace_config_becomes_a_template(bed: &Bed) {
    let story = Story::new(bed, "namespaceconfig");
    let (first, second) = (story.target("first"), story.target("second"));
    let admin = story.admin();
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    admin
        .create(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "namespaceconfigs.redhatcop.redhat.io" },
            "spec": {
                "group": "redhatcop.redhat.io", "scope": "Cluster",
                "names": { "plural": "namespaceconfigs", "singular": "namespaceconfig", "kind": "NamespaceConfig" },
                "versions": [{ "name": "v1alpha1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": open } } } }],
            },
        }))
        .ok();
    eventually("the kind is served", || {
        let listed = admin.try_list("NamespaceConfig");
        if listed.code == 200 { Ok(()) } else { Err(listed.body.to_string()) }
    });
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: about, namespace: {{ .Name }}}\ndata: {of: \"{{ .Name }}\"}\n";
    admin
        .create(&json!({
            "apiVersion": "redhatcop.redhat.io/v1alpha1", "kind": "NamespaceConfig", "metadata": { "name": "about" },
            "spec": { "labelSelector": story.selector(), "templates": [{ "objectTemplate": text }] },
        }))
        .ok();
    // What its operator has made.
    let before = admin.create(&config_map(&first, "about", [("of", first.as_str())])).ok();

    let said = run(&story, None, &["import", "-n", &story.home, "-o", "json"], "");
    assert_eq!(said.code, Some(0), "{}{}", said.text, said.notes);
    let printed: Value = serde_json::from_str(&said.text).expect("it is JSON");
    let mut template = printed["templates"][0].clone();
    assert_eq!(template["metadata"]["namespace"], json!(story.home), "{printed}");
    template["spec"]["suspend"] = false.into();
    admin.create(&template).ok();
    story.until("ConfigMap", &second, "about", [("of", second.as_str())]);
    let now = eventually("what is there is taken over", || {
        let now = admin.get("ConfigMap", &first, "about").ok_or("it is gone")?;
        match label(&now, "app.kubernetes.io/managed-by") {
            Some("copyrator") => Ok(now),
            _ => Err(now["metadata"].to_string()),
        }
    });
    assert_eq!(uid(&now), uid(&before), "it was made anew");
}
