//! Reads files of manifests into documents with their positions. A message about a document never quotes the
//! document, which may be a Secret.

use std::{
    fmt,
    io::Read as _,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Where a document begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Place {
    /// The file, as the user named it; `-` is standard input.
    pub file: String,
    /// Where its document begins, from 1.
    pub line: u64,
    /// Which document of the file it is, from 1.
    pub document: usize,
    /// The index in a List, whose items share line and document.
    #[serde(skip)]
    pub item: usize,
}

/// `FILE:LINE`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One document of a file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Where the document begins.
    pub place: Place,
    /// The document, parsed as YAML or JSON.
    pub value: Value,
}

impl Document {
    /// The text at a JSON pointer; empty without a text.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Why a file cannot be read as documents.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A file cannot be read.
    #[error("cannot read {file}")]
    Read {
        /// The file.
        file: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A directory has no manifest.
    #[error("{file} contains no .yaml, .yml or .json file")]
    Empty {
        /// The file or directory.
        file: String,
    },
    /// A file is not valid YAML or JSON.
    #[error("{file}:{line}: {what}")]
    Parse {
        /// The file.
        file: String,
        /// The line of the fault, from 1.
        line: u64,
        /// The fault.
        what: &'static str,
    },
}

/// Reads files, the YAML and JSON files of directories, and `-`, which is standard input. Each item of a List
/// becomes a document.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for path in paths {
        for file in files(path)? {
            let name = file.display().to_string();
            let failed = |source| ManifestError::Read { file: name.clone(), source };
            let text = if file == Path::new("-") {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).map_err(failed)?;
                text
            } else {
                std::fs::read_to_string(&file).map_err(failed)?
            };
            documents.extend(parse(&name, &text)?);
        }
    }
    Ok(documents)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let file = path.display().to_string();
    let failed = |source| ManifestError::Read { file: file.clone(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?.path();
        let suffix = entry.extension().and_then(|suffix| suffix.to_str());
        if entry.is_file() && suffix.is_some_and(|suffix| ["yaml", "yml", "json"].contains(&suffix)) {
            found.push(entry);
        }
    }
    found.sort();
    if found.is_empty() { Err(ManifestError::Empty { file }) } else { Ok(found) }
}

/// The documents of a text that is called `file` in messages.
///
/// # Errors
/// The text is not YAML or JSON, or has a document that is not an object.
pub fn parse(file: &str, text: &str) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    let mut number = 0;
    for (first, chunk) in chunks(text) {
        let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let Some(offset) = chunk.lines().position(is_content) else { continue };
        let error = |line: u64, what| ManifestError::Parse { file: file.to_owned(), line, what };
        let options = serde_saphyr::options! { with_snippet: false };
        let value: Value = serde_saphyr::from_str_with_options(&chunk, options).map_err(|cause| {
            let line = cause.location().map_or(offset as u64 + 1, |at| at.line().max(1));
            error(
                first + line - 1,
                "is not valid YAML or JSON, or has a duplicate key; correct it there (a chart's templates must be rendered first)",
            )
        })?;
        let line = first + offset as u64;
        number += 1;
        let document = |(item, value)| Document {
            place: Place { file: file.to_owned(), line, document: number, item },
            value,
        };
        match value {
            Value::Null => {}
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                let Some(Value::Array(items)) = list.remove("items") else { continue };
                documents.extend(items.into_iter().enumerate().map(document));
            }
            Value::Object(_) => documents.push(document((0, value))),
            _ => return Err(error(line, "is not an object; write apiVersion, kind, metadata and spec")),
        }
    }
    Ok(documents)
}

/// The documents of a stream, each with the number of its first line. `---` at the beginning of a line always
/// separates two documents: YAML allows `---` nowhere else.
fn chunks(text: &str) -> Vec<(u64, String)> {
    let mut chunks = vec![(1, String::new())];
    for (index, line) in text.lines().enumerate() {
        let rest = line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if rest.is_some() {
            chunks.push((index as u64 + 1, String::new()));
        }
        if let Some((_, chunk)) = chunks.last_mut() {
            chunk.push_str(rest.unwrap_or(line));
            chunk.push('\n');
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_knows_its_line() {
        let text = "# rules\n\nkind: A\n---\n# nothing\n---\n\nkind: B\ntext: |\n  ---\n---\nkind: List\nitems: [{kind: C}, {kind: D}]\n";
        let found = parse("f.yaml", text).unwrap();
        let found: Vec<_> =
            found.iter().map(|it| format!("{} {}", it.place, it.value["kind"].as_str().unwrap())).collect();
        assert_eq!(found, ["f.yaml:3 A", "f.yaml:8 B", "f.yaml:12 C", "f.yaml:12 D"]);
    }

    #[test]
    fn what_cannot_be_read_is_named_by_line_and_not_quoted() {
        for (text, expected) in [
            ("kind: A\n---\nkind: B\ndata: {password: 'hunter2\n", "f.yaml:"),
            ("kind: A\n---\nkind: B\nkind: hunter2\n", "f.yaml:4: "),
            ("kind: A\n---\nhunter2\n", "f.yaml:3: is not an object"),
            (r#"{"kind": "A", "kind": "hunter2"}"#, "f.yaml:1: "),
        ] {
            let said = parse("f.yaml", text).unwrap_err().to_string();
            assert!(said.starts_with(expected) && !said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn a_folder_is_its_manifests_and_one_without_any_is_a_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let said = read(&[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(said.ends_with("contains no .yaml, .yml or .json file"), "{said}");
        std::fs::write(folder.path().join("b.json"), r#"{"kind": "B"}"#).unwrap();
        std::fs::write(folder.path().join("a.yaml"), "kind: A").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "- : no").unwrap();
        let kinds = read(&[folder.path().to_owned()]).unwrap();
        assert_eq!(kinds.iter().map(|it| &it.value["kind"]).collect::<Vec<_>>(), ["A", "B"]);
        assert!(read(&[folder.path().join("c.yaml")]).unwrap_err().to_string().starts_with("cannot read "));
    }
}
