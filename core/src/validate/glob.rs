//! Lists of names and globs, compiled for matching.

use globset::{Glob, GlobMatcher};

use super::invalid;
use crate::api::Problem;

/// A list of names and globs. It matches what any of them matches.
#[derive(Clone, Debug, Default)]
pub struct Globs {
    literals: Vec<String>,
    matchers: Vec<Matcher>,
    /// What every name that matches begins with.
    prefix: String,
}

/// A glob. Nearly all are plain and need no regular expression, which matters: each key of each write is
/// matched against all of them.
#[derive(Clone, Debug)]
enum Matcher {
    /// With one `*` at most, at this byte, and any number of `?`.
    Plain(String, Option<usize>),
    Other(GlobMatcher),
}

impl Matcher {
    fn is_match(&self, name: &str) -> bool {
        match self {
            Self::Plain(glob, star) => match *star {
                None => is_alike(glob.as_bytes(), name.as_bytes()),
                Some(star) => {
                    let (name, glob) = (name.as_bytes(), glob.as_bytes());
                    let (before, after) = (&glob[..star], &glob[star + 1..]);
                    name.len() >= before.len() + after.len()
                        && is_alike(before, &name[..before.len()])
                        && is_alike(after, &name[name.len() - after.len()..])
                }
            },
            Self::Other(glob) => glob.is_match(name),
        }
    }

    /// The glob as the user wrote it.
    fn text(&self) -> &str {
        match self {
            Self::Plain(glob, _) => glob,
            Self::Other(glob) => glob.glob().glob(),
        }
    }
}

/// Whether they are equal, where `?` stands for one byte, as in the regular expression engine.
fn is_alike(glob: &[u8], name: &[u8]) -> bool {
    glob.len() == name.len() && glob.iter().zip(name).all(|(glob, name)| *glob == b'?' || glob == name)
}

fn is_plain(entry: &str) -> bool {
    !entry.contains(['[', ']', '{', '}', '\\']) && entry.matches('*').count() < 2
}

impl Globs {
    /// Compiles a list, and reports each bad entry at its index below `field`.
    pub fn compile(field: &str, entries: &[String], problems: &mut Vec<Problem>) -> Self {
        let mut globs = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            let at = || format!("{field}[{index}]");
            if entry.is_empty() {
                problems.push(invalid(&at(), "is empty; write a name, or * for all"));
            } else if is_literal(entry) {
                globs.literals.push(entry.clone());
            } else if is_plain(entry) {
                globs.matchers.push(Matcher::Plain(entry.clone(), entry.find('*')));
            } else {
                match Glob::new(entry) {
                    Ok(glob) => globs.matchers.push(Matcher::Other(glob.compile_matcher())),
                    Err(error) => problems.push(invalid(
                        &at(),
                        format!(
                            "{entry:?} is not a glob ({}); * stands for any text, ? for one character",
                            error.kind()
                        ),
                    )),
                }
            }
        }
        globs.prefix =
            globs.entries().map(literal_prefix).reduce(shared_prefix).unwrap_or_default().to_owned();
        globs
    }

    /// What every name that matches begins with; empty where nothing is known of that.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether any entry matches.
    pub fn matches(&self, name: &str) -> bool {
        self.literals.iter().any(|literal| literal == name)
            || self.matchers.iter().any(|matcher| matcher.is_match(name))
    }

    /// The names, if no entry is a glob.
    pub fn literals(&self) -> Option<&[String]> {
        self.matchers.is_empty().then_some(self.literals.as_slice())
    }

    /// Every entry as the user wrote it.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.literals.iter().map(String::as_str).chain(self.matchers.iter().map(Matcher::text))
    }

    /// The entries that are plain names.
    pub fn names(&self) -> &[String] {
        &self.literals
    }
}

/// What a name must not contain to stand for itself.
const SPECIAL: [char; 8] = ['*', '?', '[', ']', '{', '}', '\\', '!'];

pub(super) fn is_literal(entry: &str) -> bool {
    !entry.contains(SPECIAL)
}

fn literal_prefix(entry: &str) -> &str {
    entry.split(SPECIAL).next().unwrap_or_default()
}

fn shared_prefix<'e>(one: &'e str, other: &'e str) -> &'e str {
    let alike = one.char_indices().zip(other.chars()).find(|((_, one), other)| one != other);
    match alike {
        Some(((at, _), _)) => &one[..at],
        None => {
            if one.len() < other.len() {
                one
            } else {
                other
            }
        }
    }
}

/// A name or glob in terms of CEL functions, for a match condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameGlob<'e> {
    /// Equal to this name.
    Literal,
    /// Any name; also for a text that is no valid glob.
    Any,
    /// Names with this prefix.
    Prefix(&'e str),
    /// Names with this suffix.
    Suffix(&'e str),
    /// Names that match this pattern, in RE2's syntax.
    Pattern(String),
}

/// The form of one name or glob.
pub fn name_glob(entry: &str) -> NameGlob<'_> {
    match (entry.strip_suffix('*'), entry.strip_prefix('*')) {
        _ if is_literal(entry) => NameGlob::Literal,
        _ if entry == "*" => NameGlob::Any,
        (Some(prefix), _) if is_literal(prefix) => NameGlob::Prefix(prefix),
        (_, Some(suffix)) if is_literal(suffix) => NameGlob::Suffix(suffix),
        _ => match Glob::new(entry) {
            Ok(glob) => NameGlob::Pattern(glob.regex().trim_start_matches("(?-u)").to_owned()),
            Err(_) => NameGlob::Any,
        },
    }
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
        for (entries, expected) in [
            (&["app-07-*"][..], "app-07-"),
            (&["app-07-*", "app-?"], "app-"),
            (&["shop", "shopping-*"], "shop"),
            (&["shop", "team"], ""),
            (&["[ab]c"], ""),
            (&["é*", "éa"], "é"),
            (&["!a"], ""),
            (&[], ""),
        ] {
            assert_eq!(globs(entries).0.prefix(), expected, "{entries:?}");
        }
    }

    #[test]
    fn plain_globs_mean_what_they_mean_to_the_engine() {
        let texts =
            ["", "a", "b", "ab", "aa", "aba", "a.b", "a/b", "a\nb", "!a", "é", "aé", "team-a", "a*b", "a?b"];
        for glob in [
            "*", "?", "??", "a*", "*b", "a*a", "a?b", "?*", "*?", "a*b", "?*?", "!a", "!*", "é*", "*é",
            "te?m-*",
        ] {
            let (one, problems) = globs(&[glob]);
            assert!(problems.is_empty() && matches!(one.matchers[0], Matcher::Plain(..)), "{glob}");
            let engine = Glob::new(glob).unwrap().compile_matcher();
            for text in texts {
                assert_eq!(one.matches(text), engine.is_match(text), "{glob} {text:?}");
            }
            assert_eq!(one.entries().collect::<Vec<_>>(), [glob]);
        }
        let (others, _) = globs(&["a**", "[ab]*", "{a,b}*"]);
        assert!(others.matchers.iter().all(|one| matches!(one, Matcher::Other(_))));
    }

    #[test]
    fn globs_are_said_in_words_of_the_api_server() {
        let pattern = |text: &str| NameGlob::Pattern(text.to_owned());
        for (entry, expected) in [
            ("app", NameGlob::Literal),
            ("*", NameGlob::Any),
            ("app-*", NameGlob::Prefix("app-")),
            ("*-tls", NameGlob::Suffix("-tls")),
            ("a*c", pattern("^a.*c$")),
            ("a.?", pattern("^a\\..$")),
            ("[a-c]*", pattern("^[a-c].*$")),
            ("{a,b-*}", pattern("^(?:a|b\\-.*)$")),
        ] {
            assert_eq!(name_glob(entry), expected, "{entry}");
        }
    }

    #[test]
    fn a_bad_glob_is_named_by_its_index() {
        let (_, problems) = globs(&["ok", "a[", ""]);
        let text: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(text.len(), 2);
        assert!(text[0].starts_with("names[1]: \"a[\" is not a glob"), "{text:?}");
        assert!(text[1].starts_with("names[2]: is empty"), "{text:?}");
    }
}
