use regex::Regex;

use super::*;
use crate::{names::NameKind, validate::Globs};

fn text(pattern: &str, anchoring: Anchoring) -> String {
    match globs(pattern, anchoring) {
        Ok(globs) => globs.join(" "),
        Err(why) => format!("! {why}"),
    }
}

#[test]
fn a_pattern_becomes_what_its_tool_means_by_it() {
    use Anchoring::{FirstMatchIsAll, Nowhere, Start};
    for (pattern, anchoring, expected) in [
        ("^team-.*$", Nowhere, "team-*"),
        ("^team-a$", Nowhere, "team-a"),
        ("team", Nowhere, "*team*"),
        ("team", Start, "team*"),
        ("team", FirstMatchIsAll, "team"),
        ("^team-(a|b)$", Start, "team-a team-b"),
        ("^a|b$", Nowhere, "a* *b"),
        ("dev|prod", FirstMatchIsAll, "dev prod"),
        ("team-.+", FirstMatchIsAll, "team-?*"),
        ("team-[0-9a-c-]", FirstMatchIsAll, "team-[0-9a-c-]"),
        (r"team-\d", Start, "team-[0-9]*"),
        (r"my\.ns", FirstMatchIsAll, "my.ns"),
        ("teams?", FirstMatchIsAll, "teams team"),
        (".*", Start, "*"),
        ("", Start, "*"),
        ("team-.*?", Start, "team-*"),
    ] {
        assert_eq!(text(pattern, anchoring), expected, "{pattern:?} {anchoring:?}");
    }
}

#[test]
fn what_no_glob_says_is_refused_with_the_reason() {
    use Anchoring::{FirstMatchIsAll, Nowhere, Start};
    for (pattern, anchoring, expected) in [
        ("*", Start, "cannot be read"),
        ("^(?!kube-).*$", Start, "cannot be read"),
        ("team-[0-9]+", FirstMatchIsAll, "repeats an expression other than a dot"),
        ("[^a]", Start, "a character class"),
        (r"\w", Start, "a character class"),
        ("(?i)team", Start, "flags"),
        (r"team\b", Start, "word boundary"),
        ("a$b", Nowhere, "an anchor in the middle"),
        (r"a\*", Start, "no name contains"),
        ("dev|development", FirstMatchIsAll, "may match the same name"),
        ("team-.*?", FirstMatchIsAll, "lazy"),
        (".*a|b", FirstMatchIsAll, "may match the same name"),
        ("(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)", Start, "more than 64"),
        ("^$", Nowhere, "matches no name"),
    ] {
        let seen = text(pattern, anchoring);
        assert!(seen.starts_with("! ") && seen.contains(expected), "{pattern:?}: {seen}");
    }
}

/// Tries every name of up to four of these characters with both.
#[test]
fn globs_match_exactly_what_the_pattern_matches() {
    let mut names = vec![String::new()];
    for from in 0..4 {
        let longest: Vec<String> = names.iter().filter(|name| name.len() == from).cloned().collect();
        names.extend(longest.iter().flat_map(|name| ['a', 'b', '1'].map(|one| format!("{name}{one}"))));
    }
    names.retain(|name| !name.is_empty());
    let parts = ["a", ".", ".*", ".+", "[ab]", "(a|ab)", "(ab|a)", "b?", "^", "$", "|"];
    let mut compared = 0;
    let count = parts.len();
    for index in 0..count * count * count {
        let part = |digit: usize| parts[index / digit % count];
        let pattern = [part(1), part(count), part(count * count)].concat();
        let Ok(regex) = Regex::new(&pattern) else { continue };
        let from_start = Regex::new(&format!("^(?:{pattern})")).unwrap();
        for anchoring in [Anchoring::Nowhere, Anchoring::Start, Anchoring::FirstMatchIsAll] {
            let Ok(globs) = globs(&pattern, anchoring) else { continue };
            let mut problems = Vec::new();
            let ours = Globs::compile("names", &globs, NameKind::Object, &mut problems);
            assert!(problems.is_empty(), "{pattern:?}: {problems:?}");
            for name in &names {
                let theirs = match anchoring {
                    Anchoring::Nowhere => regex.is_match(name),
                    Anchoring::Start => from_start.is_match(name),
                    Anchoring::FirstMatchIsAll => {
                        regex.find(name).is_some_and(|found| found.len() == name.len())
                    }
                };
                assert_eq!(ours.matches(name), theirs, "{pattern:?} {anchoring:?} {globs:?} {name:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 100_000, "hardly anything was compared: {compared}");
}
