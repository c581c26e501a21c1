//! What people ask of a cluster: what there is, why, why not, and whether it is as declared.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::bed::objects::{binding, config_map, ours, secret};
use crate::bed::{Story, eventually, peaceful};
use crate::plan::run;

/// A source, its copies in two namespaces, and a Deployment that restarts for the one at home.
fn chain(story: &Story<'_>) -> (String, String) {
    let (source, other) = (story.bystander("source"), story.bystander("other"));
    let spec = json!({ "source": { "kind": "ConfigMap", "names": ["app"] }, "targets": [{ "names": [story.home, other] }] });
    story.admin().create(&config_map(&source, "app", [("k", "1")])).ok();
    story.admin().create(&ours("CopyratorRule", &source, "apps", spec)).ok();
    story.until("ConfigMap", &story.home, "app", [("k", "1")]);
    story.until("ConfigMap", &other, "app", [("k", "1")]);
    story.deploy("web", &["app"]);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    story.until_adopted("web");
    (source, other)
}

#[test]
fn a_tree_leads_from_the_source_to_what_restarts() {
    let story = Story::new(peaceful(), "treeing");
    let (source, other) = chain(&story);
    let home = &story.home;
    let said = run(&story, None, &["tree", "cm/app", "-n", &source, "-q"], "");
    let expected = format!(
        "ConfigMap {source}/app\n├── ConfigMap {home}/app, by {source}/apps\n│   └── Deployment {home}/web\n└── ConfigMap {other}/app, by {source}/apps\n"
    );
    assert_eq!((said.code, said.text.as_str()), (Some(0), expected.as_str()), "{}", said.notes);
    // From the copy's side its own branch, for machines too.
    let said = run(&story, None, &["tree", "cm/app", "-n", &other, "-o", "json"], "");
    let tree = said.json();
    assert_eq!((&tree["apiVersion"], &tree["kind"]), (&json!("cli.copyrator.dev/v1alpha1"), &json!("Tree")));
    let copies = tree["roots"][0]["children"].as_array().expect("copies");
    assert_eq!(copies.iter().map(|copy| &copy["namespace"]).collect::<Vec<_>>(), [&json!(other)], "{tree}");
    let said = run(&story, None, &["tree", "cm/nothing", "-n", home], "");
    assert_eq!(said.code, Some(1));
    assert!(said.notes.contains(&format!("there is no ConfigMap {home}/nothing")), "{}", said.notes);
}

#[test]
fn why_says_whose_an_object_is_and_what_hangs_on_it() {
    let story = Story::new(peaceful(), "whying");
    let (source, _) = chain(&story);
    let home = &story.home;
    let said = run(&story, None, &["why", "configmap/app", "-n", home], "");
    assert_eq!(said.code, Some(0), "{}", said.notes);
    // Columns are as wide as they must be.
    let squeezed = said.text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n");
    let squeezed: String = squeezed.collect();
    for part in [
        format!("copy of ConfigMap {source}/app, made by rule {source}/apps\n"),
        "the rule has the RBAC rights of user admin; admin wrote its spec".to_owned(),
        "state in order".to_owned(),
        format!("restarts Deployment {home}/web, asked by ConfigMonitor monitor"),
    ] {
        assert!(squeezed.contains(&part), "{part:?} is missing in: {}", said.text);
    }
    // The digest is the one on the copy.
    let copy = story.admin().get("ConfigMap", home, "app").expect("the copy");
    let json = run(&story, None, &["why", "cm/app", "-n", home, "-o", "json"], "").json();
    assert_eq!(
        json["madeBy"][0]["digest"], copy["metadata"]["annotations"]["copyrator.dev/digest"],
        "{json}"
    );
    let names = run(&story, None, &["why", "cm/app", "-n", home, "-o", "name"], "");
    assert_eq!(names.text, "deployment.apps/web\n");
    let workload = run(&story, None, &["why", "deploy/web", "-n", home], "").text;
    assert!(
        workload.contains(&format!("ConfigMap app, a copy of {source}/app: a change restarts")),
        "{workload}"
    );
}

#[test]
fn why_not_says_what_keeps_copies_away_and_nothing_once_they_are_there() {
    let story = Story::new(peaceful(), "whynot");
    let (home, lacking) = (story.home.clone(), story.bystander("lacking"));
    story.admin().create(&secret(&home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("Secret", &["app"])).ok();
    let rule = format!("{home}/rule");
    let asked = || run(&story, None, &["why-not", &lacking, "--rule", &rule, "-q"], "");
    let said = asked();
    assert_eq!(said.code, Some(1), "{}", said.notes);
    assert!(said.text.contains("NotATarget") && said.text.contains("story=whynot"), "{}", said.text);
    // What it names is what is to be done.
    let labels = json!({ "metadata": { "labels": { "story": "whynot" } } });
    story.admin().merge("Namespace", "", &lacking, &labels).ok();
    story.until("Secret", &lacking, "app", [("k", "v")]);
    let said = asked();
    assert_eq!(said.code, Some(0), "{}", said.text);
    let json = run(&story, None, &["why-not", &lacking, "--rule", &rule, "-o", "json"], "").json();
    assert_eq!(
        (&json["items"][0]["brings"], &json["items"][0]["copies"]),
        (&json!(true), &json!(1)),
        "{json}"
    );
    let said = run(&story, None, &["why-not", "whynot-nowhere", "--rule", &rule], "");
    assert!(said.code == Some(1) && said.text.contains("NotFound"), "{}", said.text);
}

#[test]
fn status_waits_for_what_is_declared_and_says_what_is_missing() {
    let story = Story::new(peaceful(), "awaited");
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&config_map(&target, "app", [("k", "foreign")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Conflict");
    let waits = ["status", "-n", &story.home, "--wait", "--timeout", "1s"];
    let said = run(&story, None, &waits, "");
    assert_eq!(said.code, Some(1), "{}", said.notes);
    let missing = format!("ConfigMap {target}/app: Blocked, Conflict");
    assert!(said.notes.contains("after 1s") && said.notes.contains(&missing), "{}", said.notes);
    assert!(!said.text.contains("waiting for"), "what is missing is no data: {}", said.text);
    let said = run(&story, None, &["status", "-n", "awaited-nowhere"], "");
    assert_eq!(said.code, Some(1), "{}", said.text);
    assert!(said.notes.contains("namespace awaited-nowhere does not exist"), "{}", said.notes);

    let arguments = ["status", "-n", &story.home, "--wait", "--timeout", "400s"];
    let mut command = story.bed.testbed.copyrator(&arguments);
    let mut waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    story.admin().delete("ConfigMap", &target, "app").ok();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    let code = eventually("the wait ends", || {
        let ended = waiting.try_wait().expect("it can be asked");
        ended.map(|ended| ended.code()).ok_or_else(|| "it waits".to_owned())
    });
    let said = waiting.wait_with_output().expect("it has ended");
    assert_eq!(
        code,
        Some(0),
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
}

/// As in the article that began with a list of nodes, namespaces, deployments and services.
#[test]
fn get_lists_what_the_api_server_lists() {
    let story = Story::new(peaceful(), "listed");
    let home = &story.home;
    let node = "listed-node";
    // It goes at the end: no pod of another story is to be on it.
    story.admin().create(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node, "labels": { "story": "listed" } }, "spec": { "unschedulable": true } })).ok();
    story.admin().create(&config_map(home, "app", [("k", "v")])).ok();
    story.deploy("web", &["app"]);
    let nodes = run(&story, None, &["get", "nodes", "-l", "story=listed"], "");
    assert_eq!(nodes.code, Some(0), "{}", nodes.notes);
    let lines: Vec<&str> = nodes.text.lines().collect();
    assert!(
        matches!(lines[..], [header, row] if header.starts_with("NAME") && row.starts_with(node)),
        "{lines:?}"
    );
    let deployments = run(&story, None, &["get", "deployments", "-n", home], "");
    assert!(
        deployments.text.starts_with("NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    1/1 "),
        "{}",
        deployments.text
    );
    let wide = run(&story, None, &["get", "deploy", "-n", home, "-o", "wide"], "").text;
    assert!(wide.contains("SELECTOR") && wide.contains("app=web"), "{wide}");
    let list = run(&story, None, &["get", "deployments", "-n", home, "-o", "json"], "").json();
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("List"), &json!("Deployment")), "{list}");
    let all = run(&story, None, &["get", "deployments", "-A"], "").text;
    assert!(all.starts_with("NAMESPACE ") && all.contains(&format!("{home} ")), "{all}");
    let namespaces = run(&story, None, &["get", "namespaces", "-o", "name"], "").text;
    assert!(namespaces.lines().any(|line| line == format!("namespace/{home}")), "{namespaces}");
    let services = run(&story, None, &["get", "services", "-n", home], "");
    assert_eq!((services.code, services.text.as_str()), (Some(0), ""), "{}", services.notes);
    assert!(services.notes.contains(&format!("no services found in namespace {home}")), "{}", services.notes);
    let refused = run(&story, None, &["get", "nodes", "--as", "alice", "--as-group", "people"], "");
    assert_eq!(refused.code, Some(1), "{}", refused.text);
    assert!(refused.notes.contains("\"alice\""), "{}", refused.notes);
    story.admin().delete("Node", "", node).ok();
}

#[test]
fn labels_choose_what_is_shown() {
    let story = Story::new(peaceful(), "by-label");
    let target = story.target("a");
    for (name, team) in [("one", "blue"), ("two", "red")] {
        story.admin().create(&config_map(&story.home, name, [("k", "v")])).ok();
        let spec =
            json!({ "source": { "kind": "ConfigMap", "names": [name] }, "targets": [{ "names": [target] }] });
        let mut rule = ours("CopyratorRule", &story.home, name, spec);
        rule["metadata"]["labels"] = json!({ "team": team });
        story.admin().create(&rule).ok();
        story.until("ConfigMap", &target, name, [("k", "v")]);
    }
    let home = &story.home;
    let names = |value: &Value, list: &str| -> Vec<String> {
        let rows = value[list].as_array().into_iter().flatten();
        rows.filter_map(|row| Some(row["name"].as_str()?.to_owned())).collect()
    };
    let shown = eventually("both rules say how they are", || {
        let status = run(&story, None, &["status", "-n", home, "-l", "team=blue", "-o", "json"], "");
        if status.code == Some(0) { Ok(status.json()) } else { Err(status.text + &status.notes) }
    });
    assert_eq!(names(&shown, "items"), ["one"], "{shown}");
    let plan = run(&story, None, &["plan", "-n", home, "-l", "team!=blue", "-o", "json"], "").json();
    assert_eq!(names(&plan, "rules"), ["two"], "{plan}");
    assert_eq!(plan["summary"]["current"], 1, "{plan}");
    // Only the shape of what changes is a matter of taste: it stays no finding, if so asked.
    story.admin().merge("ConfigMap", home, "one", &json!({ "metadata": { "labels": { "a": "b" } } })).ok();
    let new = ours(
        "CopyratorRule",
        home,
        "three",
        json!({ "source": { "kind": "ConfigMap", "names": ["one"] },
        "targets": [{ "names": [target] }], "copy": { "name": "three" } }),
    );
    let asked = |exit: &str| run(&story, None, &["plan", "-n", home, "-f", "-", exit], &new.to_string());
    assert_eq!(asked("--exit-code=true").code, Some(1));
    assert_eq!(asked("--exit-code=false").code, Some(0));
}

/// As people type it: kubectl finds the program by its name, and asks it for the next word.
#[test]
fn kubectl_runs_and_completes_its_plugin() {
    let story = Story::new(peaceful(), "plugged");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("control_plane/plugin");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    for name in ["kubectl-copyrator", "kubectl_complete-copyrator"] {
        std::fs::remove_file(folder.join(name)).ok();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_copyrator"), folder.join(name)).expect("a link");
    }
    let cluster = story.bed.testbed.cluster();
    let kubectl = |arguments: &[&str]| {
        let mut command = std::process::Command::new(cluster.kubectl().get_program());
        command.args(arguments).env("PATH", &folder).env("KUBECONFIG", cluster.admin_kubeconfig());
        let output = command.output().expect("kubectl runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, listed, said) = kubectl(&["copyrator", "get", "namespaces", "-o", "name"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(listed.lines().any(|line| line == format!("namespace/{}", story.home)), "{listed}");
    // Exit codes come through.
    let (code, _, said) = kubectl(&["copyrator", "why", "secret/none", "-n", &story.home]);
    assert_eq!(code, Some(1), "{said}");
    let (_, help, _) = kubectl(&["copyrator", "plan", "--help"]);
    assert!(help.contains("Usage: kubectl copyrator plan"), "{help}");
    let (_, words, said) = kubectl(&["__complete", "copyrator", "why"]);
    let words: Vec<&str> = words.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect();
    assert_eq!(words, ["why", "why-not", ":4"], "{said}");
    let (_, names, said) = kubectl(&["__complete", "copyrator", "plan", "-n", "plugged-"]);
    assert_eq!(names.lines().collect::<Vec<_>>(), [story.home.as_str(), ":4"], "{said}");
}

/// Of one namespace nobody needs more rights than in it. What is elsewhere is said to be out of sight, and neither guessed
/// nor missed.
#[test]
fn a_user_with_edit_in_one_namespace_asks_about_it() {
    let story = Story::new(peaceful(), "tenant");
    let (_, other) = chain(&story);
    let home = &*story.home;
    story.admin().create(&config_map(home, "own", [("k", "1")])).ok();
    let own =
        json!({ "source": { "kind": "ConfigMap", "names": ["own"] }, "targets": [{ "names": [other] }] });
    story.admin().create(&ours("CopyratorRule", home, "own", own)).ok();
    story.until("ConfigMap", &other, "own", [("k", "1")]);
    story.until_condition("CopyratorRule", "own", "Ready", "True", "AllCopied");
    story.admin().create(&binding(home, "bob", "edit")).ok();
    let bob = story.bed.testbed.cluster().user("bob").expect("a user of the cluster");
    let ask = |arguments: &[&str]| run(&story, Some(&bob), arguments, "");
    eventually("bob's rights are known, and the monitor says how it is", || {
        let said = ask(&["status", "-n", home]);
        if said.code == Some(0) { Ok(()) } else { Err(said.text + &said.notes) }
    });

    for arguments in [
        &["status", "-n", home][..],
        &["why", "cm/app", "-n", home],
        &["why", "deploy/web", "-n", home],
        &["tree", "-n", home],
        &["tree", "cm/app", "-n", home],
    ] {
        let said = ask(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {}{}", said.text, said.notes);
        assert!(said.notes.contains(&format!("this output covers only namespace {home}")), "{}", said.notes);
        assert!(!said.notes.contains("may not list"), "{arguments:?}: {}", said.notes);
    }
    let said = ask(&["why-not", home]);
    assert_eq!(said.code, Some(1), "{}{}", said.text, said.notes);
    assert!(said.text.contains(&format!("{home}/own")) && said.text.contains("NotATarget"), "{}", said.text);
    assert!(said.notes.contains(&format!("this output covers only namespace {home}")), "{}", said.notes);
    assert!(!said.notes.contains("may not list"), "{}", said.notes);
    let said = ask(&["plan", "-n", home]);
    assert!(said.text.contains("OutOfSight"), "{}{}", said.text, said.notes);
}
