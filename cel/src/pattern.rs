//! Regular expressions: bounded in what they weigh, and in how long a text they look at.

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use crate::{
    budget::{Budget, Exhausted},
    re2,
};

/// The longest expression, in bytes: reading one takes a hundred times its memory.
const LONGEST: usize = 16 << 10;
/// What a compiled expression may weigh, in bytes: from this, doubled until it fits, up to that.
const LIGHTEST: usize = 1 << 10;
const HEAVIEST: usize = 1 << 20;
/// At worst the engine looks at the whole expression for each byte of the text: `(a|b)*a(a|b){2000}` took 51
/// s for 1 MiB. This many bytes of expression took a nanosecond a byte of text.
const A_NANOSECOND: u64 = 20;
/// What any search takes, in nanoseconds: its text is bound, its engine warmed.
const SEARCH: u64 = 200;
/// The longest search, in nanoseconds.
const LONGEST_SEARCH: u64 = 400_000_000;
/// Reading and compiling take so many nanoseconds a byte of what is read, and of what comes of it. Each
/// attempt reads anew.
const READING: u64 = 10_000;
const COMPILING: u64 = 30;
/// Looking up a character in its other cases takes so many nanoseconds.
const FOLDING: u64 = 40;
/// This many are looked up at most.
const MOST_FOLDED: u64 = 2_000_000;
/// No byte of an expression weighs less: what is lighter is not attempted.
const BYTE: usize = 8;

/// A regular expression that means what it means to RE2, and what a search for it takes at worst.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    written: String,
    weight: u64,
}

/// Why a text is not taken as a regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The text is no regular expression.
    #[error("is no regular expression (RE2 syntax, without look-around and back-references)")]
    Invalid,
    /// It is too long, or takes too much memory once compiled.
    #[error("is too large once compiled; lower its repetition counts")]
    TooLarge,
    /// Compiling it costs more than the budget has.
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
    /// The most that a pattern may weigh once compiled, in bytes.
    pub const HEAVIEST: usize = HEAVIEST;

    /// Compiles a pattern that may match anywhere in a text.
    ///
    /// # Errors
    /// It is no regular expression, or too large.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        Self::compile(pattern, |_| Ok(()))
    }

    /// Compiles a pattern so that it matches whole texts only.
    ///
    /// # Errors
    /// It is no regular expression, or too large.
    pub fn whole(pattern: &str) -> Result<Self, PatternError> {
        // By itself, too: it could close the group and open another.
        Self::new(pattern)?;
        let compiled = Self::new(&format!(r"\A(?:{pattern})\z"))?;
        Ok(Self { written: pattern.to_owned(), ..compiled })
    }

    /// Compiles a pattern that may match anywhere in a text, and that came from the same source as the text: the budget pays
    /// for each attempt before it is made.
    ///
    /// # Errors
    /// It is no regular expression, too large, or costs more than the budget has.
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

    /// Where in a text that is no regular expression the fault is, in bytes.
    pub fn error_offset(pattern: &str) -> Option<usize> {
        match regex_syntax::Parser::new().parse(pattern).err()? {
            regex_syntax::Error::Parse(error) => Some(error.span().start.offset),
            regex_syntax::Error::Translate(error) => Some(error.span().start.offset),
            _ => None,
        }
    }

    /// Whether it matches; `None` where the text is too long for so heavy a pattern.
    pub fn matches(&self, text: &str) -> Option<bool> {
        self.is_searched(text).then(|| self.regex.is_match(text))
    }

    /// Whether [`Pattern::matches`] looks at the text at all.
    pub fn is_searched(&self, text: &str) -> bool {
        self.searching(text) <= LONGEST_SEARCH
    }

    /// The pattern as it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The expression, for callers that have paid for the search.
    pub(crate) fn regex(&self) -> &Regex {
        &self.regex
    }

    /// What a search takes at worst, in nanoseconds.
    fn searching(&self, text: &str) -> u64 {
        self.weight.saturating_mul(text.len() as u64) / A_NANOSECOND
    }
}

impl Budget {
    /// Pays for a search, before it is made.
    ///
    /// # Errors
    /// As of [`Budget::spend`].
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
        // What hangs backtracking engines takes linear time here.
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
