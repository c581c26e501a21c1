//! Snapshots: what each command line says, on which stream, and its exit code.

use std::{env, fs};

use super::{path, ran, text};

/// `$ words`, `? exit code`, then lines of standard output after `1|` and of standard error after `2|`.
fn snapshot(line: &str) -> String {
    let arguments: Vec<&str> = line.split_whitespace().skip(1).collect();
    let output = ran(&arguments);
    let mut said = format!("$ {line}\n? {}\n", output.status.code().expect("an exit code"));
    for (stream, bytes) in [(1, &output.stdout), (2, &output.stderr)] {
        for line in text(bytes).lines() {
            let line = line.replace(env!("CARGO_PKG_VERSION"), "VERSION");
            said.push_str(format!("{stream}| {line}").trim_end());
            said.push('\n');
        }
    }
    said
}

fn is_as_written(file: &str, codes: &[&str]) {
    let path = path("tests/command_line").join(file);
    let written = fs::read_to_string(&path).expect("the snapshots are there");
    let (heading, _) = written.split_once("$ ").expect("a command line");
    let lines: Vec<&str> = written.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let snapshots: Vec<String> = lines.iter().map(|line| snapshot(line)).collect();
    let seen = format!("{heading}{}", snapshots.join("\n"));
    if env::var_os("COPYRATOR_BLESS").is_some() {
        fs::write(&path, &seen).expect("the snapshots can be written");
    } else {
        assert!(seen == written, "{file} is not what is said now:\n{seen}");
    }
    for code in seen.lines().filter_map(|line| line.strip_prefix("? ")) {
        assert!(codes.contains(&code), "{file}: exit code {code} in:\n{seen}");
    }
    assert!(lines.len() > 3, "{file}: only {lines:?}");
}

#[test]
fn what_is_done_is_zero() {
    is_as_written("done.txt", &["0"]);
}

#[test]
fn findings_are_one() {
    is_as_written("findings.txt", &["1"]);
}

#[test]
fn words_that_make_no_sense_are_two() {
    is_as_written("usage.txt", &["2"]);
}

#[test]
fn a_cluster_that_does_not_answer_is_three() {
    is_as_written("unreachable.txt", &["3"]);
}

/// Whatever reads the output reads nothing else (kyverno#6768).
#[test]
fn machines_read_nothing_but_data() {
    for arguments in [
        &["check", "-f", "broken.yaml", "-o", "json"][..],
        &["check", "-f", "broken.yaml", "-o", "yaml"],
        &["import", "-f", "reflector.yaml", "-o", "json"],
    ] {
        let output = ran(arguments);
        let said = text(&output.stdout);
        let value: serde_json::Value =
            serde_saphyr::from_str(&said).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"));
        assert_eq!(value["apiVersion"], "cli.copyrator.dev/v1alpha1", "{said}");
        assert!(value["kind"].is_string(), "{said}");
    }
}
