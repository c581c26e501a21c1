//! Keeps what was found: JSON for programs, and the tables of `docs/benchmarks.md`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::figures::Report;
use crate::table;

/// Writes `target/bench/NAME.json`, or `target/bench/quick/NAME.json`: where to.
pub(crate) fn json(report: &Report) -> Outcome<PathBuf> {
    let mut folder = repository().join("target/bench");
    if report.sizes.quick {
        folder.push("quick");
    }
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}.json", report.benchmark));
    fs::write(&path, serde_json::to_vec_pretty(report)?)?;
    Ok(path.canonicalize()?)
}

/// Puts a report's table where `docs/benchmarks.md` has the one of its last run.
pub(crate) fn in_documents(report: &Report) -> Outcome<()> {
    let path = repository().join("docs/benchmarks.md");
    let text = fs::read_to_string(&path)?;
    let text = replace(&text, report.benchmark, &table::render(report))
        .ok_or_else(|| format!("{} lacks the marks of {}", path.display(), report.benchmark))?;
    Ok(fs::write(&path, text)?)
}

/// The text with another content between the marks of a benchmark.
fn replace(text: &str, benchmark: &str, content: &str) -> Option<String> {
    let begin = format!("<!-- begin {benchmark} -->\n");
    let end = format!("<!-- end {benchmark} -->");
    let (head, rest) = text.split_once(&begin)?;
    let (_, tail) = rest.split_once(&end)?;
    Some(format!("{head}{begin}{content}{end}{tail}"))
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = "# A\n<!-- begin a -->\nold\n<!-- end a -->\n<!-- begin b -->\nb\n<!-- end b -->\n";
        let expected = "# A\n<!-- begin a -->\nnew\n<!-- end a -->\n<!-- begin b -->\nb\n<!-- end b -->\n";
        assert_eq!(replace(text, "a", "new\n").as_deref(), Some(expected));
        assert_eq!(replace(text, "c", "new\n"), None);
    }

    #[test]
    fn the_document_has_a_place_for_each_benchmark() {
        let text = fs::read_to_string(repository().join("docs/benchmarks.md")).unwrap();
        for benchmark in crate::benchmarks::ALL {
            let name = benchmark.name();
            assert!(replace(&text, name, "").is_some(), "docs/benchmarks.md lacks the marks of {name}");
        }
    }
}
