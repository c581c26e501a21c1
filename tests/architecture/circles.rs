//! No circle of files: no file needs another one that needs the first, also not by way of others.
//!
//! What counts as an arrow: a path in a file's code (in a `use`, or written out) that leads into another file of the same
//! crate. A name that a file only imports or hands on is followed to the file that defines it, so that `pub use` in a
//! `mod.rs` ties nothing to its folder, and neither does `mod`. What does not count: a method that is called on a value, since
//! the text does not tell its type; unit tests.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::{CRATES, Source, assert_none, sources};

/// A path from the crate's folder on: `./core`, `plan`, `copy`, `hold`.
type Path = Vec<String>;

/// One source file.
struct Module<'s> {
    source: &'s Source,
    /// What its `use` items bind, by the name that it has here; `None` where that is of another crate.
    imported: BTreeMap<String, Option<Path>>,
    /// What its code names.
    named: Vec<Path>,
}

type Modules<'s> = BTreeMap<Path, Module<'s>>;

/// The module of a file: `core/src/plan/mod.rs` and `core/src/plan.rs` are `./core`, `plan`.
fn module(file: &str) -> Option<Path> {
    let file = format!("./{}", file.strip_suffix(".rs")?);
    let (folder, inside) = file.split_once("/src/")?;
    let names = inside.split('/').filter(|one| !["mod", "lib", "main"].contains(one));
    Some(std::iter::once(folder).chain(names).map(str::to_owned).collect())
}

/// The paths of a tree of `use`, read by its `words`, each with the name that it binds.
fn leaves(words: &Regex, tree: &str) -> Vec<(String, Path)> {
    let (mut found, mut path, mut open) = (Vec::new(), Path::new(), vec![Path::new()]);
    for word in words.find_iter(&format!("{tree},")) {
        match word.as_str() {
            "{" => open.push(path.clone()),
            end @ ("," | "}") => {
                let is_leaf = open.last() != Some(&path);
                let renamed = path.iter().rposition(|word| word == "as").map(|at| path.split_off(at));
                path.pop_if(|last| *last == "self");
                if let Some(name) = renamed.as_ref().unwrap_or(&path).last().filter(|_| is_leaf) {
                    found.push((name.clone(), path));
                }
                open.pop_if(|_| end == "}");
                path = open.last().cloned().unwrap_or_default();
            }
            word => path.push(word.to_owned()),
        }
    }
    found
}

/// A path as it is written in the module `here`, from the crate's folder on; `None` where it leads out of the crate.
fn absolute(here: &[String], path: &[String], is_module: impl Fn(&[String]) -> bool) -> Option<Path> {
    let ups = path.iter().take_while(|one| *one == "super").count();
    match path.first()?.as_str() {
        "crate" => Some([&here[..1], &path[1..]].concat()),
        "self" => Some([here, &path[1..]].concat()),
        "super" => Some([&here[..here.len().checked_sub(ups)?], &path[ups..]].concat()),
        child => is_module(&[here, &[child.to_owned()]].concat()).then(|| [here, path].concat()),
    }
}

fn modules(sources: &[Source]) -> Modules<'_> {
    let uses = Regex::new(r"(?m)^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);").unwrap();
    let words = Regex::new(r"\w+|[{},]").unwrap();
    let paths = Regex::new(r"(?:\w+::)+\w+").unwrap();
    // Of `lib.rs` and `main.rs`, the first one is the crate's root.
    let known: BTreeMap<Path, &Source> =
        sources.iter().rev().filter_map(|source| Some((module(&source.path)?, source))).collect();
    let is_module = |path: &[String]| known.contains_key(path);
    let read = |here: &Path, source: &Source| {
        let (mut imported, mut named) = (BTreeMap::new(), Vec::new());
        for item in uses.captures_iter(&source.code) {
            for (name, path) in leaves(&words, &item[2]) {
                let path = absolute(here, &path, is_module);
                // What a file hands on from below itself it need not use.
                named.extend(path.clone().filter(|path| item.get(1).is_none() || !path.starts_with(here)));
                imported.insert(name, path);
            }
        }
        for found in paths.find_iter(&uses.replace_all(&source.code, "")) {
            let path: Path = found.as_str().split("::").map(str::to_owned).collect();
            named.extend(match imported.get(&path[0]) {
                Some(known) => known.as_ref().map(|known: &Path| [known.as_slice(), &path[1..]].concat()),
                None => absolute(here, &path, is_module),
            });
        }
        (imported, named)
    };
    known
        .iter()
        .map(|(here, source)| {
            let (imported, named) = read(here, source);
            (here.clone(), Module { source, imported, named })
        })
        .collect()
}

/// The module that defines what a path names. A folder's own name leads nowhere: what is taken of it does.
fn defined_in<'m>(modules: &'m Modules<'_>, path: &[String], steps: usize) -> Option<&'m Path> {
    let inside = (1..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]))?;
    let (name, found) = modules.get_key_value(&path[..inside])?;
    match path.get(inside) {
        None => (!found.source.path.ends_with("/mod.rs")).then_some(name),
        Some(item) => match found.imported.get(item).filter(|_| steps > 0) {
            Some(further) => {
                let path = [further.as_deref()?, &path[inside + 1..]].concat();
                defined_in(modules, &path, steps - 1)
            }
            None => Some(name),
        },
    }
}

#[test]
fn no_files_need_each_other() {
    let mut sources = sources(&[CRATES.as_slice(), &["benches/src"]].concat());
    sources.retain(|source| !source.path.ends_with("/tests.rs") && !source.path.contains("/tests/"));
    let modules = modules(&sources);
    let mut arrows: BTreeMap<(&Path, &Path), &str> = BTreeMap::new();
    for (from, module) in &modules {
        let ends =
            module.named.iter().filter_map(|path| Some((defined_in(&modules, path, 9)?, path.last()?)));
        arrows.extend(ends.filter(|(to, _)| *to != from).map(|(to, name)| ((from, to), name.as_str())));
    }
    assert!(arrows.len() > 1500, "only {} arrows: this test looks in the wrong place", arrows.len());
    // What begins or ends an arrow, but not both, is in no circle.
    loop {
        let before = arrows.len();
        let begins: BTreeSet<&Path> = arrows.keys().map(|(from, _)| *from).collect();
        let ends: BTreeSet<&Path> = arrows.keys().map(|(_, to)| *to).collect();
        arrows.retain(|(from, to), _| ends.contains(from) && begins.contains(to));
        if arrows.len() == before {
            break;
        }
    }
    let file = |path: &Path| &modules[path].source.path;
    let told = arrows.iter().map(|((from, to), name)| {
        format!("{} needs {name} of {}: they are in a circle; move the item below both", file(from), file(to))
    });
    assert_none(told.collect());
}
