//! The demo runs to its end, and what README.md shows of it is what it says. `COPYRATOR_BLESS=1` puts what it says there.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what went wrong by failing")]

use std::fs;
use std::path::Path;
use std::process::Command;

#[allow(dead_code, reason = "transcripts of single commands are for the documents")]
#[path = "../../documents/output.rs"]
mod output;

const BEGINS: &str = "<!-- demo-output -->\n```text\n";
const ENDS: &str = "```\n<!-- /demo-output -->";

#[test]
fn the_readme_shows_what_the_demo_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(&path).expect("the README is there");
    let (before, rest) = readme.split_once(BEGINS).expect("the README shows the demo");
    let (shown, after) = rest.split_once(ENDS).expect("and ends showing it");

    let ended =
        Command::new(env!("CARGO_BIN_EXE_demo")).env("NO_COLOR", "1").output().expect("the demo can be run");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}\n{}", String::from_utf8_lossy(&ended.stderr));
    if std::env::var_os("COPYRATOR_BLESS").is_some() {
        fs::write(&path, [before, BEGINS, &said, ENDS, after].concat()).expect("the README can be written");
    } else if let Err(line) = output::agree(shown, &said) {
        panic!(
            "the demo does not say\n{line}\nas README.md shows it (COPYRATOR_BLESS=1 writes it there), but\n{said}"
        );
    }
}
