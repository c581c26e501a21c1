//! Lists of names and globs.

use globset::{Glob, GlobMatcher};

use super::invalid;
use crate::api::Problem;

/// A list of names and globs; matches what any of them matches.
#[derive(Clone, Debug, Default)]
pub struct Globs {
    literals: Vec<String>,
    matchers: Vec<GlobMatcher>,
}

impl Globs {
    /// Understands a list, reporting each bad entry at its index below `field`.
    pub fn compile(field: &str, entries: &[String], problems: &mut Vec<Problem>) -> Self {
        let mut globs = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            let at = || format!("{field}[{index}]");
            if entry.is_empty() {
                problems.push(invalid(&at(), "is empty; write a name, or * for all"));
            } else if is_literal(entry) {
                globs.literals.push(entry.clone());
            } else {
                match Glob::new(entry) {
                    Ok(glob) => globs.matchers.push(glob.compile_matcher()),
                    Err(error) => problems.push(invalid(
                        &at(),
                        format!(
                            "{entry:?} is no glob ({}); * stands for any text, ? for one character",
                            error.kind()
                        ),
                    )),
                }
            }
        }
        globs
    }

    /// Whether any entry matches.
    pub fn matches(&self, name: &str) -> bool {
        self.literals.iter().any(|literal| literal == name)
            || self.matchers.iter().any(|matcher| matcher.is_match(name))
    }

    /// The names, where no entry is a glob.
    pub fn literals(&self) -> Option<&[String]> {
        self.matchers.is_empty().then_some(self.literals.as_slice())
    }

    /// Every entry as written.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        let globs = self.matchers.iter().map(|matcher| matcher.glob().glob());
        self.literals.iter().map(String::as_str).chain(globs)
    }

    /// The entries that are plain names.
    pub fn names(&self) -> &[String] {
        &self.literals
    }
}

fn is_literal(entry: &str) -> bool {
    !entry.contains(['*', '?', '[', ']', '{', '}', '\\', '!'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(entries: &[&str]) -> (Globs, Vec<Problem>) {
        let mut problems = Vec::new();
        let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        (Globs::compile("names", &entries, &mut problems), problems)
    }

    #[test]
    fn names_and_globs_match_whole_names() {
        let (some, problems) = globs(&["team-*", "shop"]);
        assert!(problems.is_empty());
        for (name, expected) in
            [("team-", true), ("team-a", true), ("my-team-a", false), ("shop", true), ("shop2", false)]
        {
            assert_eq!(some.matches(name), expected, "{name}");
        }
        assert!(some.literals().is_none());
        assert_eq!(some.entries().collect::<Vec<_>>(), ["shop", "team-*"]);
        assert!(!globs(&[]).0.matches("anything"));
    }

    #[test]
    fn a_bad_glob_is_named_by_its_index() {
        let (_, problems) = globs(&["ok", "a[", ""]);
        let text: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(text.len(), 2);
        assert!(text[0].starts_with("names[1]: \"a[\" is no glob"), "{text:?}");
        assert!(text[1].starts_with("names[2]: is empty"), "{text:?}");
    }
}
