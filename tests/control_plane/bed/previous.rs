//! The earlier version that upgrades are tried from: its program and its chart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What `tests/previous/build.sh` says by this exit code is not there.
const LACKS_HISTORY: i32 = 3;

/// Another version of us.
pub struct Previous {
    /// Its program.
    pub program: PathBuf,
    /// The folder of its chart.
    pub chart: PathBuf,
}

/// The earlier version, built on first use; nothing where this checkout lacks its history: then `story` is skipped, which
/// is said here and, by a note, at the end of `make test`.
pub fn previous(story: &str) -> Option<&'static Previous> {
    static BUILT: OnceLock<Result<Previous, String>> = OnceLock::new();
    match BUILT.get_or_init(build) {
        Ok(built) => Some(built),
        Err(reason) => {
            println!("SKIPPED {story}: {reason}");
            let folder = top().join("target/previous");
            fs::create_dir_all(&folder).expect("the folder can be made");
            fs::write(folder.join("skipped.txt"), format!("{story}: {reason}\n"))
                .expect("the note can be left");
            None
        }
    }
}

fn build() -> Result<Previous, String> {
    let output = Command::new(top().join("tests/previous/build.sh")).output().expect("the script starts");
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.code() == Some(LACKS_HISTORY) {
        return Err(said);
    }
    assert!(output.status.success(), "the earlier version cannot be built: {said}");
    let folder = PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim());
    Ok(Previous { program: folder.join("copyrator"), chart: folder.join("chart") })
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
