//! Keeps what was found as JSON: each run in `target/bench`, and on request in `benches/runs`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::figures::Report;

/// Writes `target/bench/NAME.json`, or `target/bench/quick/NAME.json`: where to.
pub(crate) fn json(report: &Report) -> Outcome<PathBuf> {
    let mut folder = repository().join("target/bench");
    if report.sizes.quick {
        folder.push("quick");
    }
    write(report, &folder, &format!("{}.json", report.benchmark))
}

/// Writes `benches/runs/DATE-NAME.json`, which belongs into the repository: where to.
pub(crate) fn keep(report: &Report) -> Outcome<PathBuf> {
    write(&public(report), &repository().join("benches/runs"), &kept_name(report.benchmark, &report.began))
}

fn write(report: &Report, folder: &Path, name: &str) -> Outcome<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(name);
    let mut text = serde_json::to_vec_pretty(report)?;
    text.push(b'\n');
    fs::write(&path, text)?;
    Ok(path.canonicalize()?)
}

/// The report without the folder that the program lies in, which is of this machine alone.
fn public(report: &Report) -> Report {
    let mut report = report.clone();
    report.program.path = report.program.path.file_name().map(PathBuf::from).unwrap_or_default();
    report
}

/// The name of a kept run: the day on which it began, and the benchmark.
fn kept_name(benchmark: &str, began: &str) -> String {
    let day = began.split(' ').next().unwrap_or(began);
    format!("{day}-{benchmark}.json")
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_kept_run_is_named_by_its_day_and_benchmark() {
        assert_eq!(kept_name("fan-out", "2026-11-27 02:33"), "2026-11-27-fan-out.json");
    }

    /// The page has only medians: each row leads to the file with the rest.
    #[test]
    fn the_document_links_runs_that_are_kept() {
        let page = fs::read_to_string(repository().join("docs/benchmarks.md")).unwrap();
        let linked: BTreeSet<&str> =
            page.split("](../benches/runs/").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(linked.len() > 10, "docs/benchmarks.md links {linked:?}");
        for name in linked {
            let text = fs::read(repository().join("benches/runs").join(name)).unwrap();
            let run: Value = serde_json::from_slice(&text).unwrap();
            assert!(run["figures"].as_array().is_some_and(|figures| !figures.is_empty()), "{name}");
        }
    }
}
