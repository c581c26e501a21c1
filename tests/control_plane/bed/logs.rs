//! What the operator had to say, for failing tests.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::time::SystemTime;
use std::{fs, io, panic};

use jiff::Timestamp;

static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Has a story that fails say why at once, past what the test runner captures until the end of the run: of a run that is cut
/// short, or whose output is, there is no end.
fn tell_failures_at_once() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // Where standard error is gone nobody reads it.
            let _ = writeln!(io::stderr(), "{panic}");
            usual(panic);
        }));
    });
}

/// Where a bed's operator logs to: kept after the tests, overwritten by the next run.
pub fn folder(bed: &str) -> PathBuf {
    tell_failures_at_once();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("control_plane").join(bed);
    // The first run has nothing to remove.
    let _ = fs::remove_dir_all(&folder);
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.clone());
    folder
}

/// The last complaints of every process since this time, shortened: a run that keeps only a part of its output still tells what
/// the operator said of a failure.
pub fn complaints_since(time: SystemTime) -> String {
    const LAST: usize = 3;
    const LONGEST: usize = 300;
    let since = Timestamp::try_from(time).expect("a time of this run").to_string();
    let mut told = String::new();
    for folder in FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let Ok(files) = fs::read_dir(folder) else { continue };
        for file in files.flatten() {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            let complaints: Vec<&str> = text
                .lines()
                .filter(|line| (line.contains(" WARN ") || line.contains("ERROR")) && *line >= &*since)
                .collect();
            for line in complaints.iter().rev().take(LAST).rev() {
                let line: String = line.chars().take(LONGEST).collect();
                told.push_str(&format!("\n  {}: {line}", file.path().display()));
            }
        }
    }
    told
}
