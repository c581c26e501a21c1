//! What the documents say to write and to type is tried: every YAML block by the API server (server-side dry run) and by
//! `copyrator check`, every command block in a cluster into which the chart is installed as people do.
//!
//! A fence says what is in it: `yaml` (manifests; `yaml values` is for the chart, `yaml objects` a list of a
//! template's objects, and `file=NAME` keeps it for later commands),
//! `sh` (run as one script), `console` (commands after `$`, whose output is compared), `json`, `text`. Comments right before a
//! fence, which nobody sees on the page, say more:
//!
//! - `<!-- not run: WHY -->`, `<!-- not applied: WHY -->`: left out, and listed;
//! - `<!-- refused -->`: the API server and `check` must refuse it, by its rules rather than for want of something;
//! - `<!-- first: COMMANDS -->`, `<!-- then: COMMANDS -->`: what has to be so before, or after, run without being shown.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what went wrong by failing")]
#![allow(clippy::print_stdout, reason = "what was not run is listed")]

mod blocks;
mod commands;
mod ground;
mod links;
mod output;
mod yaml;

use std::collections::BTreeMap;

use blocks::{Block, Document, documents};

/// Pages for people who operate Copyrator. Each has a cluster of its own, as each is read by itself.
const OPERATING: [&str; 4] =
    ["docs/install.md", "docs/emergency.md", "docs/certificates.md", "docs/backup.md"];

/// A fence without a word would be neither run nor missed.
#[test]
fn every_fence_says_what_is_in_it() {
    let mut left_out: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let documents = documents();
    let blocks: Vec<(&Document, &Block)> = documents
        .iter()
        .flat_map(|document| document.blocks.iter().map(move |block| (document, block)))
        .collect();
    let unknown: Vec<String> = blocks
        .iter()
        .filter(|(_, block)| !block.is_known())
        .map(|(document, block)| format!("{}: ```{}", document.at(block), block.language))
        .collect();
    assert!(unknown.is_empty(), "say what these are (tests/documents/main.rs): {unknown:#?}");
    for (document, block) in &blocks {
        if let Some(why) = &block.left_out {
            assert!(!why.is_empty(), "{}: say why it is left out", document.at(block));
            left_out.entry(why).or_default().push(document.at(block));
        }
    }
    let reach_out: Vec<String> = blocks
        .iter()
        .filter(|(_, block)| block.is_command() && block.is_tried())
        .filter_map(|(document, block)| Some(format!("{}: {}", document.at(block), block.reaches_out()?)))
        .collect();
    assert!(reach_out.is_empty(), "these act on the machine: say why they are not run: {reach_out:#?}");
    let hidden: Vec<String> = blocks
        .iter()
        .filter_map(|(document, block)| Some(format!("{}: {}", document.at(block), block.hidden_command()?)))
        .collect();
    assert!(hidden.is_empty(), "these are commands: say `sh` or `console`, or why not: {hidden:#?}");
    let tried = blocks.iter().filter(|(_, block)| block.is_tried()).count();
    let count: usize = left_out.values().map(Vec::len).sum();
    println!("{tried} blocks are tried; {count} are not: {left_out:#?}");
    assert!(tried > 40 && count < tried, "{tried} tried and {count} left out");
}

/// The page that a platform team reads first, from an empty cluster to an empty cluster.
#[test]
fn getting_started_does_what_it_says() {
    commands::run("docs/getting-started.md");
}

#[test]
fn the_commands_of_the_readme_do_what_it_says() {
    commands::run("README.md");
}

#[test]
fn the_commands_of_the_pages_about_operating_do_what_they_say() {
    OPERATING.into_iter().for_each(commands::run);
}

#[test]
fn the_commands_of_the_webhook_configurations_do_what_they_say() {
    commands::run("webhook-config/README.md");
}

#[test]
fn the_commands_of_the_charts_notes_do_what_they_say() {
    commands::run_notes();
}

/// A user who gets no ClusterRole has to get along without the rights of an administrator.
#[test]
fn a_user_with_rights_in_some_namespaces_installs_into_those() {
    commands::run_some_namespaces();
}

/// All others, one after the other, in a cluster of their own each where they have commands.
#[test]
fn the_commands_of_the_other_documents_do_what_they_say() {
    let told_apart = ["docs/getting-started.md", "README.md", "webhook-config/README.md"];
    for document in documents() {
        let name = document.name.as_str();
        if !told_apart.contains(&name) && !OPERATING.contains(&name) && document.has_commands() {
            commands::run(&document.name);
        }
    }
}

#[test]
fn the_manifests_of_all_documents_are_accepted_by_the_api_server_and_by_check() {
    yaml::apply_all(&documents());
}
