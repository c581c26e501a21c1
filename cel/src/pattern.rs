//! Regular expressions with limits on their compiled size and on the text that they search.

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use crate::{
    budget::{Budget, Exhausted},
    re2,
};

/// Longest regular expression, in bytes: parsing takes a hundred times that memory.
const LONGEST: usize = 16 << 10;
/// Limits for a compiled expression, in bytes: compiling starts with the lower limit, and doubles the limit
/// as needed.
const LIGHTEST: usize = 1 << 10;
const HEAVIEST: usize = 1 << 20;
/// Bytes of compiled expression that the engine scans in one nanosecond. At worst the engine scans the whole
/// expression for each byte of the text: `(a|b)*a(a|b){2000}` took 51 s for 1 MiB.
const A_NANOSECOND: u64 = 20;
/// Fixed cost of a search, in nanoseconds: the text is bound, the engine warms up.
const SEARCH: u64 = 200;
/// The longest search, in nanoseconds.
const LONGEST_SEARCH: u64 = 400_000_000;
/// Nanoseconds for each byte of the expression that is parsed, and for each byte of the compiled result. Each
/// attempt parses the expression again.
const READING: u64 = 10_000;
const COMPILING: u64 = 30;
/// Nanoseconds to look up the other cases of one character.
const FOLDING: u64 = 40;
/// Maximum number of characters whose other cases are looked up for one expression.
const MOST_FOLDED: u64 = 2_000_000;
/// Least compiled bytes for each byte of an expression: smaller limits are not tried.
const BYTE: usize = 8;

/// A regular expression with RE2's meaning, and the worst cost of a search.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    written: String,
    weight: u64,
}

/// Why a text is refused as a regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The text is no regular expression.
    #[error("is not a regular expression (RE2 syntax, without look-around and back-references)")]
    Invalid,
    /// The text is too long, or takes too much memory once compiled.
    #[error("is too large once compiled; lower its repetition counts")]
    TooLarge,
    /// Compiling the text costs more than the budget has.
    #[error("costs too much")]
    TooCostly,
}

impl From<Exhausted> for PatternError {
    fn from(_: Exhausted) -> Self {
        Self::TooCostly
    }
}

impl From<regex::Error> for PatternError {
    fn from(error: regex::Error) -> Self {
        match error {
            regex::Error::CompiledTooBig(_) => Self::TooLarge,
            _ => Self::Invalid,
        }
    }
}

impl Pattern {
    /// Largest size of a compiled pattern, in bytes.
    pub const HEAVIEST: usize = HEAVIEST;

    /// Compiles a pattern that may match anywhere in a text.
    ///
    /// # Errors
    /// The pattern is no regular expression, or too large.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        Self::compile(pattern, |_| Ok(()))
    }

    /// Compiles a pattern so that it matches whole texts only.
    ///
    /// # Errors
    /// The pattern is no regular expression, or too large.
    pub fn whole(pattern: &str) -> Result<Self, PatternError> {
        // The pattern must also compile by itself: `a)|(b` would close the group and open a second group.
        Self::new(pattern)?;
        let compiled = Self::new(&format!(r"\A(?:{pattern})\z"))?;
        Ok(Self { written: pattern.to_owned(), ..compiled })
    }

    /// Compiles an untrusted pattern, which may match anywhere in a text. The budget pays for each attempt
    /// before the attempt is made.
    ///
    /// # Errors
    /// The pattern is no regular expression, too large, or costs more than the budget has.
    pub fn within(pattern: &str, budget: &mut Budget) -> Result<Self, PatternError> {
        if pattern.len() > LONGEST {
            return Err(PatternError::TooLarge);
        }
        let folding = FOLDING.saturating_mul(re2::folded(pattern));
        let reading = READING.saturating_mul(pattern.len() as u64).saturating_add(folding);
        Self::compile(pattern, |limit| {
            budget.spend(reading.saturating_add(COMPILING.saturating_mul(limit as u64)))
        })
    }

    fn compile(
        pattern: &str,
        mut attempt: impl FnMut(usize) -> Result<(), Exhausted>,
    ) -> Result<Self, PatternError> {
        if pattern.len() > LONGEST || re2::folded(pattern) > MOST_FOLDED {
            return Err(PatternError::TooLarge);
        }
        let meant = re2::in_ascii(pattern);
        let mut limit = LIGHTEST.max((BYTE * pattern.len()).next_power_of_two());
        loop {
            attempt(limit)?;
            let built = RegexBuilder::new(&meant).size_limit(limit).dfa_size_limit(HEAVIEST).build();
            match built {
                Err(regex::Error::CompiledTooBig(_)) if limit < HEAVIEST => limit *= 2,
                built => {
                    return Ok(Self { regex: built?, written: pattern.to_owned(), weight: limit as u64 });
                }
            }
        }
    }

    /// Returns the byte offset of the syntax error in a text that is no regular expression.
    pub fn error_offset(pattern: &str) -> Option<usize> {
        match regex_syntax::Parser::new().parse(pattern).err()? {
            regex_syntax::Error::Parse(error) => Some(error.span().start.offset),
            regex_syntax::Error::Translate(error) => Some(error.span().start.offset),
            _ => None,
        }
    }

    /// Whether the pattern matches; `None` where the text is too long for a pattern of this size.
    pub fn matches(&self, text: &str) -> Option<bool> {
        self.is_searched(text).then(|| self.regex.is_match(text))
    }

    /// Whether [`Pattern::matches`] searches the text at all.
    pub fn is_searched(&self, text: &str) -> bool {
        self.searching(text) <= LONGEST_SEARCH
    }

    /// The pattern as it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The compiled expression, for callers that have paid for the search.
    pub(crate) fn regex(&self) -> &Regex {
        &self.regex
    }

    /// Returns the worst-case time of a search, in nanoseconds.
    fn searching(&self, text: &str) -> u64 {
        self.weight.saturating_mul(text.len() as u64) / A_NANOSECOND
    }
}

impl Budget {
    /// Pays for a search, before it is made.
    ///
    /// # Errors
    /// Like [`Budget::spend`].
    pub fn search(&mut self, pattern: &Pattern, text: &str) -> Result<(), Exhausted> {
        self.spend(SEARCH.saturating_add(pattern.searching(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_texts_match_and_hostile_patterns_are_refused() {
        let pattern = Pattern::whole("a|ab").unwrap();
        assert_eq!(
            ["ab", "abc", "ab\n"].map(|text| pattern.matches(text)),
            [Some(true), Some(false), Some(false)]
        );
        assert_eq!(pattern.written(), "a|ab");
        for (bad, error) in [
            ("a)|(b", PatternError::Invalid),
            ("(", PatternError::Invalid),
            (r"(?=x)", PatternError::Invalid),
            ("(((a{1000}){1000}){1000})", PatternError::TooLarge),
            (&"a".repeat(LONGEST + 1), PatternError::TooLarge),
        ] {
            assert_eq!(Pattern::whole(bad).err(), Some(error), "{bad}");
        }
        // A pattern that hangs backtracking engines takes linear time here.
        let evil = Pattern::whole("(a+)+$").unwrap();
        assert_eq!(evil.matches(&("a".repeat(100_000) + "b")), Some(false));
    }

    #[test]
    fn the_heavier_a_pattern_the_shorter_the_texts_it_looks_at() {
        let judged =
            |pattern: &str, length: usize| Pattern::whole(pattern).unwrap().matches(&"a".repeat(length));
        assert_eq!(judged("[a-z/.:-]+", 1 << 20), Some(true));
        assert_eq!(judged(r"\w+", 100 << 10), Some(true));
        assert_eq!(judged("(a|b)*a(a|b){2000}", 10 << 10), Some(true));
        assert_eq!(judged("(a|b)*a(a|b){2000}", 1 << 20), None);
    }
}
