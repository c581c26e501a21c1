//! The comments of values.yaml are what people read of each value: in the file, in the chart's README.md, and in the
//! schema, which editors show.

use std::{env, fs};

use serde_json::Value;

use crate::{documents, path};

const VALUES: &str = "charts/copyrator/values.yaml";
const SCHEMA: &str = "charts/copyrator/values.schema.json";
const README: &str = "charts/copyrator/README.md";
/// Where README.md goes on with what is made of values.yaml.
const MADE: &str = "\n## Values\n";

/// One key of values.yaml.
struct Entry {
    path: Vec<String>,
    /// Its comment, in one line.
    about: String,
    /// Its default as it is written; empty where it has keys of its own.
    default: String,
}

/// Comments stand above their key, two spaces further in for each level.
fn entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut about: Vec<&str> = Vec::new();
    for line in text.lines() {
        let inner = line.trim_start();
        if let Some(comment) = inner.strip_prefix('#') {
            about.push(comment.trim());
        } else if inner.is_empty() {
            about.clear();
        } else {
            let (key, default) = inner.split_once(':').unwrap_or_else(|| panic!("{VALUES}: {line}"));
            open.truncate((line.len() - inner.len()) / 2);
            open.push(key.to_owned());
            let (about, default) = (std::mem::take(&mut about).join(" "), default.trim().to_owned());
            entries.push(Entry { path: open.clone(), about, default });
        }
    }
    entries
}

fn text(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn schema() -> Value {
    serde_json::from_str(&text(SCHEMA)).unwrap()
}

fn is_blessed() -> bool {
    env::var_os("COPYRATOR_BLESS").is_some()
}

#[test]
fn every_value_says_what_it_means() {
    let entries = entries(&text(VALUES));
    assert!(entries.len() > 100, "only {} values were found", entries.len());
    for Entry { path, about, .. } in &entries {
        assert!(about.ends_with(['.', ':', ']', '}', '-', '…']) || about.len() > 20, "{path:?}: {about:?}");
    }
}

/// Strict at every level, but for `global`, which is other charts' too.
#[test]
fn values_and_schema_name_the_same_keys() {
    let values = documents("values.yaml", &text(VALUES));
    alike("", &values[0], &schema());
}

fn alike(at: &str, value: &Value, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    assert_eq!(schema["additionalProperties"], false, "{at}: the schema takes any key");
    let values = value.as_object().unwrap_or_else(|| panic!("{at} is not a map in {VALUES}"));
    let mut named: Vec<&String> = values.keys().collect();
    named.sort();
    let mut known: Vec<&String> = properties.keys().collect();
    known.sort();
    assert_eq!(named, known, "{at}: {VALUES} and {SCHEMA} differ");
    values.iter().for_each(|(key, value)| alike(&format!("{at}.{key}"), value, &properties[key]));
}

#[test]
fn the_schema_describes_each_value_as_the_file_does() {
    let mut schema = schema();
    for Entry { path, about, .. } in entries(&text(VALUES)) {
        let pointer = format!("/properties/{}", path.join("/properties/"));
        let property = schema.pointer_mut(&pointer).unwrap_or_else(|| panic!("{SCHEMA} has no {path:?}"));
        property["description"] = about.into();
    }
    let described = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    if is_blessed() {
        fs::write(path(SCHEMA), &described).unwrap();
    }
    assert!(text(SCHEMA) == described, "{SCHEMA} is stale: COPYRATOR_BLESS=1 cargo test --test manifests");
}

#[test]
fn the_readme_lists_every_value() {
    let readme = text(README);
    let (own, _) = readme.split_once(MADE).unwrap_or_else(|| panic!("{README} has no section of values"));
    let mut made = format!(
        "{own}{MADE}\nMade of [values.yaml](values.yaml): `COPYRATOR_BLESS=1 cargo test --test manifests`.\n\n\
         | value | default | |\n|---|---|---|\n"
    );
    for Entry { path, about, default } in entries(&text(VALUES)) {
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        // A bar would begin the next column, in code, too.
        let [default, about] = [default, about].map(|cell| cell.replace('|', "\\|").replace('<', "&lt;"));
        made.push_str(&format!("| `{}` | {default} | {about} |", path.join(".")));
        made.push('\n');
    }
    if is_blessed() {
        fs::write(crate::path(README), &made).unwrap();
    }
    assert!(text(README) == made, "{README} is stale: COPYRATOR_BLESS=1 cargo test --test manifests");
}
