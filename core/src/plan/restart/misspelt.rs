//! A workload's annotation that asks for nothing, or for less than its writer means.

use super::reach::restart_word;
use crate::{marks::RESTART, model::WorkloadFacts};

/// What is wrong with a workload's `copyrator.dev/restart`, and how to write it; `None` where every word
/// counts.
pub fn misspelt(facts: &WorkloadFacts) -> Option<String> {
    let text = facts.restarts.restart.as_deref()?.trim();
    if ["true", "false", ""].contains(&text) {
        return None;
    }
    let wrong: Vec<&str> =
        text.split(',').map(str::trim).filter(|word| restart_word(word).is_none()).collect();
    let first = *wrong.first()?;
    let more = match wrong.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!(
        "annotation {RESTART}: {first:?}{more} names nothing to restart for; write {}",
        meant(first)
    ))
}

/// What a word was probably meant to be.
fn meant(word: &str) -> String {
    let (kind, name) = word.split_once('/').unwrap_or(("", word));
    let name = if name.is_empty() { "NAME" } else { name };
    match kind.to_ascii_lowercase().as_str() {
        "configmap" | "configmaps" | "cm" => format!("\"configmap/{name}\""),
        "secret" | "secrets" => format!("\"secret/{name}\""),
        _ if ["yes", "on", "1", "True", "TRUE"].contains(&word) => "\"true\"".into(),
        _ => format!("\"true\", \"configmap/{name}\" or \"secret/{name}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_and_the_fix_are_named() {
        for (text, expected) in [
            ("true", None),
            ("false", None),
            ("configmap/a, Secret/b", None),
            ("configmaps/a", Some("\"configmaps/a\" names nothing to restart for; write \"configmap/a\"")),
            (
                "secret/b,cm/a,x",
                Some("\"cm/a\" (and 1 more) names nothing to restart for; write \"configmap/a\""),
            ),
            ("secret/", Some("\"secret/\" names nothing to restart for; write \"secret/NAME\"")),
            ("yes", Some("\"yes\" names nothing to restart for; write \"true\"")),
            (
                "app",
                Some(
                    "\"app\" names nothing to restart for; write \"true\", \"configmap/app\" or \"secret/app\"",
                ),
            ),
        ] {
            let mut facts = WorkloadFacts::plain();
            facts.restarts.restart = Some(text.into());
            let expected = expected.map(|rest| format!("annotation copyrator.dev/restart: {rest}"));
            assert_eq!(misspelt(&facts), expected, "{text}");
        }
    }
}
