//! A memory budget that namespaces share, so that no namespace uses up the whole budget.

use std::{collections::BTreeMap, sync::Arc};

/// Each namespace may use one part in `SHARE` of the bytes that other namespaces leave free, so a further
/// namespace always gets some bytes.
pub(super) const SHARE: usize = 4;

/// The bytes that each namespace uses of the budget.
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    taken: BTreeMap<Arc<str>, usize>,
}

impl Room {
    /// An unused budget of `most` bytes.
    pub(super) fn of(most: usize) -> Self {
        Self { most, taken: BTreeMap::new() }
    }

    /// Whether a namespace may take `more` bytes in addition.
    pub(super) fn has(&self, namespace: &str, more: usize) -> bool {
        self.taken_by(namespace).saturating_add(more) <= self.share(namespace)
    }

    /// How many bytes a namespace may use in all.
    pub(super) fn share(&self, namespace: &str) -> usize {
        let others = self.taken.values().sum::<usize>().saturating_sub(self.taken_by(namespace));
        self.most.saturating_sub(others) / SHARE
    }

    /// Notes that a namespace uses these bytes.
    pub(super) fn take(&mut self, namespace: &Arc<str>, bytes: usize) {
        *self.taken.entry(namespace.clone()).or_default() += bytes;
    }

    /// Notes that a namespace no longer uses these bytes.
    pub(super) fn give_back(&mut self, namespace: &str, bytes: usize) {
        if let Some(taken) = self.taken.get_mut(namespace) {
            *taken = taken.saturating_sub(bytes);
            if *taken == 0 {
                self.taken.remove(namespace);
            }
        }
    }

    fn taken_by(&self, namespace: &str) -> usize {
        self.taken.get(namespace).copied().unwrap_or_default()
    }
}
