//! Lists of names and globs, compiled for matching.

use globset::{Glob, GlobMatcher};

use super::{invalid, matchable::is_matchable, meant_name::meant_name};
use crate::{api::Problem, names::NameKind};

/// A list of names and globs, which matches every name that any entry matches.
#[derive(Clone, Debug, Default)]
pub struct Globs {
    literals: Vec<String>,
    matchers: Vec<Matcher>,
    /// The common prefix of all names that match.
    prefix: String,
}

/// A glob. Nearly all globs are plain and need no regular expression. Plain globs are fast, since each key of
/// each write is matched against all globs.
#[derive(Clone, Debug)]
enum Matcher {
    /// A glob with at most one `*`, at this byte, and any number of `?`.
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

/// An entry that a name can match.
enum Entry {
    /// A name without wildcards.
    Name,
    Glob(Matcher),
}

/// The reason why a list does not accept an entry.
enum EntryFault {
    Empty,
    NoGlob(globset::ErrorKind),
    /// No name can match the entry.
    Misfit,
}

impl Entry {
    fn read(entry: &str, kind: NameKind) -> Result<Self, EntryFault> {
        if entry.is_empty() {
            return Err(EntryFault::Empty);
        }
        if is_literal(entry) {
            return if kind.is_name(entry) { Ok(Self::Name) } else { Err(EntryFault::Misfit) };
        }
        let glob = Glob::new(entry).map_err(|error| EntryFault::NoGlob(error.kind().clone()))?;
        if !is_matchable(&glob, kind) {
            return Err(EntryFault::Misfit);
        }
        Ok(Self::Glob(if is_plain(entry) {
            Matcher::Plain(entry.to_owned(), entry.find('*'))
        } else {
            Matcher::Other(glob.compile_matcher())
        }))
    }
}

impl EntryFault {
    /// Returns the fault of the entry, with the fix.
    fn said(&self, entry: &str, kind: NameKind) -> String {
        match self {
            Self::Empty => "must not be empty; write a name, or * for all".into(),
            Self::NoGlob(why) => {
                format!("{entry:?} is not a valid glob ({why}); * matches any text, ? matches one character")
            }
            Self::Misfit => {
                let meant = meant_name(entry, kind, |other| can_match(other, kind));
                let what = if is_literal(entry) { "is no" } else { "matches no" };
                format!("{entry:?} {what} {}: {meant}", kind.noun())
            }
        }
    }
}

/// Whether a list accepts this entry, that is, whether any name can match it.
pub fn can_match(entry: &str, kind: NameKind) -> bool {
    Entry::read(entry, kind).is_ok()
}

/// Returns the problem, with the fix, of a text that must be one name; `None` for a valid name. Globs are not
/// accepted.
pub fn name_fault(text: &str, kind: NameKind) -> Option<String> {
    if kind.is_name(text) {
        return None;
    }
    let meant = if can_match(text, kind) {
        "globs are not allowed here; write each name".into()
    } else {
        meant_name(text, kind, |other| kind.is_name(other))
    };
    Some(format!("{text:?} is not a {}: {meant}", kind.noun()))
}

/// Reports a text that must be one name and is not.
pub(crate) fn check_name(field: &str, text: &str, kind: NameKind, problems: &mut Vec<Problem>) {
    problems.extend(name_fault(text, kind).map(|what| invalid(field, what)));
}

/// Whether a part of the glob equals the name's bytes; `?` in the glob matches one byte, as in the regular
/// expression engine.
fn is_alike(glob: &[u8], name: &[u8]) -> bool {
    glob.len() == name.len() && glob.iter().zip(name).all(|(glob, name)| *glob == b'?' || glob == name)
}

fn is_plain(entry: &str) -> bool {
    !entry.contains(['[', ']', '{', '}', '\\']) && entry.matches('*').count() < 2
}

impl Globs {
    /// Compiles a list of names and globs for names of this kind, and reports each bad entry at its index
    /// below `field`. An entry that no name can match is bad: an exclusion with the entry would have no
    /// effect.
    pub fn compile(field: &str, entries: &[String], kind: NameKind, problems: &mut Vec<Problem>) -> Self {
        let mut globs = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            match Entry::read(entry, kind) {
                Ok(Entry::Name) => globs.literals.push(entry.clone()),
                Ok(Entry::Glob(matcher)) => globs.matchers.push(matcher),
                Err(fault) => {
                    problems.push(invalid(&format!("{field}[{index}]"), fault.said(entry, kind)));
                }
            }
        }
        globs.prefix =
            globs.entries().map(literal_prefix).reduce(shared_prefix).unwrap_or_default().to_owned();
        globs
    }

    /// Returns the common prefix of all names that match; empty if it is unknown.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether any entry matches.
    pub fn matches(&self, name: &str) -> bool {
        self.literals.iter().any(|literal| literal == name)
            || self.matchers.iter().any(|matcher| matcher.is_match(name))
    }

    /// The names in the list, if no entry is a glob.
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

/// The characters that are special in a glob.
const SPECIAL: [char; 8] = ['*', '?', '[', ']', '{', '}', '\\', '!'];

/// Whether an entry of a list matches only one name.
pub(crate) fn is_literal(entry: &str) -> bool {
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
    /// Only this exact name.
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

/// Returns the form of one name or glob.
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
        (Globs::compile("names", &entries, NameKind::RoleBinding, &mut problems), problems)
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
            (&["?a"], ""),
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
        assert!(text[0].starts_with("names[1]: \"a[\" is not a valid glob"), "{text:?}");
        assert!(text[1].starts_with("names[2]: must not be empty"), "{text:?}");
    }

    #[test]
    fn what_no_name_can_match_is_refused_with_what_was_meant() {
        use NameKind::{DataKey, MetadataKey, Namespace, Object};
        for (kind, entry, expected) in [
            (Namespace, "^.*-stg$", "this looks like a regular expression; write *-stg"),
            (Namespace, ".*-stg", "this looks like a regular expression; write *-stg"),
            (Namespace, "/kip.*/", "this looks like a regular expression; write kip*"),
            (Namespace, "kia-(stg|prod)", "this looks like a regular expression; write kia-stg and kia-prod"),
            (Namespace, "kia.*", "this looks like a regular expression; write kia*"),
            (Namespace, "(?!kube-).*", "this looks like a regular expression, but names are globs"),
            (Namespace, "!*-stg", "! does not exclude names here; write *-stg in the field for exclusions"),
            (Namespace, "Kip", "these names must be in lower case; write kip"),
            (Namespace, "KIP-*", "these names must be in lower case; write kip-*"),
            (Namespace, " kip", "remove the spaces and quotation marks: write kip"),
            (Namespace, "kip-* ", "write kip-*"),
            (Namespace, "kip\u{a0}", "write kip"),
            (Namespace, "\u{feff}kip", "write kip"),
            (Namespace, "”kip", "write kip"),
            (Namespace, "“kip-*”", "write kip-*"),
            (Namespace, "'kip'", "write kip"),
            (Namespace, "kip,kia-*", "each entry must be one name; write several entries: kip, kia-*"),
            (Namespace, "kip kia", "each entry must be one name; write several entries: kip, kia"),
            (Namespace, "shop/db", "a name has no /; write db"),
            (Namespace, "kip_stg", "such a name is at most 63 lower-case letters"),
            (Namespace, "-stg", "such a name is at most 63"),
            (Namespace, "*-", "such a name is at most 63"),
            (Namespace, "a.b", "such a name is at most 63"),
            (Namespace, "[A-Z]*", "these names must be in lower case; write [a-z]*"),
            (Namespace, "{kip,^kia}", "this looks like a regular expression"),
            (Namespace, &"n".repeat(64), "such a name is at most 63"),
            (Namespace, &format!("*{}", "n".repeat(64)), "such a name is at most 63"),
            (Object, "^db$", "this looks like a regular expression; write db"),
            (Object, ".*", "this looks like a regular expression; write *"),
            (Object, "shop/db", "a name has no /; write db"),
            (Object, "a..b", "such a name is at most 253"),
            (DataKey, r"tls\.key", "this looks like a regular expression; write tls.key"),
            (DataKey, "config/app.yaml", "write app.yaml"),
            (DataKey, "..", "such a name is at most 253"),
            (MetadataKey, "App.io/x", "these names must be in lower case; write app.io/x"),
            (MetadataKey, "example.com/", "such a name is at most 63"),
            (MetadataKey, "*/*/*", "such a name is at most 63"),
        ] {
            let mut problems = Vec::new();
            let compiled = Globs::compile("names", &[entry.to_owned()], kind, &mut problems);
            assert_eq!(compiled.entries().count(), 0, "{entry:?} is taken");
            assert!(problems[0].message.contains(expected), "{entry:?}: {}", problems[0].message);
            assert!(problems[0].message.starts_with(&format!("names[0]: {entry:?} ")), "{problems:?}");
        }
    }

    #[test]
    fn what_a_name_can_match_is_taken() {
        use NameKind::{DataKey, MetadataKey, Namespace, Object, RoleBinding};
        let almost = format!("{}*", "n".repeat(63));
        for (kind, entries) in [
            (
                Namespace,
                &["kip", "*", "**", "k?p", "*-stg", "team-*-[a-c]", "{kip,kia-*}", "[!a-z]*", "?", &almost][..],
            ),
            (Object, &["db", "*.conf", "a.*", "kube-root-ca.crt", "*.*"]),
            (RoleBinding, &["system:*", "Admins", "a b"]),
            (DataKey, &[".dockerconfigjson", "*.yaml", ".*", "*_*", "TLS.*", "[A-Z]*", "-*"]),
            (
                MetadataKey,
                &["app.kubernetes.io/*", "*", "*/*", "team", "*.io/[A-Z]*", "example.com/a_b", "?/?"],
            ),
        ] {
            for entry in entries {
                let mut problems = Vec::new();
                Globs::compile("names", &[(*entry).to_owned()], kind, &mut problems);
                assert!(problems.is_empty(), "{kind:?}: {problems:?}");
            }
        }
        let said = |text: &str| name_fault(text, Namespace).unwrap_or_default();
        assert_eq!(said("kip"), "");
        assert_eq!(
            said("kip-*"),
            "\"kip-*\" is not a name of a namespace: globs are not allowed here; write each name"
        );
    }
}
