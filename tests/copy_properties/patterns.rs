//! Patterns of random characters in lists of names: what each means, stated naively, and that a list takes those alone that a name can
//! match.

use copyrator::{names::NameKind, validate::can_match};
use proptest::{collection::vec, prelude::*};

use super::{always, none};

/// Short ones, of characters that mean something in globs, in regular expressions or in names, and of others.
pub fn any_pattern() -> impl Strategy<Value = String> {
    "[-a-cA.*?!^$_/ ,+]{1,5}"
}

#[test]
fn a_list_takes_a_pattern_where_a_name_can_match_it() {
    use NameKind::{DataKey, MetadataKey, Namespace, Object, RoleBinding};
    always(vec(any_pattern(), 64), |patterns| {
        let mut faults = Vec::new();
        for kind in [Namespace, Object, RoleBinding, DataKey, MetadataKey] {
            for pattern in &patterns {
                let is_taken = can_match(pattern, kind);
                if is_taken != examples(pattern).iter().any(|name| kind.is_name(name)) {
                    faults.push(format!("{pattern:?} for {kind:?}: {is_taken}"));
                }
            }
        }
        none(&faults)
    });
}

/// Whether a namespace can have a name that matches.
pub fn is_of_a_namespace(pattern: &str) -> bool {
    examples(pattern).iter().any(|name| NameKind::Namespace.is_name(name))
}

/// Texts that match a pattern of stars and question marks. If any name matches it, one of these does, as long as it is short.
fn examples(pattern: &str) -> Vec<String> {
    pattern.chars().fold(vec![String::new()], |all, one| {
        let pieces = match one {
            '*' => vec![String::new(), "a".into()],
            '?' => vec!["a".into()],
            one => vec![one.to_string()],
        };
        all.iter().flat_map(|head| pieces.iter().map(move |tail| format!("{head}{tail}"))).collect()
    })
}

/// Whether a pattern of stars and question marks matches a name.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return name.is_empty() };
    let rest = &pattern[first.len_utf8()..];
    match first {
        '*' => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        '?' => !name.is_empty() && matches(rest, &name[1..]),
        one => name.strip_prefix(one).is_some_and(|name| matches(rest, name)),
    }
}
