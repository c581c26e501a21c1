//! Shows on standard error that a long build moves, and keeps all it says in a log.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;

const EVERY: Duration = Duration::from_secs(15);

/// A line for the user who waits. It bypasses `eprintln!`, which the test runner holds back until a test ends.
pub(super) fn say(line: &str) {
    // Nobody may be listening; that is no reason to stop building.
    let _ = writeln!(io::stderr(), "devcluster: {line}");
}

/// Follows a build whose standard error is piped, until it ends: whether it succeeded.
pub(super) fn follow(mut child: Child, module: &str, what: &str, log: &Path) -> Result<bool, Error> {
    say(what);
    let mut file = File::create(log).map_err(Error::file("create", log))?;
    let (send, lines) = mpsc::sync_channel(64);
    if let Some(output) = child.stderr.take() {
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
    }
    let start = Instant::now();
    let (mut next, mut count, mut last) = (start + EVERY, 0, "linking".to_owned());
    loop {
        match lines.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                writeln!(file, "{line}").map_err(Error::file("write", log))?;
                count += 1;
                last = line;
            }
            Err(RecvTimeoutError::Timeout) => {
                say(&format!("{module}: {} s, {count} steps, now {last}", start.elapsed().as_secs()));
                next += EVERY;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().map_err(Error::run("go"))?;
    if status.success() {
        say(&format!("{module}: built in {} s", start.elapsed().as_secs()));
    }
    Ok(status.success())
}

/// The last line of a build's log that is neither a download nor the bare name of a package.
pub(super) fn telling_line(log: &str) -> String {
    let telling = |line: &&str| line.contains(' ') && !line.starts_with("go: downloading");
    let line = log.lines().rev().find(telling).or_else(|| log.lines().last());
    line.unwrap_or("Go said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::telling_line;

    #[test]
    fn the_telling_line_is_the_error() {
        let log = "go: downloading k8s.io/api v0.36.3\nk8s.io/api/core/v1\n# k8s.io/api/core/v1\n\
                   types.go:3:1: syntax error\nk8s.io/api/apps/v1\n";
        assert_eq!(telling_line(log), "types.go:3:1: syntax error");
        assert_eq!(telling_line(""), "Go said nothing");
    }
}
