//! `copyrator check` as a pipeline meets it: exit codes, forms of output, and what it says of what it cannot judge.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

const POLICY: &str = "\
apiVersion: copyrator.dev/v1alpha1
kind: ConfigPolicy
metadata: {name: app}
spec:
  match: {kinds: [ConfigMap, Secret]}
  data:
  - {name: has-url, keys: [url], format: url}
";

/// What a run said: exit code, standard output, standard error.
struct Said {
    code: i32,
    text: String,
    notes: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

/// Runs the command in a folder with these files; `-` of them is standard input.
fn check(files: &[(&str, &str)], arguments: &[&str]) -> Said {
    let folder = tempfile::tempdir().unwrap();
    let mut input = "";
    for (name, text) in files {
        match *name {
            "-" => input = text,
            name => fs::write(folder.path().join(name), text).unwrap(),
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_copyrator"));
    command.arg("check").args(arguments).current_dir(folder.path()).env_remove("COPYRATOR_NAMESPACE");
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = piped.unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap(), text: text(output.stdout), notes: text(output.stderr) }
}

fn config_map(name: &str, url: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\ndata: {{url: '{url}'}}\n"
    )
}

#[test]
fn the_exit_code_says_whether_something_would_be_refused() {
    let (good, bad) = (config_map("web", "https://example.com"), config_map("web", "hunter2"));
    let warn = POLICY.to_owned() + "  validationActions: [Warn]\n";
    let audit = POLICY.to_owned() + "  validationActions: [Audit]\n";
    for (policy, object, strict, code) in [
        (POLICY, &good, "-f=a.yaml", 0),
        (POLICY, &good, "--strict", 0),
        (POLICY, &bad, "-f=a.yaml", 1),
        (&warn, &bad, "-f=a.yaml", 0),
        (&warn, &bad, "--strict", 1),
        (&audit, &bad, "-f=a.yaml", 0),
        (&audit, &bad, "--strict", 1),
        (POLICY, &"kind: [".to_owned(), "-f=a.yaml", 2),
    ] {
        let files = [("p.yaml", policy), ("a.yaml", object)];
        let said = check(&files, &["-f", "a.yaml", "--policy", "p.yaml", strict]);
        assert_eq!(said.code, code, "{object}{}{}", said.text, said.notes);
    }
    for arguments in [&["-f", "nothing.yaml"][..], &["--policy", "p.yaml"], &["-f", "p.yaml", "-o", "xml"]] {
        let said = check(&[("p.yaml", POLICY)], arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}{}", said.text, said.notes);
        assert!(said.text.is_empty() && !said.notes.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_finding_names_file_line_object_policy_rule_key_and_fix() {
    let text =
        format!("# first\n{}---\n\n{}", config_map("good", "https://a.b"), config_map("web", "nonsense"));
    let files = [("a.yaml", &*text), ("p.yaml", POLICY)];
    let said = check(&files, &["-f", "a.yaml", "--policy", "p.yaml"]);
    assert_eq!(
        said.text,
        "a.yaml:8: ConfigMap shop/web\n  ! policy app, rule has-url: ConfigMap shop/web, key url: is not a URL; write scheme://host/path \
         without spaces or a line break\n3 objects judged, 1 would be refused\n"
    );
    let report = check(&files, &["-f", "a.yaml", "--policy", "p.yaml", "-o", "json"]).json();
    let object = &report["objects"][1];
    let expected = json!({"file": "a.yaml", "line": 8, "document": 2, "kind": "ConfigMap", "namespace": "shop", "name": "web", "allowed": false});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&object[field], value, "{object}");
    }
    let finding = &object["findings"][0];
    let named = ["level", "policy", "rule", "key"].map(|field| finding[field].as_str().unwrap());
    assert_eq!(named, ["refused", "app", "has-url", "url"]);
    assert!(finding["fix"].as_str().unwrap().starts_with("write scheme://host"), "{finding}");
}

#[test]
fn a_policy_that_hangs_on_labels_nobody_gives_is_told_of_and_no_silent_pass() {
    let selecting = |selector: &str| {
        POLICY.replace("[ConfigMap, Secret]", &format!("[ConfigMap], namespaceSelector: {selector}"))
    };
    let bad = config_map("web", "nonsense");
    let blue = selecting("{matchLabels: {team: blue}}");
    let files = [("a.yaml", &*bad), ("p.yaml", &*blue)];
    let said = check(&files, &["-f", "a.yaml", "--policy", "p.yaml"]);
    let told = "  ? policy app: ConfigMap shop/web: cannot be judged offline: the policy's namespaceSelector looks at labels of \
                namespace shop, which no file tells";
    assert!(said.code == 0 && said.text.contains(told), "{}", said.text);
    assert_eq!(check(&files, &["-f", "a.yaml", "--policy", "p.yaml", "--strict"]).code, 1);
    // Told by a Namespace, judged or not; with what policies add to it; and by what every namespace carries.
    let namespace = |labels: &str| {
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop, labels: {labels}}}\n---\n")
    };
    let adds = "---\napiVersion: copyrator.dev/v1alpha1\nkind: ConfigPolicy\nmetadata: {name: adds}\nspec: {match: {kinds: [Namespace]}, defaults: {labels: {team: blue}}}\n";
    let by_name = selecting("{matchLabels: {kubernetes.io/metadata.name: shop}}");
    let by_other = selecting("{matchLabels: {kubernetes.io/metadata.name: other}}");
    for (objects, policies, code) in [
        (namespace("{team: blue}") + &bad, blue.clone(), 1),
        (namespace("{team: red}") + &bad, blue.clone(), 0),
        (bad.clone(), namespace("{team: blue}") + &blue, 1),
        (namespace("{}") + &bad, blue.clone() + adds, 1),
        (bad.clone(), by_name, 1),
        (bad.clone(), by_other, 0),
    ] {
        let files = [("a.yaml", &*objects), ("p.yaml", &*policies)];
        let said = check(&files, &["-f", "a.yaml", "--policy", "p.yaml"]);
        assert_eq!(said.code, code, "{objects}{policies}{}", said.text);
        assert!(!said.text.contains('?'), "{}", said.text);
    }
}

#[test]
fn what_no_hook_is_asked_about_is_not_judged() {
    let mut text = String::new();
    for (kind, name, namespace, more) in [
        ("ConfigMap", "a", "kube-system", ""),
        ("ConfigMap", "a", "copyrator-system", ""),
        ("ConfigMap", "kube-root-ca.crt", "shop", ""),
        ("Secret", "sh.helm.release.v1.a.v1", "shop", "type: helm.sh/release.v1\nstringData: {release: x}\n"),
        ("Secret", "token", "shop", "type: kubernetes.io/service-account-token\n"),
    ] {
        let annotations =
            if name == "token" { ", annotations: {kubernetes.io/service-account.name: a}" } else { "" };
        text += &format!(
            "---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}{annotations}}}\n{more}"
        );
        text += match (kind, name) {
            ("Secret", _) => "",
            (_, "kube-root-ca.crt") => "data: {ca.crt: nonsense}\n",
            _ => "data: {url: nonsense}\n",
        };
    }
    text += "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n---\nkind: ConfigMap\napiVersion: v2\n";
    let files = [("-", &*text), ("p.yaml", POLICY)];
    let said = check(&files, &["-f", "-", "--policy", "p.yaml"]);
    assert_eq!((said.code, &*said.text), (0, "6 objects judged, nothing found\n"), "{}", said.notes);
    assert!(said.notes.contains("1 ConfigMap, 1 Deployment"), "{}", said.notes);
}

#[test]
fn what_the_api_server_would_not_read_is_found_and_not_quoted() {
    let text = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {port: 4711}}
- {apiVersion: v1, kind: Secret, metadata: {name: b}, data: {password: 'hunter2!'}}
- {apiVersion: v1, kind: Secret, metadata: {name: c}, stringData: {password: [hunter2]}}
- {apiVersion: v1, kind: ConfigMap, metadata: {}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: d, labels: {a: true}}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: e}, data: [hunter2]}
- {apiVersion: copyrator.dev/v1alpha1, kind: CopyratorRule, metadata: {name: f}}
";
    let said = check(&[("a.yaml", text)], &["-f", "a.yaml", "-n", "shop", "-o", "json"]);
    assert!(said.code == 1 && !said.text.contains("hunter2") && !said.text.contains("4711"), "{}", said.text);
    let report = said.json();
    let objects = report["objects"].as_array().unwrap();
    let messages: Vec<&str> =
        objects.iter().map(|object| object["findings"][0]["message"].as_str().unwrap_or("nothing")).collect();
    let expected = [
        "ConfigMap shop/a, key port: data has a number there",
        "Secret shop/b, key password: is not base64; encode it, or write it as it is",
        "Secret shop/c, key password: stringData has a list there",
        "ConfigMap shop/(unnamed): has no metadata.name",
        "ConfigMap shop/d, key a: metadata.labels has a boolean there",
        "ConfigMap shop/e: data is not a map",
        "CopyratorRule f is not valid: spec: required field is missing",
    ];
    assert_eq!(messages.len(), expected.len());
    for (message, expected) in messages.iter().zip(expected) {
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn machines_get_a_test_report_or_a_scan() {
    let warn = POLICY.replace("app", "soft") + "  validationActions: [Warn]\n";
    let (good, bad) = (config_map("good", "https://a.b"), config_map("web", "<no> \"url\" & all"));
    let files = [("b.yaml", &*good), ("a b.yaml", &*bad), ("p.yaml", POLICY), ("q.yaml", &*warn)];
    let run = |output: &str| {
        check(
            &files,
            &["-f", "b.yaml", "-f", "a b.yaml", "--policy", "p.yaml", "--policy", "q.yaml", "-o", output],
        )
    };
    let junit = run("junit");
    assert_eq!(junit.code, 1);
    let lines: Vec<&str> = junit.text.lines().map(str::trim).collect();
    for line in [
        "<testsuites name=\"copyrator check\" tests=\"4\" failures=\"1\">",
        "<testsuite name=\"a b.yaml\" tests=\"1\" failures=\"1\">",
        "<testcase name=\"ConfigMap shop/web\" classname=\"a b.yaml\" file=\"a b.yaml\" line=\"1\">",
        "<testcase name=\"ConfigMap shop/good\" classname=\"b.yaml\" file=\"b.yaml\" line=\"1\">",
    ] {
        assert!(lines.contains(&line), "{line}\nin {}", junit.text);
    }
    assert!(
        junit.text.contains("<failure type=\"app/has-url\" message=\"policy app, rule has-url: "),
        "{}",
        junit.text
    );
    assert!(junit.text.contains("<system-out>policy soft, rule has-url: "), "{}", junit.text);

    let log = run("sarif").json();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "copyrator");
    let rules: Vec<&str> = run["tool"]["driver"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["id"].as_str().unwrap())
        .collect();
    assert_eq!(rules, ["app/has-url", "soft/has-url"]);
    let results = run["results"].as_array().unwrap();
    let seen: Vec<_> = results.iter().map(|result| (&result["ruleId"], &result["level"])).collect();
    assert_eq!(seen, [(&json!("app/has-url"), &json!("error")), (&json!("soft/has-url"), &json!("warning"))]);
    for result in results {
        assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize], result["ruleId"]);
        assert!(result["message"]["text"].as_str().unwrap().contains("key url"), "{result}");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place, &json!({"artifactLocation": {"uri": "a%20b.yaml"}, "region": {"startLine": 1}}));
    }
}

#[test]
fn the_order_of_files_changes_nothing() {
    let (one, other) = (config_map("a", "x"), config_map("b", "y"));
    let files = [("a.yaml", &*one), ("b.yaml", &*other), ("p.yaml", POLICY)];
    let said = |first, second| check(&files, &["-f", first, "-f", second, "-f", "p.yaml", "-o", "json"]);
    let (forth, back) = (said("a.yaml", "b.yaml"), said("b.yaml", "a.yaml"));
    assert_eq!((forth.code, &forth.text), (1, &back.text));
    assert_eq!(
        forth.json()["objects"].as_array().unwrap().len(),
        3,
        "the policy is judged, too: {}",
        forth.text
    );
}

/// A misspelt version or kind was left out, and the check passed.
#[test]
fn what_looks_like_ours_and_is_not_judged_does_not_pass() {
    let rule = |version: &str, kind: &str| {
        format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: r, namespace: shop}}\nspec: {{}}\n")
    };
    for (version, kind, meant) in [
        ("copyrator.dev/v1", "CopyratorRule", "apiVersion copyrator.dev/v1alpha1, kind CopyratorRule?"),
        ("copyrator.dev/v1alpha1", "CopyratorRul", "apiVersion copyrator.dev/v1alpha1, kind CopyratorRule?"),
        (
            "copyrator.dev/v1alpha1",
            "Rule",
            "kind CopyratorRule, ConfigMonitor, ConfigPolicy, CopyratorTemplate?",
        ),
        ("v1", "Configmap", "apiVersion v1, kind ConfigMap?"),
    ] {
        let said = check(&[("a.yaml", &rule(version, kind))], &["-f", "a.yaml"]);
        assert_eq!(said.code, 1, "{version} {kind}: {}{}", said.text, said.notes);
        assert!(
            said.text.contains(&format!("did you mean {meant}")) || said.text.contains(meant),
            "{}",
            said.text
        );
    }
    for (version, kind) in [("apps/v1", "Deployment"), ("example.com/v1", "Namespace"), ("v1", "Service")] {
        let said = check(&[("a.yaml", &rule(version, kind))], &["-f", "a.yaml"]);
        assert_eq!(said.code, 0, "{version} {kind}: {}", said.text);
    }
    // Every field that nobody knows, and not the first alone.
    let slips = "apiVersion: copyrator.dev/v1alpha1\nkind: CopyratorRule\nmetadata: {name: r, namespace: shop}\n\
                 spec: {source: {kind: Secret, name: a}, target: [{names: [b]}]}\n";
    let said = check(&[("a.yaml", slips)], &["-f", "a.yaml"]);
    for part in ["spec.source.name: ", "did you mean names?", "spec.target: ", "did you mean targets?"] {
        assert!(said.text.contains(part), "{part}: {}", said.text);
    }
    // An annotation that asks for nothing.
    let typo = config_map("web", "https://example.com")
        .replace("namespace: shop", "namespace: shop, annotations: {copyrator.dev/copy-too: shop}");
    let said = check(&[("a.yaml", &typo)], &["-f", "a.yaml"]);
    assert!(said.text.contains("did you mean copyrator.dev/copy-to?"), "{}", said.text);
}

#[test]
fn nothing_to_judge_is_a_mistake() {
    for text in ["", "---\n# nothing\n"] {
        let said = check(&[("-", text)], &["-f", "-"]);
        assert_eq!((said.code, &*said.text), (2, ""), "{}", said.notes);
    }
}
