//! What each value of the chart changes, as data: values in, the difference to what the chart renders without them
//! out. `UPDATE_CASES=1` writes what came out into the files: look at the difference.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot read its cases has failed")]

mod always;
mod difference;
mod namespaced;
mod notes;
mod rendering;
mod watching;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock},
    thread,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use difference::{difference, names};
use rendering::{Release, render};

/// Values that the chart is not to read, and why.
const UNREAD: [(&str, &str); 1] = [("enabled", "it is for the condition of a parent chart")];
/// The exit code of `copyrator` where no cluster answers; 2 is for what it does not understand.
const UNREACHABLE: i32 = 3;
/// helm runs at a time.
const RUNS: usize = 4;

/// One set of values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// The values; none: what is rendered is listed, not compared.
    #[serde(default)]
    set: Map<String, Value>,
    /// Another release than `copyrator`.
    release: Option<String>,
    /// Another Kubernetes than 1.36.0.
    kubernetes: Option<String>,
    /// Lists objects only, for values that rename all of them.
    #[serde(default)]
    brief: bool,
    /// What differs, or what helm says against it.
    expect: String,
}

impl Case {
    fn release(&self) -> Release<'_> {
        let usual = Release::default();
        Release {
            name: self.release.as_deref().unwrap_or(usual.name),
            kubernetes: self.kubernetes.as_deref().unwrap_or(usual.kubernetes),
        }
    }

    fn run(&self) -> String {
        let objects = match render(&self.release(), &Value::Object(self.set.clone())) {
            Ok(objects) => objects,
            Err(said) => return format!("refused: {said}"),
        };
        if self.brief || self.set.is_empty() {
            return names(&objects);
        }
        static USUAL: OnceLock<Vec<Value>> = OnceLock::new();
        let usual = USUAL
            .get_or_init(|| render(&Release::default(), &json!({})).expect("the chart renders as it is"));
        difference(usual, &objects)
    }

    /// The values that it sets.
    fn leaves(&self, known: &[String]) -> Vec<String> {
        let is_set = |leaf: &&String| {
            leaf.split('.').try_fold(&Value::Object(self.set.clone()), |value, key| value.get(key)).is_some()
        };
        known.iter().filter(is_set).cloned().collect()
    }

    /// Whether it comes out otherwise without this one.
    fn depends_on(&self, leaf: &str, came_out: &str) -> bool {
        let mut without = self.clone();
        let mut keys: Vec<&str> = leaf.split('.').collect();
        let last = keys.pop().expect("a path has parts");
        let holder = keys.iter().fold(&mut without.set, |map, key| {
            map.get_mut(*key).and_then(Value::as_object_mut).expect("the path is in it")
        });
        holder.remove(last);
        let nothing_left = without.leaves(leaves()).is_empty();
        if nothing_left && !self.brief { !came_out.is_empty() } else { without.run() != came_out }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart_cases")
}

/// One file of cases.
struct File {
    path: PathBuf,
    text: String,
    /// Each with what came out.
    cases: Vec<(Case, String)>,
}

/// Every file, with each case rendered once.
fn files() -> &'static [File] {
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    FILES.get_or_init(|| {
        let paths = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
        let mut paths: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|it| it == "yaml")).collect();
        paths.sort();
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap();
            let cases: Vec<Case> =
                serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            let came_out = each(&cases, Case::run);
            File { path, text, cases: cases.into_iter().zip(came_out).collect() }
        };
        paths.into_iter().map(read).collect()
    })
}

/// Every case, and what came out.
fn cases() -> impl Iterator<Item = &'static (Case, String)> {
    files().iter().flat_map(|file| &file.cases)
}

/// What `ask` says of each, some at a time, in order.
fn each<T: Sync, A: Send>(all: &[T], ask: impl Fn(&T) -> A + Sync) -> Vec<A> {
    let left = Mutex::new(all.iter().enumerate());
    let said = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..RUNS {
            scope.spawn(|| {
                loop {
                    let Some((place, one)) = left.lock().unwrap().next() else { break };
                    let answer = ask(one);
                    said.lock().unwrap().push((place, answer));
                }
            });
        }
    });
    let mut said = said.into_inner().unwrap();
    said.sort_by_key(|(place, _)| *place);
    said.into_iter().map(|(_, answer)| answer).collect()
}

/// Replaces what each case expects; `expect: |` is the last field of a case.
fn update(file: &File) -> String {
    let mut kept = String::new();
    let mut got = file.cases.iter().map(|(_, came_out)| came_out);
    let mut inside = false;
    for line in file.text.lines() {
        inside = inside && (line.is_empty() || line.starts_with("    "));
        if line.starts_with("  expect:") {
            let lines = got.next().unwrap().lines().map(|line| format!("\n    {line}"));
            kept += &format!("  expect: |{}\n\n", lines.collect::<String>());
            inside = true;
        } else if !inside {
            kept += &format!("{line}\n");
        }
    }
    format!("{}\n", kept.trim_end())
}

#[test]
fn every_case() {
    let mut failures = Vec::new();
    for file in files() {
        if std::env::var_os("UPDATE_CASES").is_some() {
            fs::write(&file.path, update(file)).unwrap();
            continue;
        }
        let wrong = file.cases.iter().filter(|(case, got)| case.expect.trim() != got.trim());
        failures.extend(wrong.map(|(case, got)| {
            let expected = case.expect.trim();
            format!("{}: {}\nexpected\n{expected}\ngot\n{got}\n", file.path.display(), case.name)
        }));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(cases().count() > 60, "only {} cases were found", cases().count());
}

/// A value that nothing reads is a promise that nobody keeps; one without a case may break unseen.
#[test]
fn every_value_is_read_and_has_a_case() {
    let known = leaves();
    assert!(known.len() > 80, "{known:?}");
    let rendered = cases().filter(|(_, came_out)| !came_out.starts_with("refused:"));
    let tried: Vec<_> = rendered
        .flat_map(|(case, came_out)| case.leaves(known).into_iter().map(move |leaf| (case, leaf, came_out)))
        .collect();
    let matter = each(&tried, |(case, leaf, came_out)| case.depends_on(leaf, came_out));
    let read =
        tried.iter().zip(matter).filter_map(|((_, leaf, _), matters)| matters.then_some(leaf.as_str()));
    let read: BTreeSet<&str> = read.collect();
    let is_unread = |leaf: &str| UNREAD.iter().any(|(unread, _)| *unread == leaf);
    let missing: Vec<&String> =
        known.iter().filter(|leaf| !read.contains(leaf.as_str()) && !is_unread(leaf)).collect();
    assert!(missing.is_empty(), "no case in {} shows what these change: {missing:?}", folder().display());
    for (unread, why) in UNREAD {
        assert!(!read.contains(unread), "{unread} is read now, and was not to be, since {why}");
    }
}

/// A flag that the binary does not have, or a number that it cannot read, is a crash loop.
#[test]
fn every_argument_is_one_of_the_binary() {
    let cases: Vec<&Case> = cases().map(|(case, _)| case).collect();
    let mut commands = BTreeSet::new();
    for objects in
        each(&cases, |case| render(&case.release(), &Value::Object(case.set.clone()))).into_iter().flatten()
    {
        let containers =
            objects.iter().filter_map(|object| object.pointer("/spec/template/spec/containers/0/args"));
        commands.extend(
            containers.map(|arguments| serde_json::from_value::<Vec<String>>(arguments.clone()).unwrap()),
        );
    }
    assert!(commands.len() > 40, "only {} commands", commands.len());
    let commands: Vec<Vec<String>> = commands.into_iter().collect();
    let ran = each(&commands, |arguments| {
        // What is written as $(NAME) the kubelet replaces.
        let arguments = arguments.iter().map(|it| it.replace("$(POD_NAMESPACE)", "copyrator-system"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_copyrator"));
        command.args(arguments).env_clear().env("KUBECONFIG", "/nonexistent").output().unwrap()
    });
    for (command, output) in commands.iter().zip(ran) {
        // It has understood all of it, and looked for a cluster.
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(UNREACHABLE), "{command:?}: {said}");
    }
}

/// The path of each value, from the schema.
fn leaves() -> &'static [String] {
    static LEAVES: OnceLock<Vec<String>> = OnceLock::new();
    LEAVES.get_or_init(|| {
        let schema = rendering::chart().join("values.schema.json");
        let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
        let mut found = Vec::new();
        walk("", &schema, &mut found);
        found
    })
}

fn walk(path: &str, schema: &Value, found: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}{name}");
        match property["properties"].is_object() {
            true => walk(&format!("{path}."), property, found),
            false => found.push(path),
        }
    }
}
