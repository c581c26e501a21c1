//! What people are told after an installation.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rendering::{chart, helm};

/// helm shows notes only of what it installs in a cluster, so a copy of the chart has them in a ConfigMap.
fn copied() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-r").arg(chart()).arg(folder.path()).status().unwrap();
    assert!(copied.success());
    let templates = folder.path().join("copyrator/templates");
    let notes = fs::read_to_string(templates.join("NOTES.txt")).unwrap();
    fs::write(templates.join("_told.tpl"), format!("{{{{ define \"told\" }}}}{notes}{{{{ end }}}}")).unwrap();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: told}\ndata: {notes: {{ include \"told\" . | quote }}}\n";
    fs::write(templates.join("told.yaml"), map).unwrap();
    folder
}

fn notes(folder: &Path, values: &Value) -> String {
    notes_on("1.36.0", folder, values)
}

fn notes_on(server: &str, folder: &Path, values: &Value) -> String {
    let chart = folder.join("copyrator").to_string_lossy().into_owned();
    let only = ["--kube-version", server, "--show-only", "templates/told.yaml"];
    let arguments = [&["template", "copyrator", &chart], &only[..]].concat();
    let map = helm(&arguments, values).expect("the chart renders");
    let map: Value = serde_saphyr::from_str(&map).unwrap();
    map["data"]["notes"].as_str().unwrap().to_owned()
}

#[test]
fn notes_say_what_to_do_next_and_nothing_else() {
    let folder = copied();
    let notes = notes(folder.path(), &json!({}));
    for said in ["rollout status deployment/copyrator-reconciler", "copyrator doctor", "kind: CopyratorRule"]
    {
        assert!(notes.contains(said), "{said:?} is not in\n{notes}");
    }
    assert!(!notes.contains("WARNING"), "{notes}");
}

/// A server before 1.36 does not take all that `copyrator crds` prints.
#[test]
fn notes_name_the_version_of_a_server_that_knows_less() {
    let folder = copied();
    let without = json!({ "crds": { "enabled": false } });
    for (server, command) in [
        ("1.36.0", "copyrator crds | kubectl apply"),
        ("1.37.1", "copyrator crds | kubectl apply"),
        ("1.35.4", "copyrator crds --kube-version 1.35 | kubectl apply"),
        ("v1.33.2-eks-1", "copyrator crds --kube-version 1.33 | kubectl apply"),
    ] {
        let notes = notes_on(server, folder.path(), &without);
        assert!(notes.contains(command), "{server}: {command:?} is not in\n{notes}");
    }
    // Without them the guard would not be over what templates declare.
    let certificate = json!({ "apiVersion": "cert-manager.io/v1", "kind": "Certificate", "resource": "certificates", "use": ["render"] });
    let issuer = json!({ "apiVersion": "cert-manager.io/v1", "kind": "Issuer", "resource": "issuers", "use": ["render", "copy"] });
    let read = json!({ "apiVersion": "a.b/v1", "kind": "A", "resource": "as", "use": ["forEach"] });
    let granted =
        json!({ "crds": { "enabled": false }, "templates": { "kinds": [certificate, issuer, read] } });
    let notes = notes_on("1.36.0", folder.path(), &granted);
    let command = "\n  copyrator crds --template-kinds cert-manager.io/v1/Certificate/certificates/render,\
                   cert-manager.io/v1/Issuer/issuers/render+copy | kubectl apply";
    assert!(notes.contains(command), "{command:?} is not in\n{notes}");
}

#[test]
fn notes_of_some_namespaces_speak_of_no_webhook_and_of_no_cluster_role() {
    let folder = copied();
    let values = json!({ "namespaces": ["shop", "web"], "webhook": { "replicas": 0, "hostNetwork": true } });
    let text = notes(folder.path(), &values);
    assert!(text.contains("looks at namespaces shop, web, and at nothing else"), "{text}");
    assert!(text.contains("metadata: {name: registry, namespace: shop}"), "{text}");
    // A user with rights there alone may not list everybody's.
    assert!(
        text.contains("kubectl get copyratorrules,configmonitors -n shop ") && !text.contains("copyrator -A"),
        "{text}"
    );
    assert!(!text.contains("WARNING"), "{text}");
    let text = notes(folder.path(), &json!({ "namespaces": ["shop"], "rbac": { "create": false } }));
    assert!(text.contains("WARNING: rbac.create is false") && !text.contains("ClusterRole"), "{text}");
}

#[test]
fn notes_say_how_the_console_is_reached() {
    let folder = copied();
    let console = |more: Value| json!({ "console": more });
    for (values, said) in [
        (console(json!({ "enabled": true })), "port-forward deployment/copyrator-console 8001"),
        (
            console(json!({ "enabled": true, "tls": { "secretName": "web" } })),
            "copyrator-console, port 8001 (https)",
        ),
    ] {
        let notes = notes(folder.path(), &values);
        assert!(notes.contains(said) && !notes.contains("WARNING"), "{said:?} is not in\n{notes}");
    }
    assert!(!notes(folder.path(), &console(Value::Null)).contains("console"));
}

#[test]
fn notes_warn_of_what_will_hurt() {
    let folder = copied();
    for (values, said) in [
        (json!({ "webhook": { "replicas": 1 } }), "One pod answers"),
        (json!({ "topology": "combined", "reconciler": { "replicas": 1 } }), "One pod answers"),
        (json!({ "webhook": { "replicas": 0 } }), "No pod answers"),
        (json!({ "reconciler": { "replicas": 0 } }), "No pod reconciles"),
        (json!({ "podDisruptionBudget": { "enabled": false } }), "podDisruptionBudget"),
        (json!({ "crds": { "enabled": false } }), "copyrator crds | kubectl apply"),
        (json!({ "crds": { "keep": false } }), "everybody's rules"),
        (json!({ "rbac": { "create": false } }), "ClusterRole copyrator"),
        (json!({ "serviceAccount": { "create": false } }), "copyrator-webhook"),
        (
            json!({ "serviceAccount": { "create": false }, "console": { "enabled": true } }),
            "the console's without copyrator-console.",
        ),
        (json!({ "console": { "enabled": true, "plainHTTP": true } }), "port 8001 (http)"),
        (json!({ "webhook": { "hostNetwork": true } }), "8443 and 8080"),
        (json!({ "networkPolicy": { "enabled": true } }), "networkPolicy.from"),
    ] {
        let notes = notes(folder.path(), &values);
        let warning = notes.lines().find(|line| line.starts_with("WARNING: "));
        assert!(warning.is_some(), "{values} warns of nothing\n{notes}");
        assert!(notes.contains(said), "{said:?} is not in\n{notes}");
    }
}
