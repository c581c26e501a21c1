//! What was done and what came of it: shown as it happens, and kept in `target/real-node/transcript.txt`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::options::top;

/// The copy of one run that is part of the documents.
const RECORD: &str = "docs/real-node.md";

/// The transcript so far.
#[derive(Debug)]
pub(crate) struct Transcript {
    path: PathBuf,
    file: File,
    text: String,
}

impl Transcript {
    /// Begins a new one in `folder`.
    pub(crate) fn begin(folder: PathBuf) -> Result<Transcript, Failure> {
        fs::create_dir_all(&folder).map_err(Failure::at("create", &folder))?;
        let path = folder.join("transcript.txt");
        let file = File::create(&path).map_err(Failure::at("create", &path))?;
        Ok(Transcript { path, file, text: String::new() })
    }

    pub(crate) fn heading(&mut self, text: &str) -> Result<(), Failure> {
        self.line(&format!("\n## {text}\n"))
    }

    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        println!("{line}");
        writeln!(self.file, "{line}").map_err(Failure::at("write", &self.path))?;
        self.text.push_str(line);
        self.text.push('\n');
        Ok(())
    }

    /// A command with its answer.
    pub(crate) fn answer(&mut self, command: &str, answer: &str) -> Result<(), Failure> {
        let answer = answer.trim_end();
        let lines: Vec<&str> = answer.lines().map(str::trim_end).collect();
        self.line(&format!("$ {command}"))?;
        if lines.is_empty() { Ok(()) } else { self.line(&lines.join("\n")) }
    }

    /// Everything that was said.
    pub(crate) fn end(self) -> String {
        self.text
    }
}

/// Puts a transcript into the documents.
pub(crate) fn record(text: &str) -> Result<(), Failure> {
    let path = top().join(RECORD);
    fs::write(&path, page(text)).map_err(Failure::at("write", Path::new(RECORD)))
}

/// A page of a transcript: its headings are the page's, and what is between them is shown as it was.
fn page(text: &str) -> String {
    let mut page = "# A real node\n\n\
        <!-- Generated: make node PROFILE=release ARGS=--record. Do not edit. -->\n\
        <!-- not run, all of this page: recorded by make node, which runs it -->\n\n\
        What `make node` did and saw, once, with the program as it is shipped: a kubelet with containerd, real pods, the chart with its\n\
        defaults. Names, addresses and times are those of that run.\n"
        .to_owned();
    let mut is_open = false;
    for line in text.trim().lines() {
        if line.starts_with("## ") {
            let fence = if is_open { "```\n" } else { "" };
            let trimmed = page.trim_end().len();
            page.truncate(trimmed);
            page.push_str(&format!("\n{fence}\n{line}\n"));
            is_open = false;
        } else if is_open {
            page.push_str(&format!("{line}\n"));
        } else if !line.is_empty() {
            page.push_str(&format!("\n```console\n{line}\n"));
            is_open = true;
        }
    }
    page.push_str(if is_open { "```\n" } else { "" });
    page
}
