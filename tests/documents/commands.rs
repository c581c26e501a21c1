//! The commands of one document, in order, in a cluster of its own.

use crate::blocks::{Block, document};
use crate::ground::Ground;
use crate::output::{self, Typed};

/// How a webhook refuses, and an admission policy.
const REFUSALS: [&str; 2] = ["denied the request: ", "denied request: "];

/// Runs them all. A document that installs Copyrator begins in a cluster without it.
pub(crate) fn run(name: &str) {
    let document = document(name);
    let tried = || document.blocks.iter().filter(|block| block.is_tried());
    let installs =
        tried().any(|block| block.language == "sh" && block.text.contains("helm install copyrator "));
    let ground = if installs { Ground::empty(name) } else { Ground::installed(name) };
    for block in &document.blocks {
        if let Some(file) = block.file() {
            ground.write(file, &block.text);
        }
        if !block.is_tried() {
            continue;
        }
        let at = document.at(block);
        assert!(
            !block.is_command() || block.reaches_out().is_none(),
            "{at}: acts on this machine: say why it is not run"
        );
        block.first.iter().for_each(|unseen| succeed(&ground, &at, unseen));
        match block.language.as_str() {
            "sh" => script(&ground, &at, block),
            "console" => output::typed(&block.text).iter().for_each(|typed| line(&ground, &at, typed)),
            _ => {}
        }
        block.then.iter().for_each(|unseen| succeed(&ground, &at, unseen));
    }
}

/// What the page does not show.
fn succeed(ground: &Ground, at: &str, unseen: &str) {
    let ran = ground.run(unseen);
    assert_eq!(ran.code, 0, "{at}: `{unseen}`, which the page does not show, says: {}", ran.output);
}

/// What `helm install` says to do next: the paragraphs that begin with a command, to the letter.
pub(crate) fn run_notes() {
    let ground = Ground::installed("notes");
    let notes = ground.run("helm get notes copyrator -n copyrator-system").output;
    let begins = |paragraph: &&str| {
        let first = paragraph.trim_start();
        first.starts_with("kubectl ") || first.starts_with("copyrator ")
    };
    let typed: Vec<&str> = notes.split("\n\n").filter(begins).collect();
    let has = |word: &str| typed.iter().any(|paragraph| paragraph.contains(word));
    assert!(has("doctor") && has("kubectl apply"), "the notes say too little to type: {notes}");
    let typed = typed.join("\n");
    let ran = ground.run(&typed);
    assert!(
        // bash goes on where a here-document does not end, and takes what follows for a part of it.
        ran.code == 0 && !ran.output.contains("here-document"),
        "the chart's notes say to type\n{typed}\nwhich says: {}",
        ran.output
    );
}

fn script(ground: &Ground, at: &str, block: &Block) {
    let ran = ground.run(&block.text);
    match block.is_refused {
        false => assert_eq!(
            ran.code, 0,
            "{at}: exit code {} of\n{}\nwhich says: {}",
            ran.code, block.text, ran.output
        ),
        true => assert!(
            ran.code != 0 && REFUSALS.iter().any(|words| ran.output.contains(words)),
            "{at}: was to be refused: exit code {} of\n{}\nwhich says: {}",
            ran.code,
            block.text,
            ran.output
        ),
    }
}

fn line(ground: &Ground, at: &str, typed: &Typed) {
    let ran = ground.run(&typed.command);
    let command = &typed.command;
    let expected = match typed.is_error() {
        true => ran.code != 0,
        // Findings, which are on the page then.
        false => {
            ran.code == 0
                || (ran.code == 1 && command.starts_with("copyrator ") && !typed.output.trim().is_empty())
        }
    };
    assert!(expected, "{at}: exit code {} of `{command}`, which says: {}", ran.code, ran.output);
    if let Err(line) = output::agree(&typed.output, &ran.output) {
        panic!("{at}: `{command}` does not say\n{line}\nbut\n{}", ran.output);
    }
}
