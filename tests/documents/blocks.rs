//! The fenced blocks of the documents.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// Where documents are, from the top of the repository.
const FOLDERS: [&str; 5] = [".", "docs", "charts/copyrator", "examples", "webhook-config"];
/// What a fence may hold. Of the last ones nothing is tried.
const LANGUAGES: [&str; 5] = ["yaml", "sh", "console", "json", "text"];
/// What lines begin with that people type.
const TYPED: [&str; 20] = [
    "$ ",
    "kubectl ",
    "helm ",
    "copyrator ",
    "copyrator-certs ",
    "make ",
    "git ",
    "gh ",
    "docker ",
    "podman ",
    "buildah ",
    "skopeo ",
    "cargo ",
    "curl ",
    "kind ",
    "k3d ",
    "minikube ",
    "sudo ",
    "apt-get ",
    "sh ",
];

static FENCE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^( *)```+([a-z]*) ?(.*)$").expect("a pattern"));
static COMMENTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)((?:\s*<!--.*?-->)+)\s*$").expect("a pattern"));
static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?s)<!--\s*(.*?)\s*-->").expect("a pattern"));

/// A document with its blocks, in order.
pub(crate) struct Document {
    /// From the top of the repository.
    pub(crate) name: String,
    pub(crate) blocks: Vec<Block>,
}

/// One fenced block.
pub(crate) struct Block {
    pub(crate) line: usize,
    pub(crate) language: String,
    /// What follows the language.
    pub(crate) more: String,
    pub(crate) text: String,
    /// Commands that make the state it needs.
    pub(crate) first: Vec<String>,
    /// Commands that leave what the next one needs.
    pub(crate) then: Vec<String>,
    /// Why it is not tried.
    pub(crate) left_out: Option<String>,
    pub(crate) is_refused: bool,
}

impl Document {
    /// Where a block is, as editors understand it.
    pub(crate) fn at(&self, block: &Block) -> String {
        format!("{}:{}", self.name, block.line)
    }

    pub(crate) fn has_commands(&self) -> bool {
        self.blocks.iter().any(|block| block.is_command() && block.is_tried())
    }
}

impl Block {
    pub(crate) fn is_known(&self) -> bool {
        LANGUAGES.contains(&self.language.as_str())
    }

    pub(crate) fn is_command(&self) -> bool {
        matches!(self.language.as_str(), "sh" | "console")
    }

    pub(crate) fn is_tried(&self) -> bool {
        self.left_out.is_none() && self.language != "text"
    }

    /// A command in what says to be text, which nobody would try, nor miss.
    pub(crate) fn hidden_command(&self) -> Option<&str> {
        let is_text = self.language == "text" && self.left_out.is_none();
        let mut lines = self.text.lines().filter(|_| is_text);
        lines.find(|line| TYPED.iter().any(|word| line.starts_with(word)))
    }

    /// What a test must not do to the machine that it runs on, if it says so.
    pub(crate) fn reaches_out(&self) -> Option<&'static str> {
        let words = ["sudo ", " /usr/", " ~/", "$HOME", "make ", "docker ", "buildah ", "apt-get "];
        let typed = |line: &&str| self.language == "sh" || line.starts_with("$ ");
        words.into_iter().find(|word| self.text.lines().filter(typed).any(|line| line.contains(word)))
    }

    /// The file that later commands expect it in.
    pub(crate) fn file(&self) -> Option<&str> {
        self.more.split(' ').find_map(|word| word.strip_prefix("file="))
    }
}

/// The top of the repository.
pub(crate) fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every document.
pub(crate) fn documents() -> Vec<Document> {
    let mut names = Vec::new();
    for folder in FOLDERS {
        let entries = fs::read_dir(top().join(folder)).expect("the documents are there");
        let entries =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        names.extend(entries.filter(|name| name.ends_with(".md")).map(|name| match folder {
            "." => name,
            _ => format!("{folder}/{name}"),
        }));
    }
    names.sort();
    names.iter().map(|name| document(name)).collect()
}

/// One document.
pub(crate) fn document(name: &str) -> Document {
    let text = fs::read_to_string(top().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    Document { name: name.to_owned(), blocks: blocks(&text) }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    // What stands before the block, from the one before it.
    let mut before = String::new();
    let mut lines = text.lines().zip(1..);
    let of_all = COMMENT.captures_iter(text).find_map(|comment| {
        comment[1].strip_prefix("not run, all of this page:").map(|why| why.trim().to_owned())
    });
    while let Some((line, number)) = lines.next() {
        let Some(fence) = FENCE.captures(line) else {
            before.push_str(line);
            before.push('\n');
            continue;
        };
        let indent = &fence[1];
        let inside: Vec<&str> = lines
            .by_ref()
            .map(|(line, _)| line.strip_prefix(indent).unwrap_or(line.trim_start()))
            .take_while(|line| !line.starts_with("```"))
            .collect();
        let said = COMMENTS.captures(&before).map(|comments| comments[1].to_owned()).unwrap_or_default();
        let said: Vec<String> = COMMENT.captures_iter(&said).map(|comment| comment[1].to_owned()).collect();
        let after = |word: &str| -> Vec<String> {
            said.iter().filter_map(|one| one.strip_prefix(word)).map(|rest| rest.trim().to_owned()).collect()
        };
        let why = [after("not run:"), after("not applied:")].concat().into_iter().next();
        blocks.push(Block {
            line: number,
            language: fence[2].to_owned(),
            more: fence[3].trim().to_owned(),
            text: inside.join("\n") + "\n",
            first: after("first:"),
            then: after("then:"),
            left_out: of_all.clone().or(why),
            is_refused: said.iter().any(|one| one == "refused"),
        });
        before.clear();
    }
    blocks
}

#[test]
fn a_block_is_known_with_what_is_said_before_it() {
    let page = "text\n\n<!-- first: kubectl get x\nkubectl get y -->\n<!-- refused -->\n  ```yaml file=a.yaml\n  a:\n    b: 1\n  ```\n\n```sh\nls\n```\n<!-- not run: needs kind -->\n\n```\nx\n```\n";
    let [yaml, sh, other] = blocks(page).try_into().ok().expect("three blocks");
    assert_eq!(
        (yaml.text.as_str(), yaml.file(), yaml.line, yaml.is_refused),
        ("a:\n  b: 1\n", Some("a.yaml"), 6, true)
    );
    assert_eq!(yaml.first, ["kubectl get x\nkubectl get y"]);
    assert!(sh.first.is_empty() && sh.is_command() && sh.is_tried() && !sh.is_refused);
    assert_eq!(other.left_out.as_deref(), Some("needs kind"));
    assert!(!other.is_known() && !other.is_tried());
    let page =
        "```text\na\ngh x\n```\n```text\nghost\n  gh x\n```\n<!-- not run: a list -->\n```text\ngh x\n```\n";
    let [hidden, text, list] = blocks(page).try_into().ok().expect("three blocks");
    assert_eq!(hidden.hidden_command(), Some("gh x"));
    assert!(text.hidden_command().is_none() && list.hidden_command().is_none());
    let page = "<!-- not run, all of this page: recorded -->\n```sh\nls\n```\n";
    assert_eq!(blocks(page)[0].left_out.as_deref(), Some("recorded"));
}
