//! The labels of an object, up to a limit. Kubernetes limits neither the number nor the total size of labels,
//! only the size of the object.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

use crate::{marks, validate::Selector};

/// Maximum number of labels of an object.
const MOST: usize = 64;
/// Maximum bytes of the labels' keys and values together.
pub(super) const MOST_BYTES: usize = 8 << 10;

/// The labels of an object. For an object with more than 64 labels, or more than 8 KiB of labels, only
/// Copyrator's own labels are kept, and no selector selects the object, since its other labels are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    kept: BTreeMap<Box<str>, Box<str>>,
    is_cut: bool,
}

impl Labels {
    /// The text for messages about [`Self::is_cut`].
    pub const TOO_MANY: &'static str = "Copyrator does not read more than 64 labels or 8 KiB of labels";

    /// The value of a label; `None` for a label that the object does not have or that is not kept.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.kept.get(key).map(|value| &**value)
    }

    /// The labels that are kept, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kept.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether the object has more labels than are kept.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether a selector selects the object.
    pub fn are_selected_by(&self, selector: &Selector) -> bool {
        !self.is_cut && selector.matches(|key| self.get(key))
    }

    /// Whether the object has this label, or may have it because not all labels are kept.
    pub fn may_have(&self, key: &str, value: &str) -> bool {
        self.get(key) == Some(value) || (self.is_cut && !marks::is_label(key))
    }

    /// Whether the object has, or may have, each of these labels.
    pub fn may_have_all(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(key, value)| self.may_have(key, value))
    }

    /// Adds a label; `bytes` is the number of bytes of all labels of the object so far.
    fn add(&mut self, key: &str, value: &str, bytes: &mut usize) {
        *bytes = bytes.saturating_add(key.len() + value.len());
        if !self.is_cut && (self.kept.len() >= MOST || *bytes > MOST_BYTES) {
            self.is_cut = true;
            self.kept.retain(|key, _| marks::is_label(key));
        }
        if !self.is_cut || marks::is_label(key) {
            self.kept.insert(key.into(), value.into());
        }
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(labels: T) -> Self {
        let (mut kept, mut bytes) = (Self::default(), 0);
        labels.into_iter().for_each(|(key, value)| kept.add(key.as_ref(), value.as_ref(), &mut bytes));
        kept
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.kept)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Kept;
        impl<'de> Visitor<'de> for Kept {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let (mut kept, mut bytes) = (Labels::default(), 0);
                while let Some((key, value)) = map.next_entry::<Cow<'de, str>, Cow<'de, str>>()? {
                    kept.add(&key, &value, &mut bytes);
                }
                Ok(kept)
            }

            fn visit_unit<E>(self) -> Result<Labels, E> {
                Ok(Labels::default())
            }
        }
        deserializer.deserialize_any(Kept)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns this number of labels with values of this length, and three labels of ours.
    fn labels(number: usize, length: usize) -> Value {
        let others = (0..number).map(|at| (format!("example.org/{at:05}"), json!("x".repeat(length))));
        let ours = [(marks::MANAGED_BY, "copyrator"), (marks::RULE_LABEL, "r"), ("copyrator.dev/other", "o")];
        others
            .chain(ours.map(|(key, value)| (key.to_owned(), json!(value))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    /// A user may put any number of labels on an object, up to the maximum size of the object.
    #[test]
    fn of_many_or_long_labels_only_ours_are_kept() {
        for (number, length, is_cut) in
            [(0, 0, false), (61, 63, false), (62, 1, true), (61, 200, true), (10_000, 63, true)]
        {
            let written = labels(number, length);
            let read: Labels = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(read.is_cut(), is_cut, "{number} of {length}");
            let expected = if is_cut { 2 } else { number + 3 };
            assert_eq!((read.iter().count(), read.get(marks::RULE_LABEL)), (expected, Some("r")));
            let pairs = written.as_object().unwrap().iter();
            let made: Labels = pairs.rev().map(|(key, value)| (key, value.as_str().unwrap())).collect();
            assert_eq!(made, read, "in whatever order they come");
        }
        assert_eq!(serde_json::from_value::<Labels>(Value::Null).unwrap(), Labels::default());
    }

    /// Any other result could select an excluded object, or cause a copy to be written again and again.
    #[test]
    fn what_is_not_kept_is_neither_selected_nor_missing() {
        let (few, many): (Labels, Labels) =
            (serde_json::from_value(labels(1, 1)).unwrap(), serde_json::from_value(labels(1000, 1)).unwrap());
        for (selector, selects) in [
            (json!({}), true),
            (json!({"matchLabels": {"example.org/00000": "x"}}), true),
            (json!({"matchLabels": {"copyrator.dev/rule": "r"}}), true),
            (json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), true),
            (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}), true),
            (json!({"matchLabels": {"a": "b"}}), false),
        ] {
            let compiled =
                Selector::compile("s", &serde_json::from_value(selector.clone()).unwrap(), &mut Vec::new());
            assert_eq!(few.are_selected_by(&compiled), selects, "{selector}");
            assert!(!many.are_selected_by(&compiled), "{selector}");
        }
        assert!(few.may_have("example.org/00000", "x") && !few.may_have("example.org/00000", "y"));
        assert!(!few.may_have("a", "b"));
        assert!(many.may_have("a", "b") && many.may_have(marks::RULE_LABEL, "r"));
        assert!(!many.may_have(marks::RULE_LABEL, "other"), "ours are kept");
    }
}
