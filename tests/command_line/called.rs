//! As a plugin of kubectl, and as what completes it.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use super::{PROGRAM, quiet, ran, text};

/// Runs the program under another name.
fn as_called(name: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join(name);
    symlink(PROGRAM, &link).expect("a link");
    quiet(Command::new(link)).args(arguments).output().expect("it runs")
}

#[test]
fn a_plugin_says_what_its_user_types() {
    let output = as_called("kubectl-copyrator", &["why", "secret"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let help = text(&as_called("kubectl-copyrator", &["status", "--help"]).stdout);
    assert!(help.contains("Usage: kubectl copyrator status [OPTIONS]"), "{help}");
    assert!(help.contains("\n  kubectl copyrator status -n platform\n"), "{help}");
    assert!(!help.contains("kubectl-copyrator"), "{help}");
    let help = text(&as_called("copyrator", &["status", "--help"]).stdout);
    assert!(
        help.contains("Usage: copyrator status [OPTIONS]") && !help.contains("kubectl copyrator"),
        "{help}"
    );
}

/// A proposal a line, and last what kubectl's shell scripts are to do with them.
#[test]
fn kubectl_is_told_the_next_word() {
    let proposed = |words: &[&str]| {
        let output = as_called("kubectl_complete-copyrator", words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{words:?}");
        let said = text(&output.stdout);
        let words: Vec<String> =
            said.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect();
        words
    };
    assert_eq!(proposed(&["pl"]), ["plan", ":4"]);
    assert_eq!(proposed(&["why"]), ["why", "why-not", ":4"]);
    assert_eq!(proposed(&["plan", "-o", ""]), ["table", "wide", "json", "yaml", "name", ":4"]);
    assert_eq!(proposed(&["status", "--request-t"]), ["--request-timeout", ":4"]);
    // No cluster is there to be asked: nothing is proposed, and nothing said.
    assert_eq!(proposed(&["plan", "-n", ""]), [":0"]);
}

#[test]
fn shells_are_given_what_completes() {
    for (shell, part) in
        [("bash", "complete -F _copyrator"), ("zsh", "#compdef copyrator"), ("fish", "complete -c copyrator")]
    {
        let output = ran(&["completion", shell]);
        let script = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        assert!(script.contains(part) && script.contains("why-not"), "{shell}: {script}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().to_str().expect("a path");
    assert_eq!(ran(&["man", directory]).status.code(), Some(0));
    for page in ["copyrator.1", "copyrator-plan.1", "copyrator-why-not.1", "copyrator-serve.1"] {
        let roff =
            std::fs::read_to_string(folder.path().join(page)).unwrap_or_else(|_| panic!("{page} is missing"));
        assert!(roff.contains(".SH NAME"), "{page}: {roff}");
    }
    let page = text(&ran(&["man"]).stdout);
    assert!(page.contains(".TH copyrator 1"), "{page}");
    assert_eq!(ran(&["man", "/nonexistent"]).status.code(), Some(1));
}
