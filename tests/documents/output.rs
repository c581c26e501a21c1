//! Transcripts: what was typed, what it said, and whether it says that still.

use std::sync::LazyLock;

use regex::Regex;

/// A command with its output, as a page shows them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    pub(crate) command: String,
    pub(crate) output: String,
}

impl Typed {
    /// Whether the page shows that it failed.
    pub(crate) fn is_error(&self) -> bool {
        self.output.to_lowercase().starts_with("error")
    }
}

/// The commands after `$`, a line each, or more where a line ends with a backslash.
pub(crate) fn typed(text: &str) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line.strip_prefix("$ ") {
            Some(command) => {
                let mut command = command.to_owned();
                while command.ends_with('\\') {
                    command.push('\n');
                    command.push_str(lines.next().unwrap_or_default());
                }
                all.push(Typed { command, output: String::new() });
            }
            None => {
                let last = all.last_mut().unwrap_or_else(|| panic!("a transcript begins with `$ `: {line}"));
                last.output.push_str(line);
                last.output.push('\n');
            }
        }
    }
    all
}

/// Whether each line shown is among those said, in that order, but for what differs from run to run; else the line.
/// `…` stands for any lines.
pub(crate) fn agree(shown: &str, said: &str) -> Result<(), String> {
    let mut said = said.lines().map(plain);
    let mut shown =
        shown.lines().map(|line| (line, plain(line))).filter(|(_, plain)| !plain.is_empty() && plain != "…");
    shown.try_for_each(|(line, wanted)| match said.any(|line| line == wanted) {
        true => Ok(()),
        false => Err(line.to_owned()),
    })
}

/// A line without times, digests, ages, generated names and widths of columns.
fn plain(line: &str) -> String {
    static CHANGING: LazyLock<[(Regex, &str); 8]> = LazyLock::new(|| {
        [
            // Before what looks like a digest in it.
            (r"-[a-z0-9]{6,10}-[a-z0-9]{5}\b", "-POD"),
            (r"\d{4}-\d\d-\d\dT[\d:]+(\.\d+)?Z", "TIME"),
            (r"\b[0-9a-f]{8,64}(\.[0-9a-f.]+)?\b", "DIGEST"),
            (r"127\.0\.0\.1:\d+", "ADDRESS"),
            (r"^LAST DEPLOYED: .*", "TIME"),
            (r"\b\d+\.\d+ ms\b", "AGE"),
            (r"\b(\d+[smhd])+\b", "AGE"),
            (r"\s+", " "),
        ]
        .map(|(pattern, word)| (Regex::new(pattern).expect("a pattern"), word))
    });
    let plain = CHANGING
        .iter()
        .fold(line.to_owned(), |line, (pattern, word)| pattern.replace_all(&line, *word).into_owned());
    plain.trim().to_owned()
}

#[test]
fn a_transcript_is_taken_apart_and_compared() {
    let text =
        "$ kubectl get x \\\n    -n y\nNAME   AGE\na      5s\n$ kubectl delete x\nError from server: no\n";
    let [get, delete] = typed(text).try_into().expect("two commands");
    assert_eq!(get.command, "kubectl get x \\\n    -n y");
    assert!(!get.is_error() && delete.is_error());
    assert_eq!(agree(&get.output, "NAME AGE\nz  1s\na  7m5s\n"), Ok(()));
    assert_eq!(agree(&get.output, "NAME AGE\nb  7s\n"), Err("a      5s".to_owned()));
    assert_eq!(agree("web-98696f4f4-87j9g 1/1", "web-98696f4f4-x2bq7  1/1"), Ok(()));
    assert_eq!(agree("…\nx 2026-01-01T00:00:00Z\n", "a\nb\nx 2027-02-02T10:10:10Z"), Ok(()));
}
