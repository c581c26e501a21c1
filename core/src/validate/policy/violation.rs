//! One way in which an object breaks a policy.

use std::{borrow::Cow, collections::BTreeSet, fmt::Write as _};

use super::Candidate;
use crate::api::PolicyKind;

/// The longest message of one violation, in bytes.
const LONGEST: usize = 1024;
/// Most messages are shorter, in bytes.
const USUAL: usize = 192;

/// A place in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

impl Place {
    /// Where a byte of a value is.
    pub(super) fn of_byte(value: &[u8], offset: usize) -> Self {
        let before = &value[..offset.min(value.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        Self { line: lines as u64 + 1, column: (before.len() - line_start) as u64 + 1 }
    }
}

/// One way in which an object breaks a policy. It holds no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule of the policy, by name or by field.
    pub rule: String,
    /// The key, where the rule speaks of one.
    pub key: Option<String>,
    /// Where in the value.
    pub place: Option<Place>,
    /// What is wrong.
    pub what: Cow<'static, str>,
    /// What to do about it.
    pub fix: Cow<'static, str>,
    /// What makes it a violation: an update that leaves this alone is warned, not refused.
    pub(super) subject: Subject,
}

/// What of an object makes a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// These parts of it.
    Parts(BTreeSet<Part>),
    /// The size of the data.
    Size,
    /// The change itself.
    Change,
}

/// A part of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The value of a key, present or not.
    Key(String),
    /// All keys and values.
    Data,
    /// The value of a label, present or not.
    Label(String),
    /// All labels.
    Labels,
    /// All annotations.
    Annotations,
    /// A Secret's type.
    Type,
    /// Whether it is immutable.
    Immutable,
    /// Everything that a policy can see.
    Everything,
}

impl Subject {
    /// The values of these keys.
    pub(super) fn keys(keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::Parts(keys.into_iter().map(|key| Part::Key(key.into())).collect())
    }

    /// The value of a label.
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

    /// A violation by what a write takes away or adds, whatever stood there before.
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

    /// What a status says of it: place, fault and fix; the status names beside it which object breaks which
    /// policy by which key.
    pub fn brief(&self) -> String {
        let place = self
            .place
            .map(|place| format!("line {} column {}: ", place.line, place.column))
            .unwrap_or_default();
        printable(format!("{place}{}; {}", self.what, self.fix), LONGEST)
    }

    /// The sentence that a person reads: policy, rule, object, key, place, fault and fix.
    pub fn message(&self, policy: &str, object: &Candidate<'_>) -> String {
        let kind = match object.kind {
            PolicyKind::ConfigMap => "ConfigMap",
            PolicyKind::Secret => "Secret",
            PolicyKind::Namespace => "Namespace",
        };
        let name = if object.name.is_empty() { "(unnamed)" } else { &*object.name };
        let mut text = String::with_capacity(USUAL);
        // Writing to a text cannot fail.
        let _ = write!(text, "policy {policy}, rule {}: {kind} ", self.rule);
        if object.kind != PolicyKind::Namespace {
            let _ = write!(text, "{}/", object.namespace);
        }
        text += name;
        if let Some(key) = &self.key {
            let _ = write!(text, ", key {key}");
        }
        if let Some(Place { line, column }) = self.place {
            let _ = write!(text, ", line {line} column {column}");
        }
        let _ = write!(text, ": {}; {}", self.what, self.fix);
        printable(text, LONGEST)
    }
}

/// A word that is longer is cut where the text ends.
const LONGEST_WORD: usize = 40;

/// The text with every control and direction character escaped, cut to at most `longest` bytes.
pub fn printable<'t>(text: impl Into<Cow<'t, str>>, longest: usize) -> String {
    let text = text.into();
    // Nearly every text is plain: each refusal and warning passes here more than once.
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
            // No word is cut in the middle, unless it is as long as all that would be left out with it.
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
            printable("line 1 column 4: is no valid YAML, has a key", 42),
            "line 1 column 4: is no valid YAML, has…"
        );
        assert_eq!(printable("one two three", 11), "one two…");
    }
}
