//! The contract of the command line: exit codes, what is said where, under which name it is called; and the page that tells it.
//!
//! After a change of words: `COPYRATOR_BLESS=1 cargo test --test command_line` writes the snapshots and the generated part of
//! docs/commands.md. Look at the difference.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "command_line/called.rs"]
mod called;
#[path = "command_line/contract.rs"]
mod contract;
#[path = "command_line/ended.rs"]
mod ended;
#[path = "command_line/page.rs"]
mod page;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_copyrator");

/// A path below the repository's root.
fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

/// The program, among the files of these tests, knowing of no cluster and of no terminal.
fn copyrator() -> Command {
    quiet(Command::new(PROGRAM))
}

fn quiet(mut command: Command) -> Command {
    command.env_clear().env("KUBECONFIG", "nowhere").env("HOME", "/nonexistent");
    command.current_dir(path("tests/command_line/files"));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ran(arguments: &[&str]) -> Output {
    copyrator().args(arguments).output().expect("it runs")
}
