//! The objects and lists of a [`World`] that cannot be read.

use super::{FailingList, ListName, UnreadObject, World};
use crate::names::{InstanceKind, NamespacedName, ObjectKey};

impl World {
    /// The objects that could not be read, each with the reason.
    pub fn unreadable(&self) -> impl Iterator<Item = (&UnreadObject, &str)> {
        self.cluster.unreadable.iter().map(|(object, why)| (object, &**why))
    }

    /// Why an object could not be read; `None` for an object that was read, or does not exist.
    pub fn why_unreadable(&self, object: &UnreadObject) -> Option<&str> {
        self.cluster.unreadable.get(object).map(|why| &**why)
    }

    /// Why an object of a kind that is copied or declared could not be read.
    pub fn unreadable_object(&self, key: &ObjectKey) -> Option<&str> {
        // The map is nearly always empty.
        if self.cluster.unreadable.is_empty() {
            return None;
        }
        self.why_unreadable(&UnreadObject::Object(key.clone()))
    }

    /// Why an object that templates are rendered for could not be read.
    pub fn unreadable_instance(&self, kind: &InstanceKind, name: &NamespacedName) -> Option<&str> {
        self.why_unreadable(&UnreadObject::Instance(kind.clone(), name.clone()))
    }

    /// Notes why an object could not be read, or that the object was read or is gone; returns whether the
    /// entry has changed.
    pub fn note_unreadable(&mut self, object: UnreadObject, why: Option<&str>) -> bool {
        match why {
            Some(why) => self.cluster.unreadable.insert(object, why.into()).as_deref() != Some(why),
            None => self.cluster.unreadable.remove(&object).is_some(),
        }
    }

    /// Forgets the unreadable objects for which `is_left` holds: no watch shows these objects any more, so no
    /// event would show that they are readable again.
    pub fn forget_unreadable(&mut self, is_left: impl Fn(&UnreadObject) -> bool) {
        self.cluster.unreadable.retain(|object, _| !is_left(object));
    }

    /// The lists and watches that have failed for a long time.
    pub fn failing_lists(&self) -> impl Iterator<Item = (&ListName, &FailingList)> {
        self.cluster.failing.iter()
    }

    /// Notes that a list or watch has failed for a long time, or works again; returns whether the entry has
    /// changed.
    pub fn note_failing(&mut self, list: ListName, failing: Option<FailingList>) -> bool {
        let is_failing = failing.is_some();
        let before = match failing {
            Some(failing) => self.cluster.failing.insert(list, failing),
            None => self.cluster.failing.remove(&list),
        };
        before.is_some() != is_failing
    }
}
