//! Regular expressions that a whole text must match.

use regex::{Regex, RegexBuilder};

use crate::{api::Problem, validate::invalid};

/// What a compiled expression may weigh, in bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// Compiles a pattern so that it matches whole texts only, or reports what is wrong with it at `field`.
pub(super) fn compile(field: &str, pattern: &str, problems: &mut Vec<Problem>) -> Option<Regex> {
    let result = bounded(pattern).and_then(|_| bounded(&format!(r"\A(?:{pattern})\z")));
    match result {
        Ok(regex) => Some(regex),
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

/// Compiles a regular expression within bounds.
pub(super) fn bounded(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).dfa_size_limit(SIZE_LIMIT).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_texts_match_and_hostile_patterns_are_refused() {
        let mut problems = Vec::new();
        let regex = compile("f", "a|ab", &mut problems).unwrap();
        assert!(regex.is_match("ab") && !regex.is_match("abc") && !regex.is_match("ab\n"));
        for bad in ["a)|(b", "(", r"(?=x)", "(((a{1000}){1000}){1000})"] {
            assert!(compile("f", bad, &mut problems).is_none(), "{bad}");
        }
        assert_eq!(problems.len(), 4, "{problems:?}");
        // What hangs backtracking engines takes linear time here.
        let evil = compile("f", "(a+)+$", &mut problems).unwrap();
        assert!(!evil.is_match(&("a".repeat(100_000) + "b")));
    }
}
