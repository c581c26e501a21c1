//! Schedules the reconciler's questions about objects that are in the way of copies and that no watch shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use crate::names::ObjectKey;

/// The pause before the second question about an object. Each further pause is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause while few objects are in the way.
const EVERY: Duration = Duration::from_secs(60);
/// The least average time between two questions, over all objects.
const APART: Duration = Duration::from_millis(50);
/// The maximum number of slots that are remembered as empty. At this number, the memory forgets all of them, and
/// the reconciler asks about each slot once more.
const MOST_EMPTY: usize = 1_000;

/// The questions about objects in the way, and the slots that are known to be empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions {
    slots: BTreeMap<ObjectKey, Question>,
    /// How many objects are in the way of the copies that each namespace's rules and templates declare.
    by_payer: BTreeMap<Arc<str>, u32>,
    empty: BTreeSet<ObjectKey>,
}

#[derive(Clone, Debug)]
struct Question {
    /// The namespace of the rule or template.
    payer: Arc<str>,
    asked: u32,
    due: Timestamp,
}

impl Questions {
    /// When to ask again about an object in the way; `None` if the reconciler has not asked yet.
    pub(super) fn due(&self, slot: &ObjectKey) -> Option<Timestamp> {
        self.slots.get(slot).map(|question| question.due)
    }

    /// Whether the slot was empty when the reconciler or a watch last looked.
    pub(super) fn is_empty(&self, slot: &ObjectKey) -> bool {
        self.empty.contains(slot)
    }

    /// Notes that an object is in the way, and sets the time of the next question. Namespaces share the
    /// questions equally, so the many objects of one namespace do not delay the questions of another.
    pub(super) fn in_the_way(&mut self, slot: &ObjectKey, payer: &Arc<str>, now: Timestamp) {
        self.empty.remove(slot);
        let asked = self.forget(slot).map_or(0, |before| before.asked).saturating_add(1);
        let own = self.by_payer.entry(payer.clone()).or_default();
        *own += 1;
        let (own, payers) = (*own, u32::try_from(self.by_payer.len()).unwrap_or(u32::MAX));
        let share = APART.saturating_mul(own.saturating_mul(payers));
        let pause = FIRST.saturating_mul(1 << (asked - 1).min(16)).min(EVERY).max(share);
        let due = SignedDuration::try_from(pause).ok().and_then(|pause| now.checked_add(pause).ok());
        let question = Question { payer: payer.clone(), asked, due: due.unwrap_or(now) };
        self.slots.insert(slot.clone(), question);
    }

    /// Notes that an object is in the slot.
    pub(super) fn filled(&mut self, slot: &ObjectKey) {
        self.empty.remove(slot);
    }

    /// Makes the question about this object due at once: the world's facts about it are outdated.
    pub(super) fn ask_now(&mut self, slot: &ObjectKey) {
        if let Some(question) = self.slots.get_mut(slot) {
            question.due = Timestamp::MIN;
        }
    }

    /// Notes that the slot is empty.
    pub(super) fn found_empty(&mut self, slot: &ObjectKey) {
        self.forget(slot);
        if self.empty.len() >= MOST_EMPTY {
            self.empty.clear();
        }
        self.empty.insert(slot.clone());
    }

    /// Forgets the questions about slots for which `is_asked` is false.
    pub(super) fn retain(&mut self, is_asked: impl Fn(&ObjectKey) -> bool) {
        let over: Vec<ObjectKey> = self.slots.keys().filter(|slot| !is_asked(slot)).cloned().collect();
        over.iter().for_each(|slot| drop(self.forget(slot)));
    }

    fn forget(&mut self, slot: &ObjectKey) -> Option<Question> {
        let question = self.slots.remove(slot)?;
        if let Some(own) = self.by_payer.get_mut(&question.payer) {
            *own -= 1;
            if *own == 0 {
                self.by_payer.remove(&question.payer);
            }
        }
        Some(question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Kind;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn slot(number: usize) -> ObjectKey {
        ObjectKey::new(Kind::Secret, format!("n{number}"), "app")
    }

    #[test]
    fn pauses_grow_to_a_minute() {
        let mut questions = Questions::default();
        let mut now = 100;
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            questions.in_the_way(&slot(0), &"home".into(), at(now));
            assert_eq!(questions.due(&slot(0)), Some(at(now + pause)));
            now += pause;
        }
        questions.found_empty(&slot(0));
        assert_eq!((questions.due(&slot(0)), questions.is_empty(&slot(0))), (None, true));
        questions.in_the_way(&slot(0), &"home".into(), at(now));
        assert_eq!((questions.due(&slot(0)), questions.is_empty(&slot(0))), (Some(at(now + 1)), false));
        questions.ask_now(&slot(0));
        assert!(questions.due(&slot(0)).unwrap() < at(0));
    }

    /// The reconciler asks at most 20 questions a second, and the questions of one namespace wait for few
    /// questions of another namespace.
    #[test]
    fn many_objects_of_one_namespace_delay_its_own_questions() {
        let mut questions = Questions::default();
        (0..4000).for_each(|number| questions.in_the_way(&slot(number), &"many".into(), at(0)));
        questions.in_the_way(&slot(4000), &"few".into(), at(0));
        assert_eq!(questions.due(&slot(4000)), Some(at(1)));
        questions.in_the_way(&slot(0), &"many".into(), at(200));
        assert_eq!(questions.due(&slot(0)), Some(at(600)), "4,000 objects, two namespaces, 50 ms each");
        questions.retain(|asked| *asked == slot(4000));
        assert_eq!((questions.by_payer.len(), questions.slots.len()), (1, 1));
    }
}
