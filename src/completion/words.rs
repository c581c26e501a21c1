//! Analyses a command line whose last word is to be completed.

use std::ffi::OsString;

/// The value of an earlier flag: `--context a`, or `--context=a`.
pub(super) fn value_of(words: &[OsString], flag: &str) -> Option<String> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let after = words.windows(2).rev().find(|pair| pair[0] == flag).map(|pair| pair[1].clone().into_owned());
    let within = words.iter().rev().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
    after.or_else(|| within.map(str::to_owned))
}

/// Whether the last word is, or begins, the name of a namespace.
pub(super) fn asks_for_namespace(words: &[OsString]) -> bool {
    const FLAGS: [&str; 4] = ["-n", "--namespace", "--copyrator-namespace", "--source-namespace"];
    let before_last = words.len().checked_sub(2).and_then(|at| words.get(at));
    let is_flag = before_last.is_some_and(|word| FLAGS.iter().any(|flag| word == flag));
    // After `why-not`, the first word that is no flag is a namespace.
    let is_asked_why_not = before_last.is_some_and(|word| word == "why-not");
    let begins_flag = words.last().is_some_and(|word| word.to_string_lossy().starts_with('-'));
    is_flag || (is_asked_why_not && !begins_flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_namespace_is_asked_for_after_its_flags() {
        for (line, expected) in [
            ("plan -n ", true),
            ("plan --namespace sh", true),
            ("why-not ", true),
            ("why-not -", false),
            ("plan -o ", false),
            ("pl", false),
            ("why-not shop --rule ", false),
        ] {
            assert_eq!(asks_for_namespace(&words(line)), expected, "{line:?}");
        }
    }

    #[test]
    fn the_cluster_is_the_one_that_the_words_name() {
        assert_eq!(value_of(&words("plan --context prod -n "), "--context").as_deref(), Some("prod"));
        assert_eq!(value_of(&words("plan --context=prod -n "), "--context").as_deref(), Some("prod"));
        assert_eq!(value_of(&words("plan -n "), "--context"), None);
    }
}
