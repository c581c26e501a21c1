//! Suggests a replacement for an entry of a list of names that no name can match.

use super::regex_globs::{Anchoring, globs};
use crate::names::NameKind;

/// Quotation marks, and blanks that are not white space to Rust: people paste them with names.
const AROUND: [char; 15] =
    ['\u{200b}', '\u{feff}', '"', '\'', '`', '´', '“', '”', '„', '‟', '‘', '’', '‚', '«', '»'];

/// Returns the suggestion, as the end of a message. `is_fine` is whether the list accepts an entry.
pub(super) fn meant_name(text: &str, kind: NameKind, is_fine: impl Fn(&str) -> bool) -> String {
    let fine = |text: &str| [text.to_owned(), text.to_lowercase()].into_iter().find(|one| is_fine(one));
    let bare = text.trim_matches(|one: char| one.is_whitespace() || AROUND.contains(&one));
    if let Some(one) = is_fine(bare).then_some(bare) {
        return format!("remove the spaces and quotation marks: write {one}");
    }
    if let Some(one) = bare.strip_prefix('!').and_then(fine) {
        return format!(
            "! does not exclude names here; write {one} in the field for exclusions, such as excludeTargets"
        );
    }
    let parts = bare.split([',', ';', ' ']).map(str::trim).filter(|part| !part.is_empty());
    let parts: Option<Vec<String>> = parts.map(fine).collect();
    match parts.as_deref() {
        Some([one]) if bare.contains([',', ';', ' ']) => return format!("write {one}"),
        Some([_, _, ..]) => {
            return format!(
                "each entry must be one name; write several entries: {}",
                parts.unwrap_or_default().join(", ")
            );
        }
        _ => {}
    }
    if is_regex(bare) {
        let all: Option<Vec<String>> =
            as_globs(bare).and_then(|all| all.iter().map(|one| fine(one)).collect());
        return match all {
            Some(all) => format!("this looks like a regular expression; write {}", all.join(" and ")),
            None => "this looks like a regular expression, but names are globs: * matches any text, ? matches one character"
                .into(),
        };
    }
    if let Some(lower) = fine(bare) {
        return format!("these names must be in lower case; write {lower}");
    }
    let last = bare.rsplit_once('/').filter(|_| !kind.holds('/'));
    if let Some(name) = last.and_then(|(_, name)| fine(name)) {
        return format!("a name has no /; write {name}");
    }
    format!("such a name is {}", kind.alphabet())
}

fn is_regex(text: &str) -> bool {
    text.contains(['^', '$', '(', ')', '|', '+', '\\'])
        || text.contains(".*")
        || between_slashes(text).is_some()
}

fn between_slashes(text: &str) -> Option<&str> {
    text.strip_prefix('/').and_then(|text| text.strip_suffix('/'))
}

/// Returns globs that match the same names as a regular expression over whole names.
fn as_globs(regex: &str) -> Option<Vec<String>> {
    let inner = between_slashes(regex).unwrap_or(regex);
    let inner = inner.strip_prefix('^').unwrap_or(inner);
    globs(inner.strip_suffix('$').unwrap_or(inner), Anchoring::FirstMatchIsAll).ok()
}
