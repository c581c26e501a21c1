//! What a cluster left behind, if anything.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a reaper may take when nobody waits for it.
const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until neither the folder nor any process that names it is left.
#[track_caller]
pub fn assert_nothing(dir: &Path) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let processes = processes(dir);
        if processes.is_empty() && !dir.exists() {
            return;
        }
        assert!(Instant::now() < deadline, "left: {processes:?}, folder: {}", dir.exists());
        thread::sleep(Duration::from_millis(20));
    }
}

/// The command lines of the processes whose command line or environment names the folder.
pub fn processes(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let read = |file| {
            String::from_utf8_lossy(&fs::read(entry.path().join(file)).unwrap_or_default()).into_owned()
        };
        let is_process = entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
        if is_process && (read("cmdline").contains(dir) || read("environ").contains(dir)) {
            found.push(read("cmdline").replace('\0', " "));
        }
    }
    found
}
