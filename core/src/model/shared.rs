//! Sharing of equal values: each value is in memory once for all objects that have it.

use std::{collections::BTreeSet, sync::Arc};

/// A set that keeps each value once, as long as an object has the value.
#[derive(Debug)]
pub(super) struct Shared<T> {
    values: BTreeSet<Arc<T>>,
    /// At this number of values, the values that no object has are removed.
    full: usize,
}

/// The least value of `full`.
const FEW: usize = 64;

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { values: BTreeSet::new(), full: FEW }
    }
}

impl<T: Ord> Shared<T> {
    /// Replaces the value of a new object by the equal value that other objects have.
    pub(super) fn share(&mut self, value: &mut Arc<T>) {
        if let Some(known) = self.values.get(value) {
            *value = known.clone();
            return;
        }
        if self.values.len() >= self.full {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.full = (2 * self.values.len()).max(FEW);
        }
        self.values.insert(value.clone());
    }

    /// Forgets the value of a removed object, unless another object has the value. A value that another
    /// thread is reading stays until the set is full.
    pub(super) fn release(&mut self, value: &Arc<T>) {
        // The caller has one reference, and the set has its own.
        if Arc::strong_count(value) == 2 {
            self.values.remove(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_once_and_for_as_long_as_an_object_has_it() {
        let mut shared = Shared::default();
        let (mut one, mut two) = (Arc::new(1), Arc::new(1));
        shared.share(&mut one);
        shared.share(&mut two);
        assert!(Arc::ptr_eq(&one, &two));
        shared.release(&one);
        drop(one);
        assert_eq!(shared.values.len(), 1, "another object has it");
        shared.release(&two);
        assert!(shared.values.is_empty());
    }

    #[test]
    fn values_that_were_being_read_when_their_objects_went_do_not_add_up() {
        let mut shared = Shared::default();
        for number in 0..10 * FEW {
            let mut value = Arc::new(number);
            shared.share(&mut value);
            let read = value.clone();
            shared.release(&value);
            drop(read);
        }
        assert!(shared.values.len() <= FEW, "{}", shared.values.len());
    }
}
