//! Which room may import which: a folder or file directly below `core/src/` or `src/` is a room.

use std::collections::BTreeSet;
use std::fs;

use super::{assert_none, product, root};

/// Each room with the rooms that it may import. A room imports only rooms that stand above it in this table, so no two
/// rooms can need each other. Before an arrow is added, look whether one item stands in the wrong room.
const ROOMS: [(&str, &[&str]); 26] = [
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
    ("explain", &["api", "names", "paths", "digest", "marks", "validate", "model", "authority", "plan"]),
    ("hooks", &["api", "names", "marks", "validate", "model", "plan"]),
    ("crds", &["api"]),
    ("intake", &["api", "decoded", "paths", "names", "marks", "validate", "model", "plan"]),
    ("import", &["api", "names", "marks", "validate", "model", "intake"]),
    ("admit", &["api", "names", "marks", "validate", "model", "authority", "plan"]),
    ("serve", &[]),
    ("cluster", &[]),
    ("config", &["names", "model", "hooks", "cluster"]),
    ("access", &["authority", "model", "names"]),
    (
        "observe",
        &["api", "decoded", "paths", "names", "digest", "marks", "model", "plan", "hooks", "crds", "intake"],
    ),
    ("webhook", &["api", "model", "access", "authority", "admit"]),
    (
        "act",
        &[
            "api", "paths", "names", "digest", "marks", "model", "plan", "explain", "hooks", "observe",
            "serve", "cluster", "config", "admit", "intake", "decoded",
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
            "access",
            "observe",
            "cluster",
            "act",
        ],
    ),
    (
        "run",
        &[
            "api",
            "names",
            "marks",
            "model",
            "hooks",
            "observe",
            "serve",
            "cluster",
            "config",
            "admit",
            "access",
            "act",
            "reconcile",
            "webhook",
            "intake",
            "decoded",
        ],
    ),
    (
        "cli",
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
            "hooks",
            "crds",
            "observe",
            "intake",
            "import",
            "serve",
            "cluster",
            "config",
            "admit",
            "access",
            "act",
            "reconcile",
            "run",
            "webhook",
        ],
    ),
];

/// One path of product code that leaves its room.
struct Arrow {
    from: String,
    to: String,
    /// File and line.
    place: String,
}

/// The room of a file, by its path from the top of the repository; `None` for `lib.rs` and `main.rs`.
fn room(path: &str) -> Option<&str> {
    let path = path.strip_prefix("core/").unwrap_or(path);
    let first = path.strip_prefix("src/")?.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main"].contains(&name)).then_some(name)
}

/// How deep below the crate the module of a file is: `src/plan/mod.rs` is 1, `src/plan/need.rs` is 2.
fn depth(path: &str) -> usize {
    let path = path.strip_prefix("core/").unwrap_or(path);
    path.matches('/').count() - usize::from(path.ends_with("/mod.rs"))
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
    let (mut arrows, mut climbing) = (Vec::new(), Vec::new());
    for source in product() {
        let Some(from) = room(&source.path) else { continue };
        let place = |at: usize| {
            let rest = &source.code[at..];
            let at = at + rest.len() - rest.trim_start().len();
            format!("{}:{}", source.path, source.code[..at].matches('\n').count() + 1)
        };
        for (at, path) in source.code.match_indices("crate::") {
            let begin = at + path.len();
            for (offset, to) in named(&source.code[begin..]).into_iter().filter(|(_, to)| *to != from) {
                arrows.push(Arrow { from: from.into(), to: to.into(), place: place(begin + offset) });
            }
        }
        let up = "super::".repeat(depth(&source.path));
        for (at, _) in source.code.match_indices(&up) {
            climbing.push(format!("{}: `super::` leaves the room: write `crate::`", place(at)));
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
    let mut rooms: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `core/src/").or_else(|| line.strip_prefix("| `src/")))
        .map(first_word)
        .collect();
    rooms.dedup();
    // The map goes from the top down.
    rooms.reverse();
    assert_eq!(rooms, ROOMS.map(|(room, _)| room), "correct the map of ARCHITECTURE.md");
}
