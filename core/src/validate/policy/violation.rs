//! One way in which an object violates a policy.

use std::{borrow::Cow, collections::BTreeSet, fmt::Write as _};

use super::Candidate;
use crate::api::PolicyKind;

/// The longest message about one violation, in bytes.
const LONGEST: usize = 1024;
/// Bytes to reserve for a message: most messages are shorter.
const USUAL: usize = 192;

/// A position in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line of the fault in the value, from 1.
    pub line: u64,
    /// The column of the fault in that line, from 1.
    pub column: u64,
}

impl Position {
    /// The position of a byte of a value.
    pub(super) fn of_byte(value: &[u8], offset: usize) -> Self {
        let before = &value[..offset.min(value.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        Self { line: lines as u64 + 1, column: (before.len() - line_start) as u64 + 1 }
    }
}

/// One way in which an object violates a policy, without any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule of the policy, by its name or its field.
    pub rule: String,
    /// The key, if the rule is about keys.
    pub key: Option<String>,
    /// The position in the value, if known.
    pub place: Option<Position>,
    /// The fault, as the end of a sentence about the object or key.
    pub what: Cow<'static, str>,
    /// The fix, such as the value to write instead.
    pub fix: Cow<'static, str>,
    /// The part of the object that causes the violation. An update that does not change this part gets a
    /// warning, not a refusal.
    pub(super) subject: Subject,
}

/// The part of an object that causes a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The violation depends on these single parts of the object.
    Parts(BTreeSet<Part>),
    /// The violation depends on the size of all data.
    Size,
    /// The violation depends on the change itself, not on the object.
    Change,
}

/// A single part of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The value of a key, set or not.
    Key(String),
    /// All keys and values.
    Data,
    /// The value of a label, set or not.
    Label(String),
    /// All labels of the object.
    Labels,
    /// All annotations of the object.
    Annotations,
    /// The `type` of a Secret.
    Type,
    /// The field `immutable` of the object.
    Immutable,
    /// Everything that a policy can see.
    Everything,
}

impl Subject {
    /// Violations by the values of these keys.
    pub(super) fn keys(keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::Parts(keys.into_iter().map(|key| Part::Key(key.into())).collect())
    }

    /// A violation by the value of a label.
    pub(super) fn label(label: &str) -> Self {
        Self::Parts([Part::Label(label.to_owned())].into())
    }
}

impl Violation {
    pub(super) fn at_key(
        rule: &str,
        key: &str,
        what: impl Into<Cow<'static, str>>,
        fix: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            rule: rule.into(),
            key: Some(key.into()),
            place: None,
            what: what.into(),
            fix: fix.into(),
            subject: Subject::keys([key]),
        }
    }

    /// Returns a violation by the change itself, regardless of the old object.
    pub fn by_change(rule: &'static str, key: Option<String>, what: String, fix: &'static str) -> Self {
        Self {
            rule: rule.into(),
            key,
            place: None,
            what: what.into(),
            fix: fix.into(),
            subject: Subject::Change,
        }
    }

    /// The message in a status: position, fault and fix. The status has object, policy and key in other
    /// fields.
    pub fn brief(&self) -> String {
        let place = self
            .place
            .map(|place| format!("line {} column {}: ", place.line, place.column))
            .unwrap_or_default();
        printable(format!("{place}{}; {}", self.what, self.fix), LONGEST)
    }

    /// The message for a person: policy, rule, object, key, position, fault and fix.
    pub fn message(&self, policy: &str, object: &Candidate<'_>) -> String {
        let kind = match object.kind {
            PolicyKind::ConfigMap => "ConfigMap",
            PolicyKind::Secret => "Secret",
            PolicyKind::Namespace => "Namespace",
        };
        let name = if object.name.is_empty() { "(unnamed)" } else { &*object.name };
        let mut text = String::with_capacity(USUAL);
        // Writing to a `String` cannot fail.
        let _ = write!(text, "policy {policy}, rule {}: {kind} ", self.rule);
        if object.kind != PolicyKind::Namespace {
            let _ = write!(text, "{}/", object.namespace);
        }
        text += name;
        if let Some(key) = &self.key {
            let _ = write!(text, ", key {key}");
        }
        if let Some(Position { line, column }) = self.place {
            let _ = write!(text, ", line {line} column {column}");
        }
        let _ = write!(text, ": {}; {}", self.what, self.fix);
        printable(text, LONGEST)
    }
}

/// The longest word that is dropped rather than cut at the end of a text.
const LONGEST_WORD: usize = 40;

/// Returns the text with control and direction characters escaped, cut to `longest` bytes.
pub fn printable<'t>(text: impl Into<Cow<'t, str>>, longest: usize) -> String {
    let text = text.into();
    // Fast path: nearly every text is plain ASCII, and each message passes this function more than once.
    if text.len() <= longest && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len().min(longest));
    for character in text.chars() {
        let hidden = character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        let mut one = [0; 4];
        let escaped = hidden.then(|| character.escape_default().to_string());
        let piece = escaped.as_deref().unwrap_or_else(|| character.encode_utf8(&mut one));
        if out.len() + piece.len() > longest {
            while out.len() + '…'.len_utf8() > longest {
                out.pop();
            }
            // The text is cut at a word's end, unless the word is long.
            if let Some(end) = out.rfind(' ').filter(|end| out.len() - end <= LONGEST_WORD) {
                out.truncate(end);
                out.truncate(out.trim_end_matches([' ', ',', ':', ';']).len());
            }
            out.push('…');
            break;
        }
        out.push_str(piece);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_cut_at_a_character() {
        assert_eq!(printable("a\u{1b}[31m\nb\u{202e}", 99), "a\\u{1b}[31m\\nb\\u{202e}");
        assert_eq!(printable("äöü", 6), "äöü");
        assert_eq!(printable("äöüäöü", 7), "äö…");
        assert_eq!(printable("x".repeat(2000), 1024).len(), 1024);
        assert_eq!(
            printable("line 1 column 4: is not valid YAML, has a key", 43),
            "line 1 column 4: is not valid YAML, has…"
        );
        assert_eq!(printable("one two three", 11), "one two…");
    }
}
