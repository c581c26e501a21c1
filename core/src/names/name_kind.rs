//! The rules for names that Kubernetes accepts, by kind of name.

use crate::api::Kind;

/// A kind of name. Kubernetes has different rules for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// Namespaces: a label of RFC 1123.
    Namespace,
    /// Objects of nearly all kinds: a subdomain of RFC 1123.
    Object,
    /// RoleBindings: any one segment of a path.
    RoleBinding,
    /// Keys of the data of ConfigMaps and Secrets.
    DataKey,
    /// Keys of labels and annotations: a name, with or without a prefix that is a subdomain.
    MetadataKey,
}

/// The state of reading a name byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameState(Part, Edge);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// The part before the slash of a [`NameKind::MetadataKey`].
    Prefix,
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    /// At the beginning of a word.
    Start,
    /// The name may end here.
    End,
    /// Within a word: the name may not end here.
    Inside,
}

impl NameKind {
    /// The kind of name that objects of this kind have.
    pub fn of(kind: Kind) -> Self {
        if kind == Kind::RoleBinding { Self::RoleBinding } else { Self::Object }
    }

    /// Maximum number of characters.
    pub fn longest(self) -> usize {
        match self {
            Self::Namespace => 63,
            Self::Object | Self::RoleBinding | Self::DataKey => 253,
            Self::MetadataKey => 253 + 1 + 63,
        }
    }

    /// The noun for such a name in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Namespace => "name of a namespace",
            Self::Object => "name of an object",
            Self::RoleBinding => "name of a RoleBinding",
            Self::DataKey => "key of a ConfigMap or Secret",
            Self::MetadataKey => "key of labels or annotations",
        }
    }

    /// The characters of such a name, in words.
    pub fn alphabet(self) -> &'static str {
        match self {
            Self::Namespace => {
                "at most 63 lower-case letters, digits and -, with a letter or digit at both ends"
            }
            Self::Object => {
                "at most 253 lower-case letters, digits, - and .; each part between dots begins and ends with a letter or digit"
            }
            Self::RoleBinding => "at most 253 characters without / and %",
            Self::DataKey => "at most 253 letters, digits, -, _ and ., not beginning with ..",
            Self::MetadataKey => {
                "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends; optionally after a domain and a /"
            }
        }
    }

    /// Whether Kubernetes accepts this name.
    pub fn is_name(self, text: &str) -> bool {
        let is_read = |start: NameState| {
            text.bytes().try_fold(start, |state, byte| self.step(state, byte)).is_some_and(NameState::may_end)
        };
        let is_short = |text: &str| match (self, text.split_once('/')) {
            (Self::MetadataKey, Some((prefix, name))) => prefix.len() <= 253 && name.len() <= 63,
            (Self::MetadataKey, None) => text.len() <= 63,
            _ => text.len() <= self.longest(),
        };
        is_short(text)
            && self.starts().any(is_read)
            && !(self == Self::RoleBinding && [".", ".."].contains(&text))
    }

    /// Whether such a name can contain this character.
    pub fn holds(self, one: char) -> bool {
        let parts = [Part::Prefix, Part::Name].into_iter();
        let mut all =
            parts.flat_map(|part| [Edge::Start, Edge::End, Edge::Inside].map(|edge| NameState(part, edge)));
        let mut bytes = [0; 4];
        let last = *one.encode_utf8(&mut bytes).as_bytes().last().unwrap_or(&0);
        all.any(|state| self.step(state, last).is_some())
    }

    /// The initial states.
    pub fn starts(self) -> impl Iterator<Item = NameState> {
        let prefix = (self == Self::MetadataKey).then_some(Part::Prefix);
        prefix.into_iter().chain([Part::Name]).map(|part| NameState(part, Edge::Start))
    }

    /// The state after one more byte; `None` if no name can continue with that byte. All bytes of one range
    /// of [`ALIKE`] give the same state.
    pub fn step(self, NameState(part, edge): NameState, byte: u8) -> Option<NameState> {
        let (is_lower, is_first) = (byte.is_ascii_lowercase() || byte.is_ascii_digit(), edge == Edge::Start);
        let next = match (self, part) {
            (Self::RoleBinding, _) => (!matches!(byte, b'/' | b'%')).then_some(Edge::End),
            (Self::DataKey, _) => match byte {
                b'.' if is_first => Some(Edge::Inside),
                b'.' if edge == Edge::Inside => None,
                b'-' | b'_' | b'.' => Some(Edge::End),
                _ => byte.is_ascii_alphanumeric().then_some(Edge::End),
            },
            (Self::MetadataKey, Part::Name) => match byte {
                b'-' | b'_' | b'.' => (!is_first).then_some(Edge::Inside),
                _ => byte.is_ascii_alphanumeric().then_some(Edge::End),
            },
            (Self::MetadataKey, Part::Prefix) if byte == b'/' => {
                return (edge == Edge::End).then_some(NameState(Part::Name, Edge::Start));
            }
            (Self::Namespace | Self::Object | Self::MetadataKey, _) => match byte {
                b'-' => (!is_first).then_some(Edge::Inside),
                b'.' => (self != Self::Namespace && edge == Edge::End).then_some(Edge::Start),
                _ => is_lower.then_some(Edge::End),
            },
        };
        next.map(|edge| NameState(part, edge))
    }
}

impl NameState {
    /// Whether the name may end here.
    pub fn may_end(self) -> bool {
        self == Self(Part::Name, Edge::End)
    }
}

/// All bytes, in ranges that [`NameKind::step`] treats alike.
pub const ALIKE: [(u8, u8); 14] = [
    (0, b'$'),
    (b'%', b'%'),
    (b'&', b','),
    (b'-', b'-'),
    (b'.', b'.'),
    (b'/', b'/'),
    (b'0', b'9'),
    (b':', b'@'),
    (b'A', b'Z'),
    (b'[', b'^'),
    (b'_', b'_'),
    (b'`', b'`'),
    (b'a', b'z'),
    (b'{', u8::MAX),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_the_api_server_accepts() {
        use NameKind::{DataKey, MetadataKey, Namespace, Object, RoleBinding};
        let long = |length: usize| "n".repeat(length);
        for (kind, names, others) in [
            (Namespace, ["a", "0", "a-b", "a--b", &long(63)], ["", "-a", "a-", "a.b", &long(64)]),
            (Object, ["a", "a.b", "a-b.c", &long(64), &long(253)], ["A", "a..b", ".a", "a.-b", &long(254)]),
            (RoleBinding, ["a", "system:node", "A b", "a*", "..."], ["", ".", "..", "a/b", "a%"]),
            (DataKey, ["a", ".a", "-", "A_b.C", "a.."], ["", ".", "..", "..a", "a/b"]),
            (MetadataKey, ["a", "A_b.c", "a.b/C", "a/b", &long(63)], ["a/", "/a", "A/b", "a/b/c", &long(64)]),
            (
                MetadataKey,
                ["0", "a-b/c", "a.b.c/D", "x/y_z", "a--b"],
                ["-a", "a_", "-a/b", "a..b/c", "a_b/c"],
            ),
        ] {
            for name in names {
                assert!(kind.is_name(name), "{kind:?} {name:?}");
                assert!(name.chars().all(|one| kind.holds(one)), "{kind:?} {name:?}");
            }
            for other in others {
                assert!(!kind.is_name(other), "{kind:?} {other:?}");
            }
        }
        assert!(!Object.holds('é') && RoleBinding.holds('é') && !DataKey.holds('\\'));
    }

    #[test]
    fn bytes_of_one_range_are_alike() {
        use NameKind::{DataKey, MetadataKey, Namespace, Object, RoleBinding};
        assert!(ALIKE.windows(2).all(|two| two[0].1 + 1 == two[1].0), "no byte is left out");
        for kind in [Namespace, Object, RoleBinding, DataKey, MetadataKey] {
            for (from, to) in ALIKE {
                for state in [Part::Prefix, Part::Name]
                    .into_iter()
                    .flat_map(|part| [Edge::Start, Edge::End, Edge::Inside].map(|edge| NameState(part, edge)))
                {
                    let first = kind.step(state, from);
                    assert!((from..=to).all(|byte| kind.step(state, byte) == first), "{kind:?} {from} {to}");
                }
            }
        }
    }
}
