//! A name in the first line, then globs, one a line: what matches must match by a slow and simple matcher too.

use copyrator::validate::Globs;

/// The longest list and entry that are looked at. The schema of our kinds lets 64 of 253 through, but each is compiled, and more of them
/// show nothing that these do not.
const MOST: (usize, usize) = (6, 100);

/// A name of the input is matched with globs of the input.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.split('\n');
    let (Some(name), entries) = (lines.next(), lines.map(str::to_owned).collect::<Vec<_>>()) else { return };
    if entries.len() > MOST.0 || entries.iter().chain([&name.to_owned()]).any(|entry| entry.len() > MOST.1) {
        return;
    }
    let mut problems = Vec::new();
    let all = Globs::compile("names", &entries, &mut problems);
    assert_eq!(
        all.entries().count() + problems.len(),
        entries.len(),
        "an entry is taken, or something is wrong with it"
    );
    let mut any = false;
    for entry in &entries {
        let mut problems = Vec::new();
        let one = Globs::compile("names", std::slice::from_ref(entry), &mut problems);
        any |= one.matches(name);
        if problems.is_empty() && is_plain(entry) && is_plain(name) {
            let simple = matches(entry.as_bytes(), name.as_bytes());
            assert_eq!(one.matches(name), simple, "{entry:?} on {name:?}");
        }
        if !entry.is_empty() && entry.chars().all(|one| one != '*' && one != '?') && is_plain(entry) {
            assert!(one.matches(entry) && one.literals().is_some(), "{entry:?} is a name");
        }
    }
    assert_eq!(all.matches(name), any, "a list matches what any of its entries matches");
}

/// Nothing but stars and question marks means anything beside itself, and a name of Kubernetes can be like this.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.*?".contains(&byte))
}

/// A star is any text, a question mark any character.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    // For each length of the name's beginning, whether the glob so far matches it.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for one in glob {
        if *one == b'*' {
            let first = reached.iter().position(|is| *is).unwrap_or(reached.len());
            reached[first..].fill(true);
        } else {
            for end in (1..=name.len()).rev() {
                reached[end] = reached[end - 1] && (*one == b'?' || *one == name[end - 1]);
            }
            reached[0] = false;
        }
    }
    reached[name.len()]
}
