//! What the operator had to say, for failing tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Where a bed's operator logs to: kept after the tests, overwritten by the next run.
pub fn folder(bed: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("control_plane").join(bed);
    // The first run has nothing to remove.
    let _ = fs::remove_dir_all(&folder);
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.clone());
    folder
}

/// Prints the last complaints of every process.
pub fn show() {
    for folder in FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let Ok(files) = fs::read_dir(folder) else { continue };
        for file in files.flatten() {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            let complaints: Vec<&str> =
                text.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
            println!("--- {}: the last complaints", file.path().display());
            complaints.iter().rev().take(8).rev().for_each(|line| println!("{line}"));
        }
    }
}
