//! `copyrator check` says what the webhook says: the same objects, put to both, are refused and warned of in the same words.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copyrator::validate::printable;
use serde_json::{Value, json};

use super::harness::{App, Cluster, recorded};

/// What was said of one object: refusals as one text, and warnings.
type Said = (String, Vec<String>);

fn policies() -> Vec<(&'static str, Value)> {
    let keys = |format: &str| json!({ "name": format, "keys": [format!("{format}*")], "format": format });
    let formats = [
        "json",
        "yaml",
        "toml",
        "properties",
        "url",
        "integer",
        "boolean",
        "regex",
        "pem-certificate",
        "pem-key",
        "dockerconfigjson",
    ];
    let formats = formats.map(keys);
    let port = json!({ "type": "object", "properties": { "port": { "enum": [80, 443] } } });
    let blue = json!({ "matchLabels": { "team": "blue" } });
    vec![
        (
            "app",
            json!({
                "match": { "kinds": ["ConfigMap", "Secret"], "names": ["app-*"], "namespaceSelector": blue },
                "data": [
                    { "name": "has-url", "keys": ["url"], "required": true, "format": "url" },
                    { "name": "frozen", "keys": ["schema-version"], "immutable": true },
                    { "name": "level", "keys": ["*.level"], "pattern": "debug|info" },
                ],
                "labels": { "required": ["owner"], "patterns": { "owner": "[a-z-]+" } },
                "limits": { "maxBytes": 300 },
            }),
        ),
        ("formats", json!({ "match": { "kinds": ["ConfigMap", "Secret"] }, "data": formats })),
        (
            "pairs",
            json!({ "match": { "kinds": ["Secret"], "names": ["tls-*"] }, "data": [{ "name": "pair", "format": "tls-pair" }] }),
        ),
        (
            "documents",
            json!({
                "match": { "kinds": ["ConfigMap"], "names": ["document-*"] },
                "data": [
                    { "name": "port", "keys": ["*.conf"], "format": "yaml", "schema": port },
                    { "name": "lasts", "keys": ["*.pem"], "format": "pem-certificate", "minRemaining": "720h" },
                ],
            }),
        ),
        (
            "cel",
            json!({
                "match": { "kinds": ["ConfigMap", "Secret"], "names": ["cel-*"] },
                "validations": [
                    { "expression": "int(text.min) <= int(text.max)", "message": "min must not exceed max" },
                    { "expression": "object.?type.orValue('') != 'example.com/other'" },
                    { "expression": "oldObject == null && request.operation == 'CREATE'" },
                    { "expression": "request.name == object.metadata.name && request.namespace == 'shop'" },
                    { "expression": "text.all(key, text[key].size() < 9)" },
                    { "expression": "'stringData' in object", "message": "no stringData is left" },
                ],
            }),
        ),
        (
            "warned",
            json!({
                "match": { "kinds": ["ConfigMap"], "names": ["warned-*"] }, "validationActions": ["Warn"],
                "data": [{ "name": "url", "keys": ["url"], "format": "url" }, { "name": "port", "keys": ["port"], "required": true }],
            }),
        ),
        (
            "audited",
            json!({
                "match": { "kinds": ["ConfigMap"], "names": ["warned-*"] }, "validationActions": ["Audit"],
                "data": [{ "name": "url", "keys": ["url"], "format": "url" }],
            }),
        ),
        (
            "defaults",
            json!({
                "match": { "kinds": ["ConfigMap", "Secret", "Namespace"], "names": ["defaulted-*"] },
                "labels": { "required": ["team", "unsettled"] },
                "defaults": { "labels": { "team": "unknown", "chained": "yes" }, "annotations": { "example.com/a": "b" } },
            }),
        ),
        (
            "chained",
            json!({
                "match": { "kinds": ["ConfigMap"], "objectSelector": { "matchLabels": { "chained": "yes" } } },
                "validations": [{ "expression": "object.metadata.annotations.size() == 7", "message": "it has been seen" }],
            }),
        ),
        (
            "namespaces",
            json!({
                "match": { "kinds": ["Namespace"], "excludeNamespaces": ["free-*"] },
                "labels": { "required": ["owner"], "patterns": { "kubernetes.io/metadata.name": "[a-z]+" } },
            }),
        ),
    ]
}

fn object(kind: &str, name: &str, data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": "shop" }, "data": data })
}

fn objects() -> Vec<Value> {
    let encoded = |text: &str| STANDARD.encode(text);
    let mut secret =
        object("Secret", "app-login", json!({ "url": encoded("hunter2-swordfish"), "json": encoded("{") }));
    secret["stringData"] =
        json!({ "yaml": "a: [hunter2-swordfish", "json": "hunter2-swordfish", "x.level": "swordfish" });
    let mut celled = object("Secret", "cel-other", json!({ "min": encoded("hunter2-swordfish") }));
    celled["stringData"] = json!({ "max": "3" });
    celled["type"] = "example.com/other".into();
    let mut generated = object("ConfigMap", "", json!({ "port": "1" }));
    generated["metadata"] = json!({ "generateName": "app-", "namespace": "shop" });
    let mut labelled =
        object("ConfigMap", "app-web", json!({ "url": "https://example.com", "a.level": "info" }));
    labelled["metadata"]["labels"] = json!({ "owner": "blue" });
    let mut annotated = object("ConfigMap", "annotated", json!({}));
    annotated["metadata"]["annotations"] =
        json!({ "copyrator.dev/copy-to": "Not A Name", "copyrator.dev/restart-pods": "app in (" });
    annotated["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    let mut undeclared = object("ConfigMap", "annotated-only", json!({}));
    undeclared["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": "Not A Name" });
    let mut good = object("ConfigMap", "annotated-well", json!({}));
    good["metadata"]["annotations"] = json!({ "copyrator.dev/copy-to": "team-*" });
    good["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    let namespace = |name: &str, labels: Value| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } });
    let ours = |kind: &str, spec: Value| {
        let metadata = match kind {
            "ConfigPolicy" => json!({ "name": "ours" }),
            _ => json!({ "name": "ours", "namespace": "platform" }),
        };
        json!({ "apiVersion": "copyrator.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec })
    };
    let ((certificate, key), (lasting, other)) = (leaf(1), leaf(100));
    let pair = |name: &str, certificate: &str, key: &str| {
        object("Secret", name, json!({ "tls.crt": encoded(certificate), "tls.key": encoded(key) }))
    };
    let login = r#"{"auths": {"registry.example.com": {"auth": "dTpw"}}}"#;
    vec![
        pair("tls-good", &certificate, &key),
        pair("tls-bad", &certificate, &other),
        pair("tls-half", &certificate, ""),
        object("Secret", "any-key", json!({ "pem-key": encoded(&key) })),
        object("Secret", "any-other", json!({ "pem-key": encoded(&certificate) })),
        object(
            "ConfigMap",
            "any-text",
            json!({ "toml": "a = 1\na = 2", "properties.a": "a=1\na=2", "dockerconfigjson": "{}" }),
        ),
        object(
            "ConfigMap",
            "any-text",
            json!({ "toml": "a = 1", "properties.a": "a=1", "dockerconfigjson": login }),
        ),
        object("ConfigMap", "document-good", json!({ "app.conf": "port: 80", "ca.pem": lasting })),
        pair("tls-glued", &format!("{}{}", certificate.trim_end(), lasting), &key),
        object("ConfigMap", "any-marked", json!({ "json.a": "\u{feff}{}", "properties.a": "\u{feff}a=1" })),
        object("ConfigMap", "any-unrendered", json!({ "yaml.a": "a: {{ .Values.x }}\n" })),
        object("ConfigMap", "document-unrendered", json!({ "app.conf": "a: {{ .Values.x }}\n" })),
        object("ConfigMap", "document-a", json!({ "app.conf": "port: 81" })),
        object("ConfigMap", "document-b", json!({ "app.conf": "port: 80", "ca.pem": certificate })),
        labelled,
        secret,
        celled,
        generated,
        annotated,
        good,
        object(
            "ConfigMap",
            "app-web",
            json!({ "url": "no url", "b.level": "\u{1b}[31m", "yaml.b": "a: 1\na: 2\n" }),
        ),
        object("ConfigMap", "app-large", json!({ "url": "https://example.com", "filler": "x".repeat(400) })),
        object(
            "ConfigMap",
            "any",
            json!({ "json": "[1,", "regex": "(", "integer.a": "1.5", "boolean": "yes" }),
        ),
        object(
            "ConfigMap",
            "any-good",
            json!({ "json": "[1]", "regex": "a+", "integer.a": "15", "boolean": "true" }),
        ),
        object("ConfigMap", "cel-a", json!({ "min": "7", "max": "3" })),
        object("ConfigMap", "cel-b", json!({ "min": "many", "max": "3", "long": "0123456789" })),
        object("ConfigMap", "warned-a", json!({ "url": "no url" })),
        object("ConfigMap", "defaulted-a", json!({})),
        object("Secret", "defaulted-b", json!({})),
        namespace("defaulted-c", json!({ "owner": "blue" })),
        namespace("blue", json!({ "owner": "blue" })),
        namespace("bare-1", json!({})),
        namespace("free-1", json!({})),
        ours(
            "CopyratorRule",
            json!({ "source": { "kind": "Secret", "names": ["a"] }, "targets": [{ "names": ["b"] }], "deletionGrace": "soon" }),
        ),
        ours(
            "CopyratorRule",
            json!({ "source": { "kind": "Secret", "names": ["a"], "nmaes": [] }, "targets": [{ "nams": ["b"] }] }),
        ),
        ours(
            "CopyratorRule",
            json!({ "source": { "kind": "Secret", "names": ["a"] }, "targets": [{ "names": ["b"] }] }),
        ),
        ours(
            "CopyratorRule",
            json!({
                "source": { "kind": "Secret", "names": ["^db$"] }, "targets": [{ "names": ["Shop", "a,b"] }],
                "excludeTargets": ["^.*-stg$"], "copy": { "labels": { "keep": [" app"] } },
            }),
        ),
        ours(
            "CopyratorRule",
            json!({
                "source": { "kind": "Secret", "names": ["a"] }, "targets": [{ "names": ["kube-system", "platform", "b"] }],
                "copy": { "keys": { "exclude": ["tls.key"] } },
            }),
        ),
        ours(
            "ConfigMonitor",
            json!({ "watch": [{ "kind": "Secret", "names": ["!a"], "keys": ["tls\\.key"] }] }),
        ),
        ours("ConfigMonitor", json!({ "watch": [{ "kind": "Pod", "names": ["a"] }] })),
        ours(
            "ConfigMonitor",
            json!({ "watch": [{ "kind": "Secret", "names": ["a"] }], "pace": { "minInterval": "often" } }),
        ),
        ours(
            "ConfigPolicy",
            json!({ "match": { "kinds": ["Secret"] }, "data": [{ "name": "a", "keys": ["a"], "pattern": "(" }] }),
        ),
        ours(
            "ConfigPolicy",
            json!({ "match": { "kinds": ["Secret"] }, "validations": [{ "expression": "nothing.a" }] }),
        ),
    ]
}

/// A certificate for so many days, and its key.
fn leaf(days: u32) -> (String, String) {
    let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
    let authority = copyrator_certs::Authority::issue("test", now, 200 * day).unwrap();
    let leaf = authority.issue_leaf(&["a.example.com".to_owned()], &[], now, day * days).unwrap();
    (leaf.chain_pem.clone(), leaf.key_pem.expose().to_owned())
}

/// The object as the API server hands it to webhooks.
fn stored(mut object: Value) -> Value {
    let texts = object.as_object_mut().unwrap().remove("stringData");
    for (key, text) in texts.iter().flat_map(|texts| texts.as_object().unwrap()) {
        object["data"][key] = STANDARD.encode(text.as_str().unwrap()).into();
    }
    let name = object["metadata"]["name"].clone();
    match object["kind"].as_str().unwrap() {
        "Secret" if object["type"].is_null() => object["type"] = "Opaque".into(),
        "Namespace" => object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name,
        _ => {}
    }
    object
}

async fn asked(app: &App, path: &str, object: &Value) -> Value {
    let mut review = recorded("configmap-create");
    let request = &mut review["request"];
    let ours = object["apiVersion"] != "v1";
    let (group, version) = if ours { ("copyrator.dev", "v1alpha1") } else { ("", "v1") };
    request["kind"] = json!({ "group": group, "version": version, "kind": object["kind"] });
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    request["name"] = name.into();
    let home =
        if object["kind"] == "Namespace" { name } else { metadata["namespace"].as_str().unwrap_or_default() };
    request["namespace"] = home.into();
    request["object"] = object.clone();
    app.send_value(path, &review).await.response()
}

/// What the hooks say to a creation, one after the other as the API server asks them.
async fn by_webhook(app: &App, object: &Value) -> Said {
    let mut object = stored(object.clone());
    if let Some(patch) = asked(app, "/mutate/defaults", &object).await["patch"].as_str() {
        let patch: json_patch::Patch = serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
    }
    let (mut refusals, mut warnings) = (Vec::new(), Vec::new());
    for path in ["/validate/own-kinds", "/validate/annotations", "/validate/policies"] {
        let response = asked(app, path, &object).await;
        if response["allowed"] == false {
            refusals.push(response["status"]["message"].as_str().unwrap().to_owned());
        }
        let told = response["warnings"].as_array().into_iter().flatten();
        warnings.extend(told.map(|text| text.as_str().unwrap().to_owned()));
    }
    (refusals.join(" | "), warnings)
}

/// What the command says, by file.
fn by_command(folder: &Path) -> Vec<(String, Said)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_copyrator"));
    command
        .args(["check", "-o", "json", "-f"])
        .arg(folder.join("objects"))
        .arg("--policy")
        .arg(folder.join("policies"));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("swordfish") && !text.contains("aHVudGVyMi"), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let said = |object: &Value| {
        let of = |level: &str| -> Vec<String> {
            let findings = object["findings"].as_array().unwrap().iter();
            let findings = findings.filter(|finding| finding["level"] == level);
            findings.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect()
        };
        let refusal = of("refused").join(" | ");
        assert_eq!(object["allowed"], refusal.is_empty(), "{object}");
        assert!(of("unknown").is_empty(), "{object}");
        (refusal, of("warned").iter().map(|warning| printable(warning, 120)).collect())
    };
    let objects = report["objects"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|object| object["kind"] != "ConfigPolicy" || object["name"] == "ours");
    objects.map(|object| (object["file"].as_str().unwrap().to_owned(), said(object))).collect()
}

#[tokio::test]
async fn webhook_and_check_say_the_same_in_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    let [judged, context] = ["objects", "policies"].map(|name| folder.path().join(name));
    [&judged, &context].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    // Which namespaces there are the command does not know.
    let mut cluster = Cluster::new().refuse("list namespaces");
    for (name, spec) in policies() {
        let policy = json!({ "apiVersion": "copyrator.dev/v1alpha1", "kind": "ConfigPolicy", "metadata": { "name": name }, "spec": spec });
        fs::write(context.join(format!("{name}.json")), policy.to_string()).unwrap();
        cluster = cluster.policy(name, spec);
    }
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop", "labels": { "team": "blue" } } });
    fs::write(context.join("shop.json"), namespace.to_string()).unwrap();
    let app = cluster.app();
    let mut expected = Vec::new();
    for (index, object) in objects().into_iter().enumerate() {
        let file = judged.join(format!("{index:02}.json"));
        fs::write(&file, object.to_string()).unwrap();
        expected.push((file.display().to_string(), by_webhook(&app, &object).await));
    }
    let said = by_command(folder.path());
    for (expected, said) in expected.iter().zip(&said) {
        assert_eq!(said, expected);
    }
    assert_eq!(said.len(), expected.len());
    // Neither is silent throughout, and neither refuses everything.
    let refused = expected.iter().filter(|(_, (refusal, _))| !refusal.is_empty()).count();
    assert!((20..40).contains(&refused), "{refused}: {expected:#?}");
    assert!(expected.iter().any(|(_, (_, warnings))| warnings.len() == 2), "{expected:#?}");
}
