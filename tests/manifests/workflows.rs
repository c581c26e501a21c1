//! The workflows of the forge hold no more rights than they use, and run what was looked at: pinned actions, our own scripts.

use std::{fs, os::unix::fs::PermissionsExt as _};

use regex::Regex;
use serde_json::Value;

use crate::{documents, files, path};

const FOLDER: &str = ".github/workflows";

/// What may start a workflow: nothing by which a stranger's code meets rights of ours (pull_request_target, workflow_run), or
/// that stranger's words a command (issue_comment).
const TRIGGERS: [&str; 2] = ["push", "pull_request"];

/// The rights to write that jobs may have: those that publish, and the one that signs. Of dependencies' code they run crane, helm
/// and cosign alone, which they build from modules that a go.sum pins, beside the forge's own actions.
const WRITERS: [(&str, &str); 5] = [
    ("publish", "packages"),
    ("sign", "packages"),
    ("sign", "id-token"),
    ("sign", "attestations"),
    ("announce", "contents"),
];

#[test]
fn workflows_hold_few_rights_and_run_what_was_looked_at() {
    let workflows = files(FOLDER);
    let names: Vec<&str> = workflows.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ci.yml", "release.yml"]);
    let findings: Vec<String> = workflows.iter().flat_map(|(name, text)| findings(name, text)).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn nothing_is_published_that_is_not_tested() {
    let release = workflow("release.yml");
    assert_eq!(release["on"]["push"]["tags"], serde_json::json!(["v*"]));
    assert_eq!(release["jobs"]["publish"]["needs"], serde_json::json!(["test", "node", "build"]));
    assert_eq!(release["jobs"]["sign"]["needs"], "publish");
    assert_eq!(release["jobs"]["announce"]["needs"], "sign");
    for job in ["test", "node", "build"] {
        assert_eq!(release["jobs"][job]["needs"], "version", "{job}");
    }
    // Real pods need root, which .ci/run has not there: without it that test is skipped, and `make node` fails.
    let root = r#"sudo -E env "PATH=$PATH" "HOME=$HOME" make node PROFILE=dev"#;
    for (name, expected) in [("test", ".ci/run"), ("node", root)] {
        for file in ["release.yml", "ci.yml"] {
            let job = &workflow(file)["jobs"][name];
            assert!(runs(job).any(|run| run == expected), "{file}: {name} does not run {expected}");
        }
    }
}

/// What is signed is what was pushed, by the digests that pushing it told: of the image's index and of the chart.
#[test]
fn what_is_signed_is_what_was_pushed() {
    let release = workflow("release.yml");
    let (publish, sign) = (&release["jobs"]["publish"], &release["jobs"]["sign"]);
    let is_signing =
        |step: &&Value| step["run"].as_str().is_some_and(|run| run.starts_with("release/sign.sh"));
    let signing = steps(sign).find(is_signing).expect("the job sign signs");
    assert_eq!(signing["run"], r#"release/sign.sh "$PUBLISHED_IMAGE" "$PUBLISHED_CHART""#);
    for (name, part) in [("PUBLISHED_IMAGE", "image"), ("PUBLISHED_CHART", "chart")] {
        let of = |what: &str| format!("${{{{ needs.publish.outputs.{what} }}}}");
        assert_eq!(signing["env"][name], format!("{}@{}", of(part), of(&format!("{part}_digest"))));
    }
    let script = fs::read_to_string(path("release/publish.sh")).unwrap();
    let outputs = publish["outputs"].as_object().expect("what was pushed");
    for (name, value) in outputs {
        assert_eq!(value, &format!("${{{{ steps.push.outputs.{name} }}}}"));
        let said = match name.as_str() {
            "amd64_digest" | "arm64_digest" => r"printf '%s_digest=%s\n'".to_owned(),
            _ => format!(" {name} \"$"),
        };
        assert!(script.contains(&said), "release/publish.sh does not say {name}");
    }
    let used = Regex::new(r"needs\.publish\.outputs\.([a-z0-9_]+)").unwrap();
    let text = sign.to_string();
    let used: Vec<&str> = used.captures_iter(&text).map(|found| found.get(1).unwrap().as_str()).collect();
    assert!(used.len() > 5 && used.iter().all(|name| outputs.contains_key(*name)), "{used:?}");
}

fn workflow(name: &str) -> Value {
    let text = fs::read_to_string(path(FOLDER).join(name)).unwrap();
    documents(name, &text).remove(0)
}

fn steps(job: &Value) -> impl Iterator<Item = &Value> {
    job["steps"].as_array().into_iter().flatten()
}

fn runs(job: &Value) -> impl Iterator<Item = &str> {
    steps(job).filter_map(|step| step["run"].as_str())
}

/// Everything that is wrong with one.
fn findings(name: &str, text: &str) -> Vec<String> {
    let workflow = documents(name, text).remove(0);
    let mut findings = Vec::new();
    let mut find = |what: String| findings.push(format!("{FOLDER}/{name}: {what}"));

    let pinned =
        Regex::new(r"^\s*(- )?uses: [a-z-]+/[a-z-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$").unwrap();
    for line in text.lines().filter(|line| line.contains("uses:") && !pinned.is_match(line)) {
        find(format!("{}: pin the commit, and name its version behind it", line.trim()));
    }
    match workflow["on"].as_object() {
        Some(on) => {
            on.keys()
                .filter(|key| !TRIGGERS.contains(&key.as_str()))
                .for_each(|key| find(format!("is started by {key}")));
        }
        None => find("`on` is not a map of triggers".to_owned()),
    }
    if workflow["permissions"] != serde_json::json!({}) {
        find("`permissions: {}` is missing on top".to_owned());
    }
    if workflow["concurrency"]["group"].as_str().is_none() {
        find("has no concurrency group".to_owned());
    }
    if text.contains("secrets.") {
        find("reads a secret: everything here works with the run's own token".to_owned());
    }
    for (key, job) in workflow["jobs"].as_object().into_iter().flatten() {
        job_findings(key, job).into_iter().for_each(&mut find);
    }
    findings
}

fn job_findings(key: &str, job: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    let mut find = |what: String| findings.push(format!("{key}: {what}"));
    match job["permissions"].as_object() {
        None => find("says no permissions".to_owned()),
        Some(permissions) => {
            for (right, level) in permissions {
                if level != "read" && !WRITERS.contains(&(key, right.as_str())) {
                    find(format!("may {right}: {level}"));
                }
            }
        }
    }
    if job["timeout-minutes"].as_u64().is_none_or(|minutes| minutes > 150) {
        find("has no timeout of at most 150 minutes".to_owned());
    }
    let runners = job["strategy"]["matrix"]["include"].as_array().into_iter().flatten();
    for runner in runners.map(|one| &one["runner"]).chain([&job["runs-on"]]) {
        if runner.as_str().is_none_or(|runner| runner.contains("latest")) {
            find(format!("runs on {runner}, which changes by itself"));
        }
    }
    let has_history = |step: &Value| step["with"]["fetch-depth"] == 0;
    if runs(job).any(|run| run == ".ci/run") && !steps(job).any(has_history) {
        find("its tests skip the upgrade, for want of history: fetch-depth: 0".to_owned());
    }
    for step in steps(job) {
        let is_checkout = step["uses"].as_str().is_some_and(|uses| uses.starts_with("actions/checkout@"));
        if is_checkout && step["with"]["persist-credentials"] != false {
            find(
                "the checkout keeps the token where any step finds it: persist-credentials: false".to_owned(),
            );
        }
    }
    for run in runs(job) {
        if run.contains("${{") {
            find(format!("`{run}`: an expression becomes part of a command: pass it in `env`"));
        }
        called(run).into_iter().for_each(&mut find);
    }
    findings
}

/// What a command calls of ours that is not there.
fn called(run: &str) -> Vec<String> {
    let script = Regex::new(r"(?:release|image|\.ci)/[a-z-]+(?:\.sh)?").unwrap();
    let target = Regex::new(r"\bmake ([a-z-]+)").unwrap();
    let makefile = fs::read_to_string(path("Makefile")).unwrap();
    let is_executable = |script: &str| {
        fs::metadata(path(script)).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let scripts = script.find_iter(run).map(|found| found.as_str()).filter(|script| !is_executable(script));
    let targets = target.captures_iter(run).map(|found| found[1].to_owned());
    let targets = targets.filter(|target| !makefile.contains(&format!("\n{target}:")));
    scripts
        .map(|script| format!("{script} is no program here"))
        .chain(targets.map(|target| format!("the Makefile has no {target}")))
        .collect()
}

/// Each rule, broken once.
#[test]
fn each_rule_about_workflows_can_be_broken() {
    let sound = fs::read_to_string(path(FOLDER).join("ci.yml")).unwrap();
    assert!(findings("ci.yml", &sound).is_empty());
    let broken = [
        ("@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2", "@v6", "pin the commit"),
        ("5447ce83dd # v6.0.2", "5447ce83dd", "name its version"),
        ("  pull_request:\n", "  pull_request_target:\n", "is started by pull_request_target"),
        ("\npermissions: {}\n", "\npermissions: read-all\n", "`permissions: {}` is missing"),
        ("contents: read", "contents: write", "may contents: \"write\""),
        ("    permissions:\n      contents: read # the checkout\n", "", "says no permissions"),
        ("persist-credentials: false", "persist-credentials: true", "keeps the token"),
        ("fetch-depth: 0", "fetch-depth: 1", "for want of history"),
        ("    timeout-minutes: 150\n", "", "has no timeout"),
        ("runs-on: ubuntu-24.04", "runs-on: ubuntu-latest", "which changes by itself"),
        ("run: .ci/run", "run: .ci/run ${{ github.head_ref }}", "becomes part of a command"),
        ("run: .ci/run", "run: release/missing.sh", "release/missing.sh is no program here"),
        ("make release-dry-run", "make release-wet-run", "the Makefile has no release-wet-run"),
        ("run: .ci/run", "env: {A: \"${{ secrets.TOKEN }}\"}\n        run: .ci/run", "reads a secret"),
        ("  group: ci-${{ github.ref }}\n", "", "has no concurrency group"),
    ];
    for (from, to, expected) in broken {
        let text = sound.replacen(from, to, 1);
        assert_ne!(text, sound, "{from:?} is not in ci.yml: correct this test");
        let findings = findings("ci.yml", &text);
        assert!(
            findings.iter().any(|finding| finding.contains(expected)),
            "{from:?} to {to:?}: {findings:?}"
        );
    }
}
