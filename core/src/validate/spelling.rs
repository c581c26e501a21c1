//! Suggests a correction for a misspelt word.

/// Returns the closest of these words, if the difference is only upper or lower case, a plural, or one or two
/// typing errors.
pub fn meant<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    // The text is longer than any known word: skip the slow comparison.
    if written.len() > LONGEST {
        return None;
    }
    let written = written.to_lowercase();
    let distance = |word: &str| slips(&written, &word.to_lowercase());
    let most = |word: &str| (word.chars().count() / 3).clamp(1, 3);
    let near =
        words.into_iter().map(|word| (distance(word), word)).filter(|(slips, word)| *slips <= most(word));
    near.min().map(|(_, word)| word)
}

/// "; did you mean X?", or an empty text.
pub(crate) fn did_you_mean<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    meant(written, words).map(|word| format!("; did you mean {word}?")).unwrap_or_default()
}

const LONGEST: usize = 128;

/// The edit distance between two words.
fn slips(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, against) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != *against);
            diagonal = row[at + 1];
            row[at + 1] = change.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_or_two_is_understood_and_another_word_is_not() {
        let fields = ["source", "targets", "excludeTargets", "copy", "conflictPolicy", "suspend"];
        for (written, expected) in [
            ("target", Some("targets")),
            ("Targets", Some("targets")),
            ("excludetargets", Some("excludeTargets")),
            ("conflictPolcy", Some("conflictPolicy")),
            ("copies", None),
            ("destination", None),
            ("", None),
        ] {
            assert_eq!(meant(written, fields), expected, "{written}");
        }
        assert_eq!(did_you_mean("surce", fields), "; did you mean source?");
        assert_eq!(did_you_mean(&"x".repeat(4096), fields), "");
    }
}
