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

/// What the page does not show, or not in a block.
fn succeed(ground: &Ground, at: &str, unseen: &str) {
    let ran = ground.run(unseen);
    // bash goes on where a here-document does not end, and takes what follows for a part of it.
    let is_whole = !ran.output.contains("warning: here-document");
    assert!(
        ran.code == 0 && is_whole,
        "{at}: exit code {} of `{unseen}`, which says: {}",
        ran.code,
        ran.output
    );
}

/// What `helm install` says to do next.
pub(crate) fn run_notes() {
    let ground = Ground::installed("notes");
    let notes = ground.run("helm get notes copyrator -n copyrator-system").output;
    let typed = to_type(&notes);
    assert!(typed.contains("copyrator doctor"), "the notes do not say how to look: {notes}");
    succeed(&ground, "the chart's notes", &typed);
}

/// The paragraphs that begin with a command, to the letter.
fn to_type(notes: &str) -> String {
    let begins = |paragraph: &&str| {
        let first = paragraph.trim_start();
        first.starts_with("kubectl ") || first.starts_with("copyrator ")
    };
    let typed: Vec<&str> = notes.split("\n\n").filter(begins).collect();
    let typed = typed.join("\n");
    assert!(typed.contains("kubectl apply"), "the notes say too little to type: {notes}");
    typed
}

/// "Some namespaces only": the administrator's command, then the others as somebody who has rights in three namespaces alone.
pub(crate) fn run_some_namespaces() {
    let page = document("docs/namespaces.md");
    let block = |words: &str| {
        let mut found = page.blocks.iter().filter(|block| block.is_command() && block.text.contains(words));
        found.next().unwrap_or_else(|| panic!("docs/namespaces.md has no commands with {words}"))
    };
    let ground = Ground::empty("some-namespaces");
    script(&ground, &page.name, block("copyrator crds --kube-version"));
    let rights = "for name in copyrator-system shop web; do
  kubectl create namespace $name
  kubectl create rolebinding tenant -n $name --clusterrole=cluster-admin --user=tenant
done
kubectl create secret generic registry-blue -n shop --from-literal=token=first";
    succeed(&ground, &page.name, rights);
    let install = &block("namespaces={shop,web}").text;
    succeed(&ground, &page.name, &format!("export HELM_KUBEASUSER=tenant\n{install}"));
    let notes = ground.run("helm get notes copyrator -n copyrator-system").output;
    // What warnings say to type is the administrator's.
    let typed = to_type(notes.split("WARNING:").next().unwrap_or(&notes));
    let copied = "kubectl wait -n web --for=create secret/registry-blue --timeout=60s";
    let tenant = "kubectl() { command kubectl --as=tenant \"$@\"; }";
    succeed(&ground, "the chart's notes", &format!("{tenant}\n{typed}\n{copied}"));
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
