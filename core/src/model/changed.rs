//! Names of the keys of an object that have changed since this process began to watch. The names explain
//! restarts to users.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::digest::Fingerprint;

/// Maximum number of keys for each object; the latest keys are kept.
const MOST: usize = 16;

/// The keys of one object that were changed, added or removed, with the time of each one's last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedKeys(BTreeMap<String, Timestamp>);

impl ChangedKeys {
    /// Records the difference between two versions of an object; the later version was written `at` this
    /// time.
    pub(super) fn note(&mut self, before: &Fingerprint, after: &Fingerprint, at: Timestamp) {
        let keys = before.keys.keys().chain(after.keys.keys());
        let changed = keys.filter(|key| before.keys.get(*key) != after.keys.get(*key));
        self.0.extend(changed.map(|key| (key.clone(), at)));
        while self.0.len() > MOST {
            let oldest = self.0.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.0.remove(&key));
        }
    }

    /// The keys that have changed at this time or later, in order.
    pub fn since(&self, since: Timestamp) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(_, at)| **at >= since).map(|(key, _)| key.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::KeyPrint;

    fn print(keys: impl IntoIterator<Item = (String, u8)>) -> Fingerprint {
        let key = |(key, value)| (key, KeyPrint { digest: [value; 16], size: 1, binary: false });
        Fingerprint {
            uid: "u".into(),
            resource_version: "1".into(),
            type_: None,
            immutable: false,
            keys: keys.into_iter().map(key).collect(),
            annotations: BTreeMap::new(),
            role: None,
            keeper: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn keys_that_change_come_or_go_are_noted_with_their_time() {
        let of = |keys: &[(&str, u8)]| print(keys.iter().map(|(key, value)| ((*key).to_owned(), *value)));
        let mut changed = ChangedKeys::default();
        changed.note(&of(&[("a", 1), ("b", 1), ("c", 1)]), &of(&[("a", 1), ("b", 2), ("d", 1)]), at(10));
        changed.note(&of(&[("a", 1), ("b", 2)]), &of(&[("a", 2), ("b", 2)]), at(20));
        let since = |second| changed.since(at(second)).collect::<Vec<_>>();
        assert_eq!((since(10), since(11), since(21)), (vec!["a", "b", "c", "d"], vec!["a"], vec![]));
    }

    #[test]
    fn of_many_keys_the_latest_are_kept() {
        let of = |value| print((0..100).map(|at| (format!("k{at}"), value)));
        let mut changed = ChangedKeys::default();
        changed.note(&of(1), &of(2), at(10));
        changed.note(&print([("x".to_owned(), 1)]), &print([("x".to_owned(), 2)]), at(20));
        assert_eq!(changed.since(at(0)).count(), MOST);
        assert_eq!(changed.since(at(20)).collect::<Vec<_>>(), ["x"]);
    }
}
