//! Regular expressions: bounded in what they weigh, and in how long a text they look at.

use regex::{Regex, RegexBuilder};

use super::{
    budget::{Budget, Exhausted},
    re2,
};
use crate::{api::Problem, validate::invalid};

/// The longest expression, in bytes: reading one takes a hundred times its memory.
const LONGEST: usize = 16 << 10;
/// What a compiled expression may weigh, in bytes: from this, doubled until it fits, up to that.
const LIGHTEST: usize = 1 << 10;
pub(super) const HEAVIEST: usize = 1 << 20;
/// At worst the engine looks at the whole expression for each byte of the text: `(a|b)*a(a|b){2000}` took 51
/// s for 1 MiB. This many bytes of expression took a nanosecond a byte of text.
const A_NANOSECOND: u64 = 20;
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

/// A regular expression, and what it weighs.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    written: String,
    weight: u64,
}

impl Pattern {
    /// Compiles a pattern so that it matches whole texts only, or reports what is wrong with it at `field`.
    pub(super) fn whole(field: &str, pattern: &str, problems: &mut Vec<Problem>) -> Option<Self> {
        let compiled = Self::somewhere(pattern).and_then(|_| Self::somewhere(&format!(r"\A(?:{pattern})\z")));
        match compiled {
            Ok(compiled) => Some(Self { written: pattern.to_owned(), ..compiled }),
            Err(regex::Error::CompiledTooBig(_)) => {
                problems.push(invalid(field, "is too large once compiled; lower its repetition counts"));
                None
            }
            Err(_) => {
                problems.push(invalid(
                    field,
                    format!("{pattern:?} is no regular expression (RE2 syntax, without look-around and back-references)"),
                ));
                None
            }
        }
    }

    /// Compiles a pattern that may match anywhere in a text.
    pub(super) fn somewhere(pattern: &str) -> Result<Self, regex::Error> {
        let free = |_| Ok::<(), std::convert::Infallible>(());
        let Ok(compiled) = Self::compile(pattern, free);
        compiled
    }

    /// The same for a pattern that came with the write: each attempt is paid for before it is made.
    pub(super) fn bought(
        pattern: &str,
        budget: &mut Budget,
    ) -> Result<Result<Self, regex::Error>, Exhausted> {
        if pattern.len() > LONGEST {
            return Ok(Err(regex::Error::CompiledTooBig(LONGEST)));
        }
        let folding = FOLDING.saturating_mul(re2::folded(pattern));
        let reading = READING.saturating_mul(pattern.len() as u64).saturating_add(folding);
        Self::compile(pattern, |limit| {
            budget.spend(reading.saturating_add(COMPILING.saturating_mul(limit as u64)))
        })
    }

    fn compile<E>(
        pattern: &str,
        mut attempt: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Result<Self, regex::Error>, E> {
        if pattern.len() > LONGEST || re2::folded(pattern) > MOST_FOLDED {
            return Ok(Err(regex::Error::CompiledTooBig(LONGEST)));
        }
        let meant = re2::in_ascii(pattern);
        let mut limit = LIGHTEST.max((BYTE * pattern.len()).next_power_of_two());
        loop {
            attempt(limit)?;
            let built = RegexBuilder::new(&meant).size_limit(limit).dfa_size_limit(HEAVIEST).build();
            match built {
                Err(regex::Error::CompiledTooBig(_)) if limit < HEAVIEST => limit *= 2,
                built => {
                    let (written, weight) = (pattern.to_owned(), limit as u64);
                    return Ok(built.map(|regex| Self { regex, written, weight }));
                }
            }
        }
    }

    /// Where in a text that is no regular expression the fault is, in bytes.
    pub(super) fn error_offset(pattern: &str) -> Option<usize> {
        match regex_syntax::Parser::new().parse(pattern).err()? {
            regex_syntax::Error::Parse(error) => Some(error.span().start.offset),
            regex_syntax::Error::Translate(error) => Some(error.span().start.offset),
            _ => None,
        }
    }

    /// Whether it matches; `None` where the text is too long for so heavy a pattern.
    pub(super) fn matches(&self, text: &str) -> Option<bool> {
        self.is_searched(text).then(|| self.regex.is_match(text))
    }

    /// Whether [`Pattern::matches`] looks at the text at all.
    pub(super) fn is_searched(&self, text: &str) -> bool {
        self.searching(text) <= LONGEST_SEARCH
    }

    /// The pattern as it was written.
    pub(super) fn written(&self) -> &str {
        &self.written
    }

    /// The expression, for callers that pay for [`Pattern::searching`].
    pub(super) fn regex(&self) -> &Regex {
        &self.regex
    }

    /// What a search takes at worst, in nanoseconds.
    pub(super) fn searching(&self, text: &str) -> u64 {
        self.weight.saturating_mul(text.len() as u64) / A_NANOSECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_texts_match_and_hostile_patterns_are_refused() {
        let mut problems = Vec::new();
        let pattern = Pattern::whole("f", "a|ab", &mut problems).unwrap();
        assert_eq!(
            ["ab", "abc", "ab\n"].map(|text| pattern.matches(text)),
            [Some(true), Some(false), Some(false)]
        );
        assert_eq!(pattern.written(), "a|ab");
        for bad in ["a)|(b", "(", r"(?=x)", "(((a{1000}){1000}){1000})", &"a".repeat(LONGEST + 1)] {
            assert!(Pattern::whole("f", bad, &mut problems).is_none(), "{bad}");
        }
        assert_eq!(problems.len(), 5, "{problems:?}");
        // What hangs backtracking engines takes linear time here.
        let evil = Pattern::whole("f", "(a+)+$", &mut problems).unwrap();
        assert_eq!(evil.matches(&("a".repeat(100_000) + "b")), Some(false));
    }

    #[test]
    fn the_heavier_a_pattern_the_shorter_the_texts_it_looks_at() {
        let mut problems = Vec::new();
        let mut judged = |pattern: &str, length: usize| {
            Pattern::whole("f", pattern, &mut problems).unwrap().matches(&"a".repeat(length))
        };
        assert_eq!(judged("[a-z/.:-]+", 1 << 20), Some(true));
        assert_eq!(judged(r"\w+", 100 << 10), Some(true));
        assert_eq!(judged("(a|b)*a(a|b){2000}", 10 << 10), Some(true));
        assert_eq!(judged("(a|b)*a(a|b){2000}", 1 << 20), None);
    }
}
