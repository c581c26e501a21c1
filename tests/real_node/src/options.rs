//! What the command line asks for: ours, and those of `cargo test`, which every test program gets.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

const USAGE: &str = "\
usage: real_node [--required] [--built] [--record]
  --required   fail where the machine can't run it, rather than skip it
  --built      take the images as they are, rather than build them
  --record     write the transcript to docs/real-node.md too";

/// The name under which `cargo test NAME` finds it.
const NAME: &str = "real_node";

/// The variable that says how the product is built, and its word for how it is shipped.
pub(crate) const PROFILE: &str = "PROFILE";
const RELEASE: &str = "release";

/// What to do.
#[derive(Debug)]
pub(crate) enum Task {
    Test(Options),
    /// `cargo test -- --list`
    List,
    /// `cargo test SOMETHING_ELSE`
    Nothing,
}

/// How.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) is_required: bool,
    pub(crate) is_built: bool,
    pub(crate) is_recorded: bool,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Task, String> {
        let mut options = Options::default();
        let mut filters = Vec::new();
        for argument in arguments {
            match argument.as_str() {
                "--required" => options.is_required = true,
                "--built" => options.is_built = true,
                "--record" => options.is_recorded = true,
                "--list" => return Ok(Task::List),
                "--help" | "-h" => return Err(USAGE.to_owned()),
                // Those of the usual test program say how its tests are run and shown.
                flag if flag.starts_with('-') => {}
                filter => filters.push(filter),
            }
        }
        if options.is_recorded && std::env::var_os(PROFILE).is_none_or(|profile| profile != RELEASE) {
            return Err(format!("--record is for the program as it is shipped: {PROFILE}={RELEASE}"));
        }
        let is_meant = filters.is_empty() || filters.iter().any(|filter| NAME.contains(filter));
        Ok(if is_meant { Task::Test(options) } else { Task::Nothing })
    }

    /// Leaves a note for the step that sums up (`make test`), in a file that goes when the test runs.
    pub(crate) fn note_skipped(&self, reason: &str) -> Result<(), Failure> {
        let file = output().join("skipped.txt");
        fs::create_dir_all(output()).map_err(Failure::at("create", &output()))?;
        fs::write(&file, format!("real_node: {reason}\n")).map_err(Failure::at("write", &file))
    }
}

/// The top of the repository, where the commands shown work for everybody.
pub(crate) fn top() -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    top.canonicalize().unwrap_or(top)
}

/// Where transcript and logs go.
pub(crate) fn output() -> PathBuf {
    top().join("target/real-node")
}
