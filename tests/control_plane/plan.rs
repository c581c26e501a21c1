//! A plan says what then happens, and touches nothing.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bed::objects::{annotation, config_map, data, namespace, ours, secret};
use crate::bed::{Story, eventually, peaceful, rough};

/// What a command said.
pub struct Said {
    pub code: Option<i32>,
    pub text: String,
    pub notes: String,
}

impl Said {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}{}", self.text, self.notes))
    }

    /// `namespace/name` of every copy with this action.
    fn copies(&self, action: &str) -> BTreeSet<String> {
        let plan = self.json();
        let copies = plan["copies"].as_array().into_iter().flatten().filter(|copy| copy["action"] == action);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        copies.map(|copy| format!("{}/{}", text(&copy["namespace"]), text(&copy["name"]))).collect()
    }
}

/// Runs `copyrator` as admin or, with a kubeconfig, as somebody else.
pub fn run(story: &Story<'_>, who: Option<&Path>, arguments: &[&str], input: &str) -> Said {
    let mut command = story.bed.testbed.copyrator(arguments);
    if let Some(kubeconfig) = who {
        command.env("KUBECONFIG", kubeconfig);
    }
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    // A command that does not read it may be gone already.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code(), text: text(&output.stdout), notes: text(&output.stderr) }
}

/// Plans for the story's home, with this rule from standard input.
fn plan_with(story: &Story<'_>, rule: &Value) -> Said {
    run(story, None, &["plan", "-n", &story.home, "-o", "json", "-f", "-"], &rule.to_string())
}

fn plan(story: &Story<'_>) -> Said {
    run(story, None, &["plan", "-n", &story.home], "")
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(|namespace| format!("{namespace}/app")).collect()
}

/// A ServiceAccount of home with these rights in all namespaces, by its kubeconfig.
pub fn account(story: &Story<'_>, name: &str, rules: Value) -> std::path::PathBuf {
    let home = &story.home;
    let admin = story.admin();
    let role = format!("{home}-{name}");
    admin.create(&json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": home, "name": name } })).ok();
    admin.create(&json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": role }, "rules": rules })).ok();
    admin
        .create(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": role },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "namespace": home, "name": name }],
        }))
        .ok();
    let cluster = story.bed.testbed.cluster();
    let output = cluster.kubectl().args(["create", "token", name, "--namespace", home]).output();
    let token = String::from_utf8(output.expect("kubectl runs").stdout).expect("a token is text");
    cluster.kubeconfig_with_token(&role, token.trim()).expect("the kubeconfig is written")
}

#[test]
fn what_is_planned_for_a_rule_is_what_happens_once_it_is_applied() {
    let story = Story::new(peaceful(), "foreseen");
    let (a, b, taken) = (story.target("a"), story.target("b"), story.target("taken"));
    let (legacy, refusing) = (story.target("legacy"), story.called("refusing"));
    let labels = data([("story", "foreseen"), ("copyrator.dev/copies", "refuse")]);
    story.admin().create(&namespace(&refusing, &labels)).ok();
    story.admin().create(&config_map(&taken, "app", [("theirs", "yes")])).ok();
    story.admin().create(&config_map(&story.home, "app", [("k", "v"), ("old", "x")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["excludeTargets"] = json!([legacy]);

    let planned = plan_with(&story, &rule);
    assert_eq!(planned.code, Some(1), "{}", planned.notes);
    assert_eq!(planned.copies("create"), set([&a, &b]), "{}", planned.text);
    assert_eq!(planned.copies("refuse"), set([&taken]), "{}", planned.text);
    assert_eq!(planned.json()["rules"][0]["authority"], "allowed", "{}", planned.text);
    assert!(planned.json()["rules"][0]["file"].as_str().is_some_and(|at| at.starts_with("-:")));
    let copy =
        planned.json()["copies"].as_array().unwrap().iter().find(|it| it["namespace"] == taken).cloned();
    assert_eq!(copy.expect("a row")["reason"], "Conflict");
    assert!(story.admin().get("CopyratorRule", &story.home, "rule").is_none(), "a plan has written");
    assert!(story.admin().get("ConfigMap", &a, "app").is_none(), "a plan has written");

    story.admin().create(&rule).ok();
    story.until("ConfigMap", &a, "app", [("k", "v"), ("old", "x")]);
    story.until("ConfigMap", &b, "app", [("k", "v"), ("old", "x")]);
    story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Conflict");
    assert!(story.admin().get("ConfigMap", &legacy, "app").is_none());
    story.admin().delete("ConfigMap", &taken, "app").ok();
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    let planned = plan(&story);
    assert_eq!(
        (planned.code, &*planned.text),
        (Some(0), "Nothing to do: 3 copies in order.\n"),
        "{}",
        planned.notes
    );

    // The same rule, changed: nothing of it is applied yet.
    rule["spec"]["excludeTargets"] = json!([legacy, b]);
    rule["spec"]["copy"] =
        json!({ "keys": { "exclude": ["old"] }, "labels": { "set": { "tier": "infra" } } });
    rule["spec"]["deletionGrace"] = "1h".into();
    let planned = plan_with(&story, &rule);
    assert_eq!(planned.copies("change"), set([&a, &taken]), "{}", planned.text);
    assert_eq!(planned.copies("remove"), set([&b]), "{}", planned.text);
    let first = &planned.json()["copies"][0];
    assert_eq!(first["changes"]["keysRemoved"], json!(["old"]), "{first}");
    assert_eq!(first["changes"]["labels"], json!(["tier"]), "{first}");
    let people = run(&story, None, &["plan", "-n", &story.home, "-f", "-"], &rule.to_string()).text;
    for line in [
        format!("  ~ ConfigMap {a}/app "),
        "keys: -old; labels: tier; annotations: copyrator.dev/on-removal".to_owned(),
        format!("rule {}/rule does not select namespace {b}\n", story.home),
        "2 to change, 1 to remove, 0 in order.\n".to_owned(),
    ] {
        assert!(people.contains(&line), "{line:?} is missing in:\n{people}");
    }
    assert!(!people.contains('\u{1b}'), "colour where nobody sees it: {people}");

    story.admin().apply(&rule).ok();
    story.until("ConfigMap", &a, "app", [("k", "v")]);
    let leaving = eventually("the copy that nobody wants is marked", || {
        let copy = story.admin().get("ConfigMap", &b, "app").ok_or("it is gone")?;
        annotation(&copy, "copyrator.dev/remove-after").map(str::to_owned).ok_or_else(|| copy.to_string())
    });
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    let planned = plan(&story);
    assert!(
        planned
            .text
            .contains(&format!("- ConfigMap {b}/app  marked for removal, will be deleted at {leaving}")),
        "{}",
        planned.text
    );
    assert!(
        planned.text.ends_with("1 to remove, 2 in order.\n") && planned.code == Some(1),
        "{}",
        planned.text
    );
}

/// What the reconciler finds when it starts is what a plan has said before: here while nobody reconciles.
#[test]
fn while_nobody_reconciles_the_plan_says_what_is_left_to_do() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "unattended");
    let targets = ["a", "b"].map(|part| story.target(part));
    story.admin().create(&secret(&story.home, "app", [("password", "hunter2"), ("user", "u")])).ok();
    story.admin().create(&story.rule("Secret", &["app"])).ok();
    for target in &targets {
        story.until("Secret", target, "app", [("password", "hunter2"), ("user", "u")]);
    }
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    crew.reconciler.kill();
    let late = story.target("late");
    story
        .admin()
        .merge("Secret", &story.home, "app", &json!({ "stringData": { "password": "swordfish" } }))
        .ok();
    let planned = plan(&story);
    assert_eq!(planned.code, Some(1), "{}", planned.notes);
    for target in &targets {
        let line = format!("  ~ Secret {target}/app ");
        assert!(planned.text.contains(&line), "{}", planned.text);
    }
    assert!(planned.text.contains("keys: ~password\n"), "{}", planned.text);
    assert!(planned.text.contains(&format!("  + Secret {late}/app ")), "{}", planned.text);
    assert!(planned.text.ends_with("1 to make, 2 to change, 0 in order.\n"), "{}", planned.text);
    assert!(!planned.text.contains("hunter2") && !planned.text.contains("swordfish"));

    let status = run(&story, None, &["status", "-n", &story.home], "");
    assert_eq!(status.code, Some(1), "{}", status.notes);
    let (missing, outdated) = (status.text.find("\nMissing "), status.text.find("\nOutdated "));
    assert!(missing.is_some() && missing < outdated, "the worst first: {}", status.text);

    let reconciler = bed.reconciler(0);
    for target in targets.iter().chain([&late]) {
        story.until("Secret", target, "app", [("password", "swordfish"), ("user", "u")]);
    }
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    assert_eq!(plan(&story).text, "Nothing to do: 3 copies in order.\n");
    reconciler.kill();
    crew.webhook.kill();
}

/// A user with every right leaves no write behind, whatever that user asks for.
#[test]
fn neither_plan_nor_status_writes_anything() {
    let story = Story::new(peaceful(), "readonly");
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let auditor = account(&story, "auditor", everything);
    story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let rule = story.rule("ConfigMap", &["app"]).to_string();
    let home = story.home.clone();
    let planned = eventually("the account may what its role says", || {
        let said = run(&story, Some(&auditor), &["plan", "-n", &home, "-f", "-"], &rule);
        if said.code == Some(1) && said.text.contains("1 to make") {
            Ok(said)
        } else {
            Err(said.text + &said.notes)
        }
    });
    assert!(planned.text.contains("acts as serviceaccount"), "{}", planned.text);
    story.deploy("web", &["app"]);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    story.until_adopted("web");
    let changed = config_map(&home, "app", [("k", "w")]).to_string();
    let said = run(&story, Some(&auditor), &["plan", "-n", &home, "-f", "-"], &changed);
    assert!(said.text.contains("  * Deployment readonly-home/web "), "{}{}", said.text, said.notes);
    run(&story, Some(&auditor), &["plan", "-A", "-o", "json"], "");
    run(&story, Some(&auditor), &["status", "-A"], "");
    let user = format!("system:serviceaccount:{home}:auditor");
    let seen = eventually("the audit log has its requests", || {
        let mut requests = story.bed.requests();
        requests.retain(|request| request.user == user);
        let listed: BTreeSet<_> =
            requests.iter().filter(|it| it.verb == "list").map(|it| it.resource.clone()).collect();
        if listed.contains("configmonitors") { Ok(requests) } else { Err(format!("{listed:?}")) }
    });
    let is_question = |resource: &str| resource.ends_with("reviews");
    let writes: Vec<_> = seen
        .iter()
        .filter(|it| !["get", "list"].contains(&&*it.verb) && !is_question(&it.resource))
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert!(story.admin().get("CopyratorRule", &story.home, "rule").is_none());
    story.until("ConfigMap", &home, "app", [("k", "v")]);
    assert_eq!(story.revisions("web"), 1, "a plan has restarted");
}

/// A user who may not read Secrets, and so not the key, plans for ConfigMaps by their content, and is told so.
#[test]
fn a_plan_without_the_key_compares_by_content_and_says_so() {
    let story = Story::new(peaceful(), "unverified");
    let target = story.target("a");
    let rights = json!([
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] },
        { "apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"] },
        { "apiGroups": ["copyrator.dev"], "resources": ["copyratorrules", "configmonitors"], "verbs": ["list"] },
    ]);
    let planner = account(&story, "planner", rights);
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    let mut of_secrets = story.rule("Secret", &["app"]);
    of_secrets["metadata"]["name"] = "of-secrets".into();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    let home = story.home.clone();
    let arguments = ["plan", "-n", &home];
    let said = eventually("the account may what its role says", || {
        let said = run(&story, Some(&planner), &arguments, "");
        if said.code == Some(0) { Ok(said) } else { Err(said.text + &said.notes) }
    });
    assert_eq!(said.text, "Nothing to do: 1 copy in order.\n");
    for part in
        ["cannot verify which objects are copies", "cannot show", "may not list secrets in all namespaces"]
    {
        assert!(said.notes.contains(part), "{part:?} is missing in: {}", said.notes);
    }

    let said = run(&story, Some(&planner), &["plan", "-n", &home, "-o", "json"], "");
    assert_eq!(said.json()["rules"][0]["authority"], "allowedByStatus", "it may not ask: {}", said.text);

    let mut labelled = story.rule("ConfigMap", &["app"]);
    labelled["spec"]["copy"] = json!({ "labels": { "set": { "tier": "infra" } } });
    let said =
        run(&story, Some(&planner), &["plan", "-n", &home, "-o", "json", "-f", "-"], &labelled.to_string());
    assert_eq!(said.copies("change"), set([&target]), "{}{}", said.text, said.notes);
    assert_eq!(said.json()["copies"][0]["changes"], json!({ "labels": ["tier"] }), "{}", said.text);
    assert_eq!(said.json()["verified"], false);

    // The planner may not read the source of this one: it would be refused, and the plan says so in the webhook's words.
    let said = run(&story, Some(&planner), &["plan", "-n", &home, "-f", "-"], &of_secrets.to_string());
    assert_eq!(said.code, Some(1));
    assert!(said.text.contains("  ! Forbidden: ") && said.text.contains("may not"), "{}", said.text);
    let refused = story.bed.account(&home, "planner").create(&of_secrets).refused();
    assert!(!refused.is_empty());

    // One that is there copies what the planner may not see: it is not known what would become of it, and nothing is removed.
    story.admin().create(&secret(&home, "app", [("k", "v")])).ok();
    story.admin().create(&of_secrets).ok();
    story.until("Secret", &target, "app", [("k", "v")]);
    let said = run(&story, Some(&planner), &arguments, "");
    assert_eq!(said.code, Some(1), "{}", said.text);
    assert!(said.text.contains("  ? Unread: "), "{}", said.text);

    // The planner may see all statuses, and of copies the same.
    let said = run(&story, Some(&planner), &["status", "-n", &home, "-o", "json"], "");
    let rows = said.json();
    let rule =
        rows["items"].as_array().unwrap().iter().find(|row| row["name"] == "rule").cloned().expect("a row");
    assert_eq!(rule["copies"][0]["state"], "Current", "{rule}");
}

#[test]
fn a_mistake_in_a_rule_or_file_is_named_with_its_place() {
    let story = Story::new(peaceful(), "mistaken");
    let arguments = ["plan", "-n", &story.home, "-f", "-"];
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["targets"][0]["namespaceSelectr"] = story.selector();
    let said = run(&story, None, &arguments, &rule.to_string());
    assert_eq!(said.code, Some(1), "{}", said.text);
    for part in ["from -:1", "! Invalid: ", "spec.targets[0].namespaceSelectr"] {
        assert!(said.text.contains(part), "{part:?} is missing in: {}", said.text);
    }
    let said = run(&story, None, &arguments, "kind: A\n---\nkind: B\nkind: C\n");
    assert_eq!((said.code, &*said.text), (Some(2), ""), "{}", said.notes);
    assert!(said.notes.contains("-:4: is not valid YAML"), "{}", said.notes);
    let said = run(&story, None, &["plan", "-f", "/nonexistent.yaml"], "");
    assert!(said.code == Some(2) && said.notes.contains("cannot read /nonexistent.yaml"), "{}", said.notes);

    // What is not planned with is not passed over in silence.
    let other = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "app" } });
    let said =
        run(&story, None, &arguments, &format!("---\n{other}\n---\n{}", story.rule("ConfigMap", &["none"])));
    assert!(said.notes.contains("-:2: v1 ServiceAccount app: left out"), "{}", said.notes);
    assert_eq!(said.code, Some(0), "a rule that finds nothing to copy: {}", said.text);
    assert!(said.text.contains("  . NoSource: "), "{}", said.text);
    let mut elsewhere = story.rule("ConfigMap", &["app"]);
    elsewhere["metadata"]["namespace"] = "mistaken-nowhere".into();
    let said = run(&story, None, &arguments, &elsewhere.to_string());
    assert!(said.text.contains("! NotFound: namespace mistaken-nowhere does not exist"), "{}", said.text);

    // Content that the API server would not take, and no value of it in the answer.
    let mut frozen = secret(&story.home, "frozen", [("k", "v")]);
    frozen["immutable"] = true.into();
    story.admin().create(&frozen).ok();
    let mut no_text = config_map(&story.home, "no-text", []);
    no_text["data"] = json!({ "k": 4711 });
    for (object, expected) in [
        (
            no_text,
            "! ConfigMap mistaken-home/no-text  Invalid: key k: data has a number there, and takes text only; put it in quotes; from -:1",
        ),
        (
            secret(&story.home, "frozen", [("k", "hunter2")]),
            "! Secret mistaken-home/frozen  Immutable: it is immutable",
        ),
        (
            config_map("mistaken-nowhere", "app", [("k", "v")]),
            "NotFound: namespace mistaken-nowhere does not exist",
        ),
    ] {
        let said = run(&story, None, &arguments, &object.to_string());
        assert!(
            said.code == Some(1) && said.text.contains(expected),
            "{expected}: {}{}",
            said.text,
            said.notes
        );
        let all = said.text + &said.notes;
        assert!(!all.contains("4711") && !all.contains("hunter2") && !all.contains("aHVudGVyMg"), "{all}");
    }
}

/// A copy is changed at its source.
#[test]
fn a_file_that_would_change_a_copy_is_refused_with_its_source() {
    let story = Story::new(peaceful(), "copy-in-a-file");
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    let edited = config_map(&target, "app", [("k", "w")]);
    let said = run(&story, None, &["plan", "-n", &target, "-f", "-"], &edited.to_string());
    let expected = format!("Copy: it is a copy: change its source {}/app instead", story.home);
    assert!(said.code == Some(1) && said.text.contains(&expected), "{}{}", said.text, said.notes);
}

#[test]
fn a_cluster_that_does_not_answer_is_exit_code_three() {
    let story = Story::new(peaceful(), "unanswered");
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("config");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n";
    std::fs::write(&kubeconfig, text).expect("it is written");
    let said = run(&story, Some(&kubeconfig), &["plan"], "");
    assert_eq!((said.code, &*said.text), (Some(3), ""), "{}", said.notes);
    assert!(said.notes.contains("copyrator: cannot "), "{}", said.notes);
    let said = run(&story, None, &["plan", "--kubeconfig", "/nonexistent"], "");
    assert_eq!(said.code, Some(3), "{}", said.notes);
}

/// A rule is suspended, forbidden, or not understood: the plan says so of the rule, not a thousand times.
#[test]
fn a_rule_that_is_held_back_is_said_to_be_once() {
    let story = Story::new(peaceful(), "held-back");
    let targets = ["a", "b", "c"].map(|part| story.target(part));
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["suspend"] = true.into();
    story.admin().create(&rule).ok();
    let mut orphan = story.rule("ConfigMap", &["app"]);
    orphan["metadata"]["name"] = "orphan".into();
    orphan["spec"]["serviceAccountName"] = "missing".into();
    orphan["spec"]["copy"] = json!({ "name": "other" });
    story.admin().create(&orphan).ok();
    let said = plan(&story);
    assert_eq!(said.code, Some(1), "{}", said.text);
    assert_eq!(said.text.matches("missing\" may not").count(), 1, "{}", said.text);
    assert_eq!(said.text.matches("  ! 3 copies affected by this").count(), 1, "{}", said.text);
    assert_eq!(said.text.matches("  . 3 copies affected by this").count(), 1, "{}", said.text);
    let wide = run(&story, None, &["status", "-n", &story.home, "-o", "wide"], "").text;
    for target in &targets {
        assert!(wide.contains(&format!("Waiting   ConfigMap {target}/app ")), "{wide}");
    }
    let spec =
        json!({ "source": { "kind": "ConfigMap", "names": ["app"] }, "targets": [{ "names": targets }] });
    let said = plan_with(&story, &ours("CopyratorRule", &story.home, "second", spec));
    assert_eq!(said.copies("create").len(), 3, "a suspended rule takes no free slot: {}", said.text);
}
