//! Which room may import which. A room is a folder or file directly below `src/` of a large crate, or a small crate. Cargo holds the
//! arrows between crates; this test holds the arrows inside crates as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use regex::Regex;

use super::{assert_none, product, root};

/// Each room with the rooms that it may import. A room imports only rooms that stand above it in this table, so no two
/// rooms can need each other. Before an arrow is added, look whether one item stands in the wrong room.
const ROOMS: [(&str, &[&str]); 37] = [
    ("api", &[]),
    ("decoded", &[]),
    ("paths", &[]),
    ("names", &["api"]),
    ("digest", &["names"]),
    ("marks", &["api", "names", "digest"]),
    ("validate", &["api", "decoded", "paths", "names", "digest", "marks"]),
    ("model", &["api", "paths", "names", "digest", "marks", "validate"]),
    ("authority", &["api", "names", "digest", "marks", "validate", "model"]),
    ("plan", &["api", "paths", "names", "digest", "marks", "validate", "model", "authority"]),
    ("explain", &["api", "paths", "names", "digest", "marks", "validate", "model", "authority", "plan"]),
    ("hooks", &["api", "names", "marks", "validate", "model", "plan"]),
    ("crds", &["api"]),
    ("intake", &["api", "decoded", "paths", "names", "marks", "validate", "model", "plan"]),
    ("admit", &["api", "names", "marks", "validate", "model", "authority", "plan"]),
    ("import", &["api", "names", "marks", "validate", "model", "intake"]),
    ("serve", &[]),
    ("connect", &[]),
    ("config", &["names", "model", "hooks", "connect"]),
    ("read", &["api", "decoded", "paths", "names", "digest", "marks", "model", "plan", "intake", "connect"]),
    ("access", &["names", "validate", "model", "authority", "plan", "admit"]),
    (
        "dry_run",
        &["api", "decoded", "paths", "names", "marks", "model", "plan", "intake", "admit", "connect", "read"],
    ),
    ("render", &["names", "digest", "marks", "validate", "model", "plan", "read", "dry_run"]),
    ("observe", &["api", "decoded", "names", "marks", "model", "plan", "hooks", "crds", "intake", "read"]),
    ("webhook", &["api", "model", "admit", "access"]),
    (
        "act",
        &[
            "api", "decoded", "paths", "names", "digest", "marks", "model", "plan", "explain", "hooks",
            "serve", "connect", "config", "read", "dry_run", "observe",
        ],
    ),
    (
        "reconcile",
        &[
            "api",
            "names",
            "digest",
            "marks",
            "validate",
            "model",
            "authority",
            "plan",
            "explain",
            "hooks",
            "connect",
            "read",
            "access",
            "dry_run",
            "render",
            "observe",
            "act",
        ],
    ),
    (
        "run",
        &[
            "api",
            "decoded",
            "names",
            "marks",
            "model",
            "hooks",
            "intake",
            "admit",
            "serve",
            "connect",
            "config",
            "read",
            "access",
            "observe",
            "webhook",
            "act",
            "reconcile",
        ],
    ),
    ("terminal", &["validate"]),
    ("arguments", &["api", "names", "validate", "model", "authority", "hooks", "connect"]),
    ("installed", &["api", "names", "model", "authority", "hooks", "config", "read", "access", "arguments"]),
    ("files", &["api", "names", "validate", "model", "authority", "plan", "intake", "admit"]),
    (
        "survey",
        &[
            "api",
            "decoded",
            "names",
            "digest",
            "marks",
            "validate",
            "model",
            "authority",
            "plan",
            "explain",
            "intake",
            "admit",
            "read",
            "access",
            "dry_run",
            "render",
            "terminal",
            "arguments",
            "installed",
            "files",
        ],
    ),
    ("states", &["api", "decoded", "names", "marks", "plan", "explain", "terminal", "installed", "survey"]),
    (
        "commands",
        &[
            "api",
            "decoded",
            "names",
            "marks",
            "validate",
            "model",
            "authority",
            "plan",
            "explain",
            "hooks",
            "crds",
            "intake",
            "admit",
            "import",
            "config",
            "read",
            "access",
            "dry_run",
            "terminal",
            "arguments",
            "installed",
            "files",
            "survey",
            "states",
        ],
    ),
    (
        "console",
        &[
            "api",
            "names",
            "marks",
            "model",
            "plan",
            "explain",
            "serve",
            "connect",
            "config",
            "read",
            "access",
            "terminal",
            "arguments",
            "installed",
            "files",
            "survey",
            "states",
            "commands",
        ],
    ),
    (
        "program",
        &["model", "names", "connect", "config", "run", "terminal", "arguments", "commands", "console"],
    ),
];

/// One path of product code that leaves its room.
struct Arrow {
    from: String,
    to: String,
    /// File and line.
    place: String,
}

/// The crates with rooms of their own. Each other crate is one room, by the name of its folder.
const WITH_ROOMS: [&str; 4] = ["core", "cluster", "operator", "cli"];

/// The crate's folder and the path below `src/`; the program's own folder is empty.
fn in_crate(path: &str) -> (&str, &str) {
    path.split_once("/src/").unwrap_or(("", path.strip_prefix("src/").unwrap_or(path)))
}

/// The room of a file, by its path from the top of the repository; `None` for `lib.rs`, and for the crates below `core`.
fn room(path: &str) -> Option<&str> {
    let (folder, inside) = in_crate(path);
    match folder {
        "" => (inside != "lib.rs").then_some("program"),
        "cel" => None,
        folder if WITH_ROOMS.contains(&folder) => {
            let first = inside.split('/').next()?;
            let name = first.strip_suffix(".rs").unwrap_or(first);
            (name != "lib").then_some(name)
        }
        folder => Some(folder),
    }
}

/// What each crate without rooms declares in its `lib.rs`, by the crate's folder: its modules, and what it exports of them.
fn own_names() -> BTreeMap<String, BTreeSet<String>> {
    let declared = Regex::new(r"(?m)^(?:pub(?:\([a-z]+\))? )?mod (\w+);").unwrap();
    let exported = Regex::new(r"(?m)^pub(?:\([a-z]+\))? use (\w+)::([^;]+);").unwrap();
    let word = Regex::new(r"\w+").unwrap();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in product() {
        let (folder, inside) = in_crate(&source.path);
        if inside != "lib.rs" || WITH_ROOMS.contains(&folder) {
            continue;
        }
        let own = found.entry(folder.to_owned()).or_default();
        own.extend(declared.captures_iter(&source.code).map(|module| module[1].to_owned()));
        for export in
            exported.captures_iter(&source.code).filter(|export| !export[1].starts_with("copyrator"))
        {
            own.extend(word.find_iter(&export[2]).map(|name| name.as_str().to_owned()));
        }
    }
    found
}

/// How deep below the crate the module of a file is: `src/plan/mod.rs` is 1, `src/plan/need.rs` is 2. A crate without rooms is
/// its own room, so no path leaves it.
fn depth(path: &str) -> usize {
    let (folder, inside) = in_crate(path);
    if !WITH_ROOMS.contains(&folder) {
        return usize::MAX;
    }
    inside.matches('/').count() + 1 - usize::from(path.ends_with("/mod.rs"))
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|one: char| !one.is_alphanumeric() && one != '_').unwrap_or(text.len())]
}

/// The words after `crate::`: one, or those at the top of a group; with where each begins.
fn named(text: &str) -> Vec<(usize, &str)> {
    if !text.starts_with('{') {
        return vec![(0, first_word(text))];
    }
    let mut found = vec![(1, first_word(&text[1..]))];
    let mut level = 0;
    for (at, one) in text.char_indices() {
        match one {
            '{' => level += 1,
            '}' if level == 1 => break,
            '}' => level -= 1,
            ',' if level == 1 => found.push((at + 1, first_word(&text[at + 1..]))),
            _ => {}
        }
    }
    found.retain(|(_, word)| !word.is_empty());
    found
}

/// Every arrow of product code, and every path that climbs out of its room by `super::`.
fn arrows() -> (Vec<Arrow>, Vec<String>) {
    let of_crate =
        Regex::new(r"\bcopyrator_(core|cluster|operator|cli|console|import|serve)(?:::| as )").unwrap();
    let own = own_names();
    let (mut arrows, mut climbing) = (Vec::new(), Vec::new());
    for source in product() {
        let Some(from) = room(&source.path) else { continue };
        let place = |at: usize| {
            let rest = &source.code[at..];
            let at = at + rest.len() - rest.trim_start().len();
            format!("{}:{}", source.path, source.code[..at].matches('\n').count() + 1)
        };
        let folder = in_crate(&source.path).0;
        for (at, path) in source.code.match_indices("crate::") {
            let begin = at + path.len();
            for (offset, word) in named(&source.code[begin..]) {
                let is_own = own.get(folder).is_some_and(|own| own.contains(word));
                let to = if is_own { from } else { word };
                if to != from {
                    arrows.push(Arrow { from: from.into(), to: to.into(), place: place(begin + offset) });
                }
            }
        }
        for found in of_crate.captures_iter(&source.code) {
            let (begin, other) = (found.get(0).map_or(0, |all| all.end()), &found[1]);
            if WITH_ROOMS.contains(&other) && other != "operator" {
                for (offset, to) in named(&source.code[begin..]) {
                    arrows.push(Arrow { from: from.into(), to: to.into(), place: place(begin + offset) });
                }
            } else {
                let to = if other == "operator" { "run" } else { other };
                arrows.push(Arrow { from: from.into(), to: to.into(), place: place(begin) });
            }
        }
        let depth = depth(&source.path);
        if depth < usize::MAX {
            for (at, _) in source.code.match_indices(&"super::".repeat(depth)) {
                climbing.push(format!("{}: `super::` leaves the room: write `crate::`", place(at)));
            }
        }
    }
    (arrows, climbing)
}

#[test]
fn rooms_import_only_what_the_table_allows() {
    let (arrows, mut findings) = arrows();
    let known: BTreeSet<&str> = ROOMS.iter().map(|(room, _)| *room).collect();
    for Arrow { from, to, place } in &arrows {
        match ROOMS.iter().find(|(room, _)| room == from) {
            None => findings.push(format!("{place}: room {from} is not in the table of tests/architecture")),
            Some(_) if !known.contains(to.as_str()) => {
                findings.push(format!("{place}: `crate::{to}` is no room"));
            }
            Some((_, allowed)) if !allowed.contains(&to.as_str()) => findings.push(format!(
                "{place}: {from} imports {to}: the table of tests/architecture does not allow it; \
                 take the value in, or move the item to the room that both may import"
            )),
            Some(_) => {}
        }
    }
    assert_none(findings);
}

#[test]
fn the_table_of_rooms_has_no_circle_and_no_arrow_that_nobody_needs() {
    let arrows = arrows().0;
    assert!(arrows.len() > 500, "only {} arrows: this test looks in the wrong place", arrows.len());
    let mut findings = Vec::new();
    let mut above: BTreeSet<&str> = BTreeSet::new();
    for (room, allowed) in ROOMS {
        for to in allowed {
            if !above.contains(to) {
                findings.push(format!("{room} may import {to}, which does not stand above it"));
            }
            if !arrows.iter().any(|arrow| arrow.from == room && arrow.to == *to) {
                findings.push(format!("{room} imports {to} nowhere: take it out of the table"));
            }
        }
        above.insert(room);
    }
    let product = product();
    let there: BTreeSet<&str> = product.iter().filter_map(|source| room(&source.path)).collect();
    findings.extend(
        there.symmetric_difference(&above).map(|room| format!("{room}: in the source or in the table only")),
    );
    assert_none(findings);
}

#[test]
fn the_map_has_every_room_in_the_order_of_the_table() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut rooms: Vec<&str> =
        page.lines().filter_map(|line| room(line.strip_prefix("| `")?.split('`').next()?)).collect();
    rooms.dedup();
    // The map goes from the top down.
    rooms.reverse();
    assert_eq!(rooms, ROOMS.map(|(room, _)| room), "correct the map of ARCHITECTURE.md");
}
