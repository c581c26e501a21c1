//! An object that cannot be read: a source or a copy, at any moment, by a process that has read it before or by one that has not.

use std::cell::Cell;

use copyrator::{
    marks,
    names::{NamespacedName, ObjectKey},
    plan::Changed,
};
use proptest::prelude::*;

use super::{
    LONG, always,
    cluster::Cluster,
    copy_model::stored::Stored,
    events::{Event, story},
    none,
    operator::Operator,
    play,
};

impl Cluster {
    /// Somebody writes an object so that it cannot be read, or can be read again.
    fn set_unreadable(&mut self, key: &ObjectKey, is_unreadable: bool) {
        match is_unreadable {
            true => drop(self.server.unreadable.insert(key.clone())),
            false => drop(self.server.unreadable.remove(key)),
        }
        let version = self.server.next();
        self.server.objects.get_mut(key).unwrap().resource_version = version;
        self.server.tell(Changed::Object(key.clone()));
    }
}

/// Whether an object is this one, or a copy of it.
fn hangs_on(slot: &ObjectKey, object: &Stored, key: &ObjectKey) -> bool {
    let source = object.annotations().get(marks::SOURCE).and_then(|source| NamespacedName::parse(source));
    slot == key || source.is_some_and(|source| source == key.named())
}

/// It changes nothing of what hangs on it, and holds up nothing else; and when it can be read again, everything becomes right.
#[test]
fn an_object_that_cannot_be_read_harms_only_itself() {
    let hanging = Cell::new(0);
    always((story(), any::<usize>(), any::<bool>(), story()), |(story, which, restarts, later)| {
        let (mut cluster, mut operator) = play(&story, |_, _, _| Ok(()))?;
        operator.settle(&mut cluster, &mut || true).unwrap();
        let keys: Vec<ObjectKey> = cluster.server.objects.keys().cloned().collect();
        let Some(key) = keys.get(which % keys.len().max(1)).cloned() else { return Ok(()) };
        cluster.set_unreadable(&key, true);
        if restarts {
            operator = Operator::start(&mut cluster.server);
        }
        let before = cluster.clone();
        cluster.happen(&LONG);
        operator.settle(&mut cluster, &mut || true).unwrap();
        for (slot, object) in
            before.server.objects.iter().filter(|(slot, object)| hangs_on(slot, object, &key))
        {
            hanging.set(hanging.get() + usize::from(*slot != key));
            let after = cluster.server.objects.get(slot).map(|object| &object.values);
            // What was about to go before is another matter only where it can be read.
            prop_assert_eq!(after, Some(&object.values), "{} with {}, which cannot be read", slot, key);
        }
        // Whatever else happens then.
        for event in &later {
            cluster.happen(event);
            if let Event::Pass(_) = event {
                operator.settle(&mut cluster, &mut || true).unwrap();
            }
        }
        if cluster.server.objects.contains_key(&key) {
            cluster.set_unreadable(&key, false);
        }
        cluster.server.unreadable.clear();
        cluster.happen(&LONG);
        operator.settle(&mut cluster, &mut || true).unwrap();
        let before = cluster.clone();
        cluster.happen(&LONG);
        operator.settle(&mut cluster, &mut || true).unwrap();
        none(&cluster.wrong(&before))
    });
    assert!(hanging.get() > 0, "nothing hung on what could not be read: this test looks at nothing");
}
