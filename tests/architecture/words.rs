//! Phrases in comments that readers had to read twice. Reading catches more than a regular expression can; the rule is in
//! CONTRIBUTING.md, "Words".

use std::fs;

use regex::Regex;

use super::{CRATES, assert_none, files, root};

/// A phrase, and what to write instead.
const PHRASES: [(&str, &str); 8] = [
    (
        r"(?:^|[.:;] )Of (?:a|an|all|any|each|its|no|one|others?|such|the|these|those|what|which)\b",
        "begin with the subject",
    ),
    (r"\b[Nn]obody\b", "name the actor"),
    (r"\b(?:is|are|was|were|be|been) (?:told|said)\b", "say who reports what to whom"),
    (r"\b[Ww]hat\b[^.]*\bof what\b", "name the thing"),
    (r"\b(?:hangs?|hung) on\b", "say `depends on`"),
    (r"\bh(?:e|o)ld against\b", "say `compares with` or `checks against`"),
    (r"\bstands so\b", "name the state"),
    (r"\b[Tt]hat (?:for|of|by|with|from) (?:which|whom)\b", "name the thing"),
];

/// Rooms and files whose words are still to change: their structure changes first, or the comments are text of `--help` and schemas, which
/// the user pages quote. Take off what is done; add none.
const LATER: [&str; 6] = [
    "core/src/api/",
    "core/src/explain/restart_outlook.rs",
    "cli/src/commands/check/report.rs",
    "cli/src/commands/plan/declared.rs",
    "cli/src/survey/file_outlook.rs",
    "cli/src/commands/why/answer.rs",
];

struct Comment {
    /// From the top of the repository.
    path: String,
    line: usize,
    text: String,
}

/// The blocks of comments of product code, each on one line.
fn comments() -> Vec<Comment> {
    let line_of_comment = Regex::new(r"^\s*//[/!]?\s?(.*)$").unwrap();
    let mut found = Vec::new();
    CRATES.iter().for_each(|folder| files(&root().join(folder), &mut found));
    found.sort();
    let mut comments = Vec::new();
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        if path.ends_with("/tests.rs") || path.contains("/tests/") {
            continue;
        }
        let mut open: Option<Comment> = None;
        for (number, line) in text.lines().enumerate().take_while(|(_, line)| *line != "#[cfg(test)]") {
            match (line_of_comment.captures(line), &mut open) {
                (Some(part), Some(comment)) => comment.text.extend([" ", &part[1]]),
                (Some(part), None) => {
                    open = Some(Comment { path: path.clone(), line: number + 1, text: part[1].to_owned() });
                }
                (None, _) => comments.extend(open.take()),
            }
        }
        comments.extend(open);
    }
    comments
}

#[test]
fn comments_have_none_of_the_phrases_that_are_read_twice() {
    let comments = comments();
    assert!(comments.len() > 3_000, "only {} comments: this test looks in the wrong place", comments.len());
    let phrases = PHRASES.map(|(phrase, instead)| (Regex::new(phrase).unwrap(), instead));
    let mut findings = Vec::new();
    let mut later = LATER.map(|room| (room, false));
    for Comment { path, line, text } in comments {
        for (phrase, instead) in &phrases {
            let Some(found) = phrase.find(&text) else { continue };
            match later.iter_mut().find(|(room, _)| path.starts_with(room)) {
                Some((_, has)) => *has = true,
                None => findings.push(format!("{path}:{line}: `{}`: {instead}", found.as_str().trim())),
            }
        }
    }
    let done = later.iter().filter(|(_, has)| !has);
    findings.extend(done.map(|(room, _)| format!("{room} has no such phrase any more: take it off LATER")));
    assert_none(findings);
}
