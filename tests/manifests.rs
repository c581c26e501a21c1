//! What users and charts apply is what the code says: definitions, policies, chart, examples, schemas and flags; and what a
//! release is made by and of has the form it must have: workflows, scripts, annotations.
//!
//! After a change of the kinds, the policies or the values: `COPYRATOR_BLESS=1 cargo test --test manifests` writes the chart's
//! files and the schemas.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "manifests/catalogue.rs"]
mod catalogue;
#[path = "manifests/chart.rs"]
mod chart;
#[path = "manifests/definitions.rs"]
mod definitions;
#[path = "manifests/evolution.rs"]
mod evolution;
#[path = "manifests/examples.rs"]
mod examples;
#[path = "manifests/flags.rs"]
mod flags;
#[path = "manifests/health.rs"]
mod health;
#[path = "manifests/policies.rs"]
mod policies;
#[path = "manifests/publishing.rs"]
mod publishing;
#[path = "manifests/recipes.rs"]
mod recipes;
#[path = "manifests/release.rs"]
mod release;
#[path = "manifests/schemas.rs"]
mod schemas;
#[path = "manifests/signing.rs"]
mod signing;
#[path = "manifests/values.rs"]
mod values;
#[path = "manifests/workflows.rs"]
mod workflows;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A path below the repository's root.
fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

/// Name and text of every file in a folder itself, by name.
fn files(folder: &str) -> Vec<(String, String)> {
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("names are UTF-8");
        (name, fs::read_to_string(entry.path()).expect("files are text"))
    };
    let entries = fs::read_dir(path(folder)).expect(folder).map(|entry| entry.expect(folder));
    let mut files: Vec<_> = entries.filter(|entry| entry.path().is_file()).map(read).collect();
    files.sort();
    files
}

/// Every YAML document of a text.
fn documents(name: &str, text: &str) -> Vec<serde_json::Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}
