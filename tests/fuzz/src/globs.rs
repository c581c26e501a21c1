//! A name in the first line, then globs, one a line: what matches must match by a slow and simple matcher too, and a glob that matches a
//! name is taken.

use copyrator::{names::NameKind, validate::Globs};

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
    for kind in [NameKind::Namespace, NameKind::Object, NameKind::DataKey, NameKind::MetadataKey] {
        of_kind(kind, name, &entries);
    }
}

fn of_kind(kind: NameKind, name: &str, entries: &[String]) {
    let mut problems = Vec::new();
    let all = Globs::compile("names", entries, kind, &mut problems);
    assert_eq!(
        all.entries().count() + problems.len(),
        entries.len(),
        "an entry is taken, or something is wrong with it"
    );
    let mut any = false;
    for entry in entries {
        let mut problems = Vec::new();
        let one = Globs::compile("names", std::slice::from_ref(entry), kind, &mut problems);
        any |= one.matches(name);
        if is_plain(entry) && is_plain(name) {
            let simple = matches(entry.as_bytes(), name.as_bytes());
            let is_taken = problems.is_empty();
            assert!(is_taken || !simple || !kind.is_name(name), "{entry:?} matches {name:?}, and is refused");
            assert!(!is_taken || one.matches(name) == simple, "{entry:?} on {name:?}");
        }
        if !entry.contains(['*', '?', '[', ']', '{', '}', '\\', '!']) {
            assert_eq!(
                one.literals().is_some_and(|names| !names.is_empty()),
                kind.is_name(entry),
                "{entry:?} for {kind:?}"
            );
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
