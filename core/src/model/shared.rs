//! Values that many objects have alike, each kept once.

use std::{collections::BTreeSet, sync::Arc};

/// Each value once, for as long as an object has it.
#[derive(Debug)]
pub(super) struct Shared<T>(BTreeSet<Arc<T>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Ord> Shared<T> {
    /// Lets an object that comes use the value that others have already.
    pub(super) fn share(&mut self, value: &mut Arc<T>) {
        match self.0.get(value) {
            Some(known) => *value = known.clone(),
            None => drop(self.0.insert(value.clone())),
        }
    }

    /// Forgets the value of an object that goes, where no other object has it.
    pub(super) fn release(&mut self, value: &Arc<T>) {
        // One reference is the caller's, the other the set's own.
        if Arc::strong_count(value) == 2 {
            self.0.remove(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_once_and_for_as_long_as_an_object_has_it() {
        let mut shared = Shared::default();
        let (mut one, mut two) = (Arc::new("a"), Arc::new("a"));
        shared.share(&mut one);
        shared.share(&mut two);
        assert!(Arc::ptr_eq(&one, &two));
        shared.release(&one);
        drop(one);
        assert_eq!(shared.0.len(), 1, "another object has it");
        shared.release(&two);
        assert!(shared.0.is_empty());
    }
}
