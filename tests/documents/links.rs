//! Links between documents: each leads to a file, and to a heading of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use crate::blocks::top;

/// A fenced block or a piece of code, in which nothing is a link.
static CODE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?ms)^ *```.*?^ *```|`[^`\n]+`").expect("a pattern"));
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern"));

/// Every document of the repository, in whatever folder.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is there").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        match path.is_dir() {
            true if name != "target" && !name.to_string_lossy().starts_with('.') => pages(&path, found),
            false if path.extension().is_some_and(|extension| extension == "md") => found.push(path),
            _ => {}
        }
    }
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let fences = Regex::new(r"(?ms)^ *```.*?^ *```").expect("a pattern");
    let text = fences.replace_all(text, "");
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let headings = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |letter: &char| letter.is_alphanumeric() || "-_ ".contains(*letter);
    headings.map(|heading| heading.chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

/// A path without `.` and `..`, so that it can be shown.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// What is wrong with a link of a page, if anything.
fn fault(page: &Path, text: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => plain(&page.parent()?.join(file)),
    };
    if !target.exists() {
        return Some(format!("{link}: there is no {}", target.strip_prefix(top()).ok()?.display()));
    }
    if anchor.is_empty() {
        return None;
    }
    let there = if target == page { text.to_owned() } else { fs::read_to_string(&target).ok()? };
    (!anchors(&there).contains(anchor)).then(|| format!("{link}: there is no such heading"))
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut found = Vec::new();
    pages(top(), &mut found);
    let (mut count, mut faults) = (0, Vec::new());
    for page in &found {
        let text = fs::read_to_string(page).expect("documents are text");
        let prose = CODE.replace_all(&text, "");
        for link in LINK.captures_iter(&prose) {
            count += 1;
            let name = page.strip_prefix(top()).expect("it is in the repository").display();
            faults.extend(fault(page, &text, &link[1]).map(|fault| format!("{name}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "dead links:\n{}", faults.join("\n"));
    assert!(count > 300, "only {count} links were found");
}

/// What no first page names, nobody finds.
#[test]
fn each_first_page_names_every_page_beside_it() {
    for folder in ["docs", "docs/decisions"] {
        let first = fs::read_to_string(top().join(folder).join("README.md")).expect("it is there");
        let entries = fs::read_dir(top().join(folder)).expect("the folder is there").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let left_out: Vec<String> = names
            .filter(|name| name.ends_with(".md") && name != "README.md")
            .filter(|name| !first.contains(&format!("]({name})")))
            .collect();
        assert!(left_out.is_empty(), "{folder}/README.md does not name {left_out:?}");
    }
}

/// A new user reads this page, and maybe no other.
#[test]
fn the_first_page_is_short() {
    let text = fs::read_to_string(top().join("README.md")).expect("it is there");
    assert!(text.lines().count() <= 150, "README.md has {} lines: move some to docs/", text.lines().count());
}

#[test]
fn a_dead_link_is_found() {
    let page = top().join("docs/limits.md");
    let text = "# Some page, `code` & more\n```sh\n# no heading\n```\n";
    assert_eq!(anchors(text), BTreeSet::from(["some-page-code--more".to_owned()]));
    for link in ["https://example.com/x", "#some-page-code--more", "../README.md", "../README.md#install"] {
        assert_eq!(fault(&page, text, link), None, "{link}");
    }
    for link in ["#no-heading", "no.md", "../README.md#no-heading"] {
        assert!(fault(&page, text, link).is_some(), "{link}");
    }
}

/// The compiler refuses the marks of a conflict in code; in a page only its readers would see them.
#[test]
fn no_page_has_what_a_merge_leaves() {
    let mut all = Vec::new();
    pages(top(), &mut all);
    let is_left = |line: &str| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark));
    let left = all.iter().filter(|page| fs::read_to_string(page).expect("a page").lines().any(is_left));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}
