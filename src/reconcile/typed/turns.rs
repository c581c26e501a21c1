//! Whose template is judged next: one at a time, and one of each namespace in turn, so that many templates of one keep back those of
//! no other.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::names::NamespacedName;

/// The turn that one template has at a time, and those that wait for it.
#[derive(Default)]
pub(super) struct Turns(Mutex<Line>);

#[derive(Default)]
struct Line {
    is_taken: bool,
    /// The namespace of the template that had the turn last.
    last: Option<Arc<str>>,
    waiting: BTreeMap<Arc<str>, VecDeque<NamespacedName>>,
}

/// The turn, until it is dropped.
pub(super) struct Turn<'t, F: FnMut(NamespacedName)> {
    turns: &'t Turns,
    /// Has the next template looked at.
    ask: F,
}

impl Turns {
    /// The turn, where it is free; else the template stands in line. When the turn ends, `ask` is told whose it is then.
    pub(super) fn begin<F: FnMut(NamespacedName)>(
        &self,
        template: &NamespacedName,
        ask: F,
    ) -> Option<Turn<'_, F>> {
        let mut line = self.line();
        if line.is_taken {
            let waiting = line.waiting.entry(template.namespace.clone()).or_default();
            if !waiting.contains(template) {
                waiting.push_back(template.clone());
            }
            return None;
        }
        line.is_taken = true;
        line.last = Some(template.namespace.clone());
        line.leave(template);
        Some(Turn { turns: self, ask })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: FnMut(NamespacedName)> Drop for Turn<'_, F> {
    fn drop(&mut self) {
        let next = {
            let mut line = self.turns.line();
            line.is_taken = false;
            line.next()
        };
        if let Some(next) = next {
            (self.ask)(next);
        }
    }
}

impl Line {
    fn leave(&mut self, template: &NamespacedName) {
        if let Some(waiting) = self.waiting.get_mut(&template.namespace) {
            waiting.retain(|other| other != template);
            if waiting.is_empty() {
                self.waiting.remove(&template.namespace);
            }
        }
    }

    /// The first in line of the namespace behind the last one that had a turn. It leaves the line: where it needs no turn any more,
    /// nobody waits for it.
    fn next(&mut self) -> Option<NamespacedName> {
        let behind = self.last.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let mut in_order = self.waiting.range((behind, Bound::Unbounded)).chain(&self.waiting);
        let next = in_order.find_map(|(_, waiting)| waiting.front())?.clone();
        self.leave(&next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_namespace_has_its_turn() {
        let (turns, asked) = (Turns::default(), Mutex::new(Vec::new()));
        let name = |(namespace, name): (&str, &str)| NamespacedName::of_template(namespace, name);
        let ask = |template: NamespacedName| asked.lock().unwrap().push(template);
        let crowd = ["a", "b", "c"].map(|own| name(("crowd", own)));
        let (before, behind) = (name(("alone", "x")), name(("other", "y")));
        let mut turn = turns.begin(&crowd[0], ask);
        for template in crowd.iter().chain([&before, &behind]) {
            // A template that asks twice stands in line once.
            assert!(turns.begin(template, ask).is_none() && turns.begin(template, ask).is_none());
        }
        for expected in [&behind, &before, &crowd[0], &crowd[1], &crowd[2]] {
            drop(turn);
            assert_eq!(asked.lock().unwrap().pop().as_ref(), Some(expected));
            assert!(asked.lock().unwrap().is_empty(), "one at a time");
            turn = turns.begin(expected, ask);
            assert!(turn.is_some(), "it has it");
        }
        drop(turn);
        assert!(asked.lock().unwrap().is_empty());
    }

    #[test]
    fn one_that_needs_no_turn_any_more_holds_back_nobody() {
        let turns = Turns::default();
        let names = ["a", "b", "c"].map(|name| NamespacedName::of_template("home", name));
        let turn = turns.begin(&names[0], |_| {});
        assert!(turns.begin(&names[1], |_| {}).is_none());
        drop(turn);
        // The second one was asked, and is gone.
        assert!(turns.begin(&names[2], |_| {}).is_some());
    }
}
