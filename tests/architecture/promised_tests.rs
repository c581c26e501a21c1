//! Pages and tables that name tests: each of these tests is there.

use std::fs;

use regex::Regex;

use super::{assert_none, root};

/// docs/failure-classes.md promises tests: each is there, and one of each class says of which peer's trouble it knows.
#[test]
fn every_failure_class_has_the_tests_that_it_names() {
    let table = fs::read_to_string(root().join("docs/failure-classes.md")).unwrap();
    let named = Regex::new(r"`([a-z_/-]+\.(?:rs|yaml))::([^`]+)`").unwrap();
    let issue = Regex::new(r"[A-Za-z-]+#[0-9]+").unwrap();
    let mut findings = Vec::new();
    let copiers = (1..=20).map(|class| format!("F{class}"));
    let restarters = (1..=18).map(|class| format!("R{class}"));
    // What strangers found in Copyrator itself has no issue elsewhere.
    let own = (1..=32).map(|class| format!("S{class}"));
    for class in copiers.chain(restarters).chain(own) {
        let Some(row) = table.lines().find(|line| line.starts_with(&format!("| {class} |"))) else {
            findings.push(format!("docs/failure-classes.md: {class} is missing"));
            continue;
        };
        let issues: Vec<&str> = issue.find_iter(row).map(|found| found.as_str()).collect();
        let tests: Vec<_> =
            named.captures_iter(row).map(|found| (found[1].to_owned(), found[2].to_owned())).collect();
        let mut knows = class.starts_with('S') && !tests.is_empty();
        for (path, name) in &tests {
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let is_it = |line: &&str| {
                line.contains(&format!("fn {name}(")) || line.trim_start() == format!("- name: {name}")
            };
            let Some(at) = lines.iter().position(is_it) else {
                findings.push(format!("{class}: {path} has no test {name}: correct docs/failure-classes.md"));
                continue;
            };
            let about = lines[..at].iter().rev().map(|line| line.trim());
            let about: Vec<&str> =
                about.take_while(|line| line.starts_with("//") || line.starts_with('#')).collect();
            knows |= issues.iter().any(|issue| about.iter().any(|line| line.contains(issue)));
        }
        if !knows {
            findings.push(format!(
                "{class}: none of its {} tests says which of {issues:?} it prevents",
                tests.len()
            ));
        }
    }
    assert_none(findings);
}

/// What stands directly above a function of which `before` is the text up to its name's `fn`.
fn attributes(before: &str) -> impl Iterator<Item = &str> {
    let above = before.lines().rev().map(str::trim).skip_while(|line| ["", "async"].contains(line));
    above.take_while(|line| line.starts_with("//") || line.starts_with('#'))
}

/// docs/security.md answers each threat of SIG Security's model with tests: each is there.
#[test]
fn every_threat_has_the_tests_that_it_names() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let named = Regex::new(r"`([a-z_/-]+\.rs)::([^`]+)`").unwrap();
    let mut findings = Vec::new();
    let mut answered = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ") && named.is_match(line)) {
        let numbers =
            row.split('|').nth(1).unwrap_or_default().split(',').map(|number| number.trim().parse::<u8>());
        answered.extend(numbers.filter_map(Result::ok));
        for found in named.captures_iter(row) {
            let (path, name) = (&found[1], &found[2]);
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            let at = text.find(&format!("fn {name}("));
            let is_test = at.is_some_and(|at| {
                attributes(&text[..at]).any(|line| line.starts_with("#[") && line.contains("test"))
            });
            if !is_test {
                findings.push(format!("docs/security.md: {path} has no test {name}"));
            }
        }
    }
    answered.sort_unstable();
    if answered != (1..=18).collect::<Vec<u8>>() {
        findings.push(format!("docs/security.md: of 18 threats only {answered:?} are answered with a test"));
    }
    assert_none(findings);
}

/// A story that is renamed would else begin last, and go on alone when all others are through.
#[test]
fn every_long_story_is_one() {
    let folder = root().join("tests/control_plane");
    let lanes = fs::read_to_string(folder.join("bed/lanes.rs")).unwrap();
    let named = Regex::new(r#"(?m)^    "([a-z0-9_:]+)::([a-z0-9_]+)",$"#).unwrap();
    let long: Vec<_> =
        named.captures_iter(&lanes).map(|found| (found[1].replace("::", "/"), found[2].to_owned())).collect();
    assert!(long.len() > 5, "{long:?}: this test looks in the wrong place");
    let is_story = |(file, name): &&(String, String)| {
        let texts = [format!("{file}.rs"), format!("{file}/mod.rs")]
            .map(|file| fs::read_to_string(folder.join(file)));
        texts.iter().flatten().any(|text| text.contains(&format!("\nfn {name}()")))
    };
    let gone: Vec<_> = long.iter().filter(|story| !is_story(story)).collect();
    assert!(gone.is_empty(), "tests/control_plane/bed/lanes.rs names what is no story: {gone:?}");
}

/// docs/serving.md promises tests, too.
#[test]
fn every_promise_of_the_listener_has_the_tests_that_it_names() {
    let table = fs::read_to_string(root().join("docs/serving.md")).unwrap();
    let named = Regex::new(r"`([a-z_/-]+\.rs)::([a-z0-9_]+)`").unwrap();
    let mut findings = Vec::new();
    let mut count = 0;
    for found in named.captures_iter(&table) {
        let (path, name) = (&found[1], &found[2]);
        let text = fs::read_to_string(root().join(path)).unwrap_or_default();
        count += 1;
        let at = text.find(&format!("fn {name}("));
        if !at.is_some_and(|at| {
            attributes(&text[..at]).any(|line| line.starts_with("#[") && line.contains("test"))
        }) {
            findings.push(format!("{path} has no test {name}: correct docs/serving.md"));
        }
    }
    assert_none(findings);
    assert!(count > 20, "only {count} tests are named: this test looks in the wrong place");
}
