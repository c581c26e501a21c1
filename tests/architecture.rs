//! The invariants of ARCHITECTURE.md that reading the source can enforce. Each failure names the file, the line,
//! the invariant and what to do.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by failing")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/promised_tests.rs"]
mod promised_tests;
#[path = "architecture/rooms.rs"]
mod rooms;
#[path = "architecture/test_files.rs"]
mod test_files;
#[path = "architecture/words.rs"]
mod words;

/// One source file, without its unit tests.
struct Source {
    /// From the top of the repository.
    path: String,
    /// With comments blanked and unit tests cut off.
    code: String,
    lines: usize,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.path() {
            path if path.is_dir() => files(&path, found),
            path if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            _ => {}
        }
    }
}

fn sources(folders: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    folders.iter().for_each(|folder| files(&root().join(folder), &mut found));
    found.sort();
    let sources: Vec<Source> = found.iter().map(|path| read(path)).collect();
    assert!(!sources.is_empty(), "no source in {folders:?}: this test looks in the wrong place");
    sources
}

static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^[ \t]*//.*$|[ \t]//\s.*$").unwrap());
static TESTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^#\[cfg\(test\)\]\s*\nmod \w+ \{").unwrap());

fn read(path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap();
    let code = TESTS.find(&text).map_or(text.as_str(), |found| &text[..found.start()]);
    Source {
        path: path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/"),
        code: COMMENT.replace_all(code, "").into_owned(),
        lines: text.lines().count(),
    }
}

/// The source folders of the crates that form the product.
const CRATES: [&str; 10] = [
    "cel/src",
    "certs-tool/src",
    "cli/src",
    "cluster/src",
    "console/src",
    "core/src",
    "import/src",
    "operator/src",
    "serve/src",
    "src",
];

/// Product code without files of unit tests, and without the tool for certificates.
fn product() -> Vec<Source> {
    let mut sources = sources(&CRATES);
    sources.retain(|source| !source.path.starts_with("certs-tool/"));
    sources.retain(|source| !source.path.ends_with("/tests.rs") && !source.path.contains("/tests/"));
    sources
}

/// Fails with a line a finding.
fn assert_none(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Where the pattern occurs in the sources, but for the excepted paths.
fn forbidden(
    sources: &[Source],
    excepted: &[&str],
    pattern: &str,
    invariant: &str,
    todo: &str,
) -> Vec<String> {
    let pattern = Regex::new(pattern).unwrap();
    let mut findings = Vec::new();
    for source in sources {
        if excepted.iter().any(|prefix| source.path.starts_with(prefix)) {
            continue;
        }
        for (number, line) in source.code.lines().enumerate() {
            if let Some(found) = pattern.find(line) {
                let (path, number, found) = (&source.path, number + 1, found.as_str().trim());
                findings.push(format!("{path}:{number}: `{found}`: {invariant}; {todo}"));
            }
        }
    }
    findings
}

/// Every write of kube's client takes one of these types, and a raw request names its method.
const WRITES: &str = r"\b(PatchParams|PostParams|DeleteParams|EvictParams|Patch::(Apply|Merge|Json|Strategic)|Method::(POST|PUT|PATCH|DELETE))\b";

#[test]
fn only_act_and_the_lease_write_to_the_api_server() {
    // A SubjectAccessReview is a question, asked in the form of a creation; the client that cannot write lets it through.
    let excepted = [
        "operator/src/act/",
        "operator/src/run/lease",
        "cluster/src/access/ask.rs",
        "cluster/src/connect/read_only.rs",
        // The API server stores nothing of a dry run (`dry_runs_store_nothing`).
        "cluster/src/dry_run/canary.rs",
        "cluster/src/dry_run/copies.rs",
        // A person's own writes, with the person's credentials.
        "console/src/as_caller.rs",
    ];
    assert_none(forbidden(
        &product(),
        &excepted,
        WRITES,
        "invariant 1: only act/ (and the lease) writes to the API server",
        "return an action from plan/ and carry it out in act/",
    ));
}

#[test]
fn dry_runs_store_nothing() {
    let parameters = Regex::new(r"(?s)\b(?:Post|Patch)Params \{.*?\}").unwrap();
    let direct = Regex::new(r"&(?:Post|Patch|Delete)Params::").unwrap();
    let mut count = 0;
    for file in ["canary", "copies"].map(|name| format!("cluster/src/dry_run/{name}.rs")) {
        let source = read(&root().join(&file));
        assert!(!direct.is_match(&source.code), "{file}: name dry_run: true in the parameters");
        for found in parameters.find_iter(&source.code) {
            count += 1;
            assert!(
                found.as_str().contains("dry_run: true"),
                "{file}: a write in a dry run: {}",
                found.as_str()
            );
        }
    }
    assert!(count >= 2, "only {count} dry runs: this test looks in the wrong place");
}

/// A second asker would be a second rule of when to write. A plain client refuses to write (`cluster/src/connect/read_only.rs`); the one that
/// writes goes to the Writer and the lease, to `keys.rs`, which makes the first digest key without the lease, to `report.rs`, whose
/// Events tell what was done just before the lease was lost, and to `as_caller.rs`, which sends what a person asks the console for.
#[test]
fn only_the_writer_asks_whether_we_lead_and_has_the_client_to_write_by() {
    let (invariant, todo) = (
        "invariant 5: act/writer.rs asks immediately before each request",
        "send the request through a Writer",
    );
    let asks = r"\b(LeaderCheck|dyn IsLeader)\b|\bleade?r?\.(is_leader|check)\(";
    let beside = &["operator/src/act/leader.rs", "operator/src/act/writer.rs", "operator/src/run/lease"];
    assert_none(forbidden(&product(), beside, asks, invariant, todo));
    let writes = r"\bWriteClient\b|\bClient::try_(default|from)\b";
    let written = ["writer", "keys", "report"].map(|name| format!("operator/src/act/{name}.rs"));
    let mut written: Vec<&str> = written.iter().map(String::as_str).collect();
    written.extend([
        "cluster/src/connect/",
        "console/src/as_caller.rs",
        "operator/src/run/lease",
        "operator/src/run/serve.rs",
        "src/lib.rs",
    ]);
    assert_none(forbidden(&product(), &written, writes, invariant, todo));
}

/// Else what a test misspells is dropped, and it tests something else.
#[test]
fn stories_write_by_clients_that_have_unknown_fields_refused() {
    let written = sources(&[
        "tests/control_plane",
        "tests/demo",
        "tests/devcluster",
        "tests/real_node",
        "tests/testbed",
    ]);
    assert_none(forbidden(
        &written,
        &["tests/control_plane/bed/person.rs"],
        WRITES,
        "tests write strictly",
        "write by bed::Person, which asks for it, or by kubectl",
    ));
    assert_none(forbidden(
        &written,
        &[],
        r"--validate=(false|ignore|warn)",
        "tests write strictly",
        "leave kubectl its default; where a story is about unknown fields, Person::tolerantly says so",
    ));
}

/// What `core/` must not depend on itself, so that what is decided there has no client, no task and no log.
const IMPURE: &str =
    "axum clap copyrator-certs futures hyper hyper-util nix rcgen tokio tokio-rustls tower tracing";

#[test]
fn deciding_crates_have_no_client_no_task_and_no_log() {
    for crate_ in ["core", "import", "cel"] {
        let manifest = fs::read_to_string(root().join(crate_).join("Cargo.toml")).unwrap();
        let named: Vec<&str> = manifest
            .lines()
            .skip_while(|line| *line != "[dependencies]")
            .take_while(|line| *line != "[dev-dependencies]")
            .filter_map(|line| line.split(['.', ' ']).next())
            .collect();
        assert!(named.len() > 3, "{crate_}/Cargo.toml names {} dependencies: correct this test", named.len());
        for impure in IMPURE.split(' ') {
            assert!(
                !named.contains(&impure),
                "{crate_}/Cargo.toml: {impure}: deciding is pure; use it in another crate"
            );
        }
        let kube = manifest.lines().find(|line| line.starts_with("kube = ") || line.starts_with("kube."));
        assert!(
            kube.is_none_or(|kube| kube.contains(r#"default-features = false, features = ["derive"]"#)),
            "{crate_}/Cargo.toml: kube brings more than its types: deciding is pure; use the client in cluster/"
        );
    }
}

/// `serve/` has what any serving process has, whatever it serves.
#[test]
fn the_listeners_know_no_kubernetes() {
    let manifest = fs::read_to_string(root().join("serve/Cargo.toml")).unwrap();
    for known in ["kube", "k8s-openapi", "copyrator-core", "copyrator-cluster"] {
        assert!(
            !manifest.lines().any(|line| line.starts_with(known)),
            "serve/Cargo.toml: {known}: take the value in"
        );
    }
}

/// A change of the operator compiles no command, and a change of a command compiles no operator.
#[test]
fn only_the_program_knows_the_operator_and_the_commands() {
    let manifest = |crate_: &str| fs::read_to_string(root().join(crate_).join("Cargo.toml")).unwrap();
    let mut findings = Vec::new();
    for lower in ["cel", "cli", "cluster", "console", "core", "import", "serve"] {
        if manifest(lower).contains("copyrator-operator") {
            findings.push(format!("{lower}/Cargo.toml: only the program depends on the operator"));
        }
    }
    for higher in ["copyrator-cli", "copyrator-console", "copyrator-import"] {
        if manifest("operator").contains(higher) {
            findings.push(format!("operator/Cargo.toml: the operator does not depend on {higher}"));
        }
    }
    assert_none(findings);
}

#[test]
fn deciding_is_pure() {
    let mut pure = product();
    pure.retain(|source| ["cel/", "core/", "import/"].iter().any(|folder| source.path.starts_with(folder)));
    let impure = concat!(
        r"\basync\b|\bstd::(env|fs|net|process|thread)\b|SystemRandom",
        r"|SystemTime::now|Instant::now|Timestamp::now|Zoned::now|\bprintln!|\beprintln!",
    );
    // The CEL parser needs a deep stack: a thread that is joined before the answer, and touches nothing else.
    assert_none(forbidden(
        &pure,
        &["cel/src/parse.rs"],
        impure,
        "invariant 2: deciding is pure (no clock, environment, file or randomness)",
        "take what is needed as a value, now included; fetch it in cluster/",
    ));
}

/// They share what stands in `core/src/plan/` itself, and nothing else.
#[test]
fn the_planners_of_copies_and_of_restarts_do_not_know_each_other() {
    let planners = [("core/src/plan/copy/", r"\brestart::"), ("core/src/plan/restart/", r"\bcopy::")];
    for (planner, pattern) in planners {
        let mut sources = product();
        sources.retain(|source| source.path.starts_with(planner));
        assert!(sources.len() > 10, "{planner} is gone: correct this test");
        assert_none(forbidden(
            &sources,
            &[],
            pattern,
            "copies and restarts are planned apart",
            "move what both need into core/src/plan/",
        ));
    }
}

#[test]
fn no_event_payload_reaches_the_planner() {
    let mut planner = product();
    planner.retain(|source| source.path.starts_with("core/src/plan/"));
    assert_none(forbidden(
        &planner,
        &[],
        r"\bwatcher::|\bWatchEvent\b|\bcrate::intake\b|\bEvent::(Apply|InitApply|Delete)\b",
        "invariant 3: a reconcile request is a key, and no event payload reaches the planner",
        "put the fact into the world and plan from there",
    ));
}

/// So none of ours can be stuck on what nobody is left to finish (ESO#6677, #5426; NCO#89, #119).
#[test]
fn no_finalizer_is_ever_written() {
    assert_none(forbidden(
        &product(),
        // They write nothing; some of them read or tell of others' finalizers.
        &[
            "core/src/validate/",
            "import/src/",
            "core/src/intake/",
            "core/src/model/",
            "core/src/plan/",
            "cluster/src/connect/",
        ],
        r"(?i)finalizer",
        "invariant 6 and §3.1: we put no finalizer on anything",
        "have the sweep do what the finalizer was for",
    ));
}

#[test]
fn content_cannot_reach_a_formatter() {
    let file = "cluster/src/read/decoded.rs";
    let source = read(&root().join(file));
    let derives = Regex::new(r"(?:#\[derive\(([^)]*)\)\]\s*)?pub struct Content \{").unwrap();
    let found = derives
        .captures(&source.code)
        .unwrap_or_else(|| panic!("{file}: Content is gone: correct this test"));
    let derived = found.get(1).map_or("", |list| list.as_str());
    let by_hand = Regex::new(r"impl[^{]*\b(Debug|Display|Serialize)\b[^{]*\bfor Content\b").unwrap();
    let shown =
        ["Debug", "Serialize"].iter().any(|name| derived.contains(name)) || by_hand.is_match(&source.code);
    assert!(
        !shown,
        "{file}: Content can be printed: invariant 8: secret material never reaches a formatter; drop it"
    );
}

#[test]
fn no_task_is_detached_and_no_channel_unbounded() {
    assert_none(forbidden(
        &product(),
        &[],
        r"\btokio::(task::)?spawn\b|\bspawn_local\b|\bthread::spawn\b|\bunbounded(_channel)?\b|\bUnboundedSender\b",
        "invariant 9: no task is detached, no channel unbounded",
        "run it under serve::tasks::Tasks, and give the channel a size",
    ));
    // The webhook judges on such threads, since it may take long; each judgement is awaited, ends by its own budget, and
    // counts as a request under way until then. So does the scan, one object at a time, and what is written, rendered or held against
    // schemas, one key a worker. The console's surveys keep their turn until they end, and bodies their places.
    assert_none(forbidden(
        &product(),
        &[
            "operator/src/webhook/judge.rs",
            "operator/src/reconcile/scan.rs",
            "operator/src/reconcile/guard.rs",
            "operator/src/reconcile/rendering/processor.rs",
            "console/src/surveying.rs",
            "console/src/rest/operation.rs",
        ],
        r"\bspawn_blocking\b|\bblock_in_place\b",
        "invariant 9: no task is detached",
        "nothing can stop such work: keep it short, or bound it and say so here",
    ));
}

#[test]
fn there_is_no_global_state() {
    assert_none(forbidden(
        &product(),
        &[],
        r"\bstatic mut\b|\bOnceLock\b|\bOnceCell\b|\bthread_local!",
        "invariant 2: what a function decides by comes in through its arguments",
        "make it a field of what run/ wires together",
    ));
}

#[test]
fn one_validator_and_one_planner_serve_all_roles() {
    // A webhook or command that compiled globs, selectors or regular expressions by itself would drift away.
    assert_none(forbidden(
        &product(),
        &["core/src/validate/", "cel/src/"],
        r"\bGlob::new\b|\bGlobBuilder\b|\bRegex::new\b|\bRegexBuilder\b|\bParser::new\(\)",
        "invariant 10: webhook, reconciler and command line share one validator",
        "compile it in validate/ (or cel/) and use the compiled form",
    ));
}

/// A consumer that does anything else between two events of a watch is cut off by the API server (reflector#468: after
/// some 130 events).
#[test]
fn nothing_is_waited_for_between_two_events_of_a_watch() {
    let source = read(&root().join("operator/src/observe/watch.rs"));
    let follow = Regex::new(r"(?s)async fn follow<.*?\n\}\n").unwrap();
    let follow = follow
        .find(&source.code)
        .expect("operator/src/observe/watch.rs: follow is gone: correct this test")
        .as_str();
    let waits: Vec<&str> = follow.lines().filter(|line| line.contains(".await")).map(str::trim).collect();
    assert_eq!(waits, ["while let Some(event) = events.next().await {"], "put a key into the queue instead");
}

#[test]
fn files_are_small_and_named_for_their_job() {
    let more = ["benches/src", "tests/devcluster/src", "tests/testbed/src", "tests/demo/src"];
    let sources = sources(&[CRATES.as_slice(), &more].concat());
    let mut findings = Vec::new();
    for Source { path, lines, .. } in &sources {
        if *lines > 500 {
            findings.push(format!(
                "{path}: {lines} lines: §5: no file over 500 lines; split it along the data flow"
            ));
        }
        let stem = Path::new(path).file_stem().unwrap().to_string_lossy().into_owned();
        let folder = Path::new(path)
            .parent()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned());
        for vague in ["utils", "util", "common", "helpers", "helper", "types", "misc"] {
            if stem == vague || folder.as_deref() == Some(vague) {
                findings.push(format!("{path}: §5: no {vague}; name it for what it does"));
            }
        }
    }
    let mut lengths: Vec<usize> = sources.iter().map(|source| source.lines).collect();
    lengths.sort_unstable();
    let at = |percent: usize| lengths[(lengths.len() - 1) * percent / 100];
    if at(50) > 150 {
        findings
            .push(format!("the median file has {} lines: §5: at most 150; split the longest ones", at(50)));
    }
    if at(90) > 350 {
        findings.push(format!(
            "the 90th percentile is {} lines: §5: at most 350; split the longest ones",
            at(90)
        ));
    }
    assert_none(findings);
}
