//! Deduplication of reports.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

/// Number of remembered messages. Beyond this number, all messages are forgotten, and each message may be
/// reported once more.
const MOST: usize = 10_000;

/// The last message about each object.
#[derive(Clone, Debug)]
pub(super) struct Dedup<K>(Arc<Mutex<HashMap<K, String>>>);

impl<K> Default for Dedup<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> Dedup<K> {
    /// Returns the message unless it repeats the last message about this object. `None` as a message forgets
    /// the object.
    pub(super) fn is_new(&self, of: &K, what: Option<String>) -> Option<String> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(what) = what else {
            said.remove(of);
            return None;
        };
        if said.len() >= MOST && !said.contains_key(of) {
            said.clear();
        }
        (said.insert(of.clone(), what.clone()).as_ref() != Some(&what)).then_some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_objects_say_takes_bounded_room() {
        let all = Dedup::default();
        for of in 0..=MOST {
            all.is_new(&of, Some("a".into()));
        }
        assert_eq!(all.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn it_is_told_once_until_it_is_another() {
        let all = Dedup::default();
        let said = |what: Option<&str>| all.is_new(&"web", what.map(str::to_owned)).is_some();
        assert!(said(Some("a")) && !said(Some("a")) && said(Some("b")) && !said(None) && said(Some("b")));
    }
}
