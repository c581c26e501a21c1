//! Keyed digests for people, shortened. Digests reveal nothing of the content: a reader without the key can
//! only compare them.

/// How many characters of a digest are shown, unless two different digests would look the same.
const SHORT: usize = 8;

/// Two records, `<key id>.<digest>.<scope>`, for comparison: the first characters of the digests; with the
/// scope if only the scope differs, with the key's id if the keys differ. `-` for a missing record.
pub fn side_by_side(running: Option<&str>, wanted: Option<&str>) -> (String, String) {
    let (one, other) = (running.map(parts), wanted.map(parts));
    let (Some(one), Some(other)) = (one, other) else {
        let alone =
            |parts: Option<[&str; 3]>| parts.map_or_else(|| "-".to_owned(), |parts| first(parts[1], SHORT));
        return (alone(one), alone(other));
    };
    if one[0] != other[0] {
        let with_key = |parts: [&str; 3]| format!("{}.{}", first(parts[0], SHORT), first(parts[1], SHORT));
        return (with_key(one), with_key(other));
    }
    if one[1] == other[1] && one[2] != other[2] {
        let with_scope = |parts: [&str; 3]| format!("{}.{}", first(parts[1], SHORT), parts[2]);
        return (with_scope(one), with_scope(other));
    }
    let same = one[1].chars().zip(other[1].chars()).take_while(|(a, b)| a == b).count();
    let length = if one[1] == other[1] { SHORT } else { SHORT.max(same + 1) };
    (first(one[1], length), first(other[1], length))
}

fn parts(record: &str) -> [&str; 3] {
    let mut parts = record.splitn(3, '.');
    [(); 3].map(|()| parts.next().unwrap_or_default())
}

fn first(text: &str, length: usize) -> String {
    text.chars().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_records_never_look_the_same() {
        for (running, wanted, expected) in [
            (Some("k.0123456789ab.s"), Some("k.0123456789ab.s"), ("01234567", "01234567")),
            (Some("k.0123456789ab.s"), Some("k.fedcba987654.s"), ("01234567", "fedcba98")),
            (Some("k.0123456789ab.s"), Some("k.0123456780ab.s"), ("0123456789", "0123456780")),
            (Some("k.0123456789ab.s"), Some("k.0123456789ab.t"), ("01234567.s", "01234567.t")),
            (Some("k.0123456789ab"), Some("k.0123456789ab.t"), ("01234567.", "01234567.t")),
            (Some("j.0123456789ab.s"), Some("k.0123456789ab.s"), ("j.01234567", "k.01234567")),
            (None, Some("k.0123456789ab.s"), ("-", "01234567")),
            (Some("k.0123456789ab.s"), None, ("01234567", "-")),
        ] {
            let (one, other) = side_by_side(running, wanted);
            assert_eq!((&*one, &*other), expected, "{running:?} {wanted:?}");
        }
    }
}
