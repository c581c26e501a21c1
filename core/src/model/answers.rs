//! The API server's answers about the identities of rules and monitors.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    Authority, Declaration, EVERYWHERE, MonitorFacts, Right, RightAnswer, RightAnswers, SpecVersion, World,
};
use crate::names::Declarer;

impl World {
    /// Sets the answer about a rule's identity, and replaces any earlier answer.
    pub fn set_rule_authority(&mut self, rule: &Declarer, answer: Authority) {
        self.cluster.rule_authority.insert(rule.clone(), answer);
    }

    /// Sets the answer about a monitor's identity, and replaces any earlier answer.
    pub fn set_monitor_authority(&mut self, monitor: &Declarer, answer: Authority) {
        self.cluster.monitor_authority.insert(monitor.clone(), answer);
    }

    /// Stores an answer about a rule's identity, unless the rule was changed or deleted since the question,
    /// or a newer answer is known.
    pub fn note_rule_authority(&mut self, rule: &Declarer, answer: Authority, now: Timestamp) {
        let asked = SpecVersion { uid: &answer.uid, generation: answer.generation };
        let is_of_this = self.declaration(rule).map(Declaration::version) == Some(asked);
        keep(&mut self.cluster.rule_authority, rule, is_of_this, answer, now);
    }

    /// Like [`Self::note_rule_authority`], for a monitor.
    pub fn note_monitor_authority(&mut self, monitor: &Declarer, answer: Authority, now: Timestamp) {
        let is_of = |facts: &MonitorFacts| facts.uid == answer.uid && facts.generation == answer.generation;
        let is_of_this = self.monitors().get(monitor).is_some_and(is_of);
        keep(&mut self.cluster.monitor_authority, monitor, is_of_this, answer, now);
    }

    /// Forgets the answer about a rule's identity if `is_it` accepts the answer.
    pub fn forget_rule_authority(&mut self, rule: &Declarer, is_it: impl Fn(&Authority) -> bool) {
        forget(&mut self.cluster.rule_authority, rule, is_it);
    }

    /// Like [`Self::forget_rule_authority`], for a monitor.
    pub fn forget_monitor_authority(&mut self, monitor: &Declarer, is_it: impl Fn(&Authority) -> bool) {
        forget(&mut self.cluster.monitor_authority, monitor, is_it);
    }

    /// The last answer about this generation of a rule. A yes for all namespaces also holds for each single
    /// namespace, unless a later answer about the single namespace is known.
    pub fn may(&self, rule: &Declarer, right: &Right, namespace: &str) -> Option<&RightAnswer> {
        let SpecVersion { uid, generation } = self.declaration(rule)?.version();
        let known = self.cluster.rights.get(rule)?;
        let known = Some(known).filter(|known| *known.uid == *uid && known.generation == generation)?;
        let here = known.answers.get(&(right.clone(), namespace.into()));
        let everywhere = known.answers.get(&(right.clone(), EVERYWHERE.into()));
        everywhere.filter(|all| all.answer.is_ok() && here.is_none_or(|it| it.asked <= all.asked)).or(here)
    }

    /// The last answers about all rules, including earlier generations.
    pub fn rights(&self) -> impl Iterator<Item = &RightAnswer> {
        self.cluster.rights.values().flat_map(|known| known.answers.values())
    }

    /// Stores an answer, unless the rule was changed or deleted since the question, or a newer answer is
    /// known.
    pub fn note_right(
        &mut self,
        rule: &Declarer,
        version: SpecVersion<'_>,
        place: (Right, Arc<str>),
        answer: RightAnswer,
        now: Timestamp,
    ) {
        if self.declaration(rule).map(Declaration::version) != Some(version) {
            return;
        }
        let SpecVersion { uid, generation } = version;
        let none = || RightAnswers { uid: uid.into(), generation, answers: BTreeMap::new() };
        let known = self.cluster.rights.entry(rule.clone()).or_insert_with(none);
        if *known.uid != *uid || known.generation != generation {
            *known = none();
        }
        if known.answers.get(&place).is_none_or(|known| !is_newer(known.asked, answer.asked, now)) {
            known.answers.insert(place, answer);
        }
    }

    /// Forgets answers that are older than `age`, and answers about rules that were changed or deleted.
    pub fn forget_rights(&mut self, age: Duration, now: Timestamp) {
        let mut rights = std::mem::take(&mut self.cluster.rights);
        rights.retain(|rule, known| {
            known.answers.retain(|_, answer| now.duration_since(answer.asked).unsigned_abs() < age);
            let asked = SpecVersion { uid: &known.uid, generation: known.generation };
            let is_of_this = self.declaration(rule).map(Declaration::version) == Some(asked);
            is_of_this && !known.answers.is_empty()
        });
        self.cluster.rights = rights;
    }
}

/// Whether the known answer is newer than the arriving answer. A known answer from the future is not newer:
/// the clock was set back.
fn is_newer(known: Timestamp, arrived: Timestamp, now: Timestamp) -> bool {
    arrived < known && known <= now
}

/// Stores an answer, unless a newer answer is known. `is_of_this` is whether the object of the question still
/// exists with the same spec.
fn keep(
    answers: &mut BTreeMap<Declarer, Authority>,
    of: &Declarer,
    is_of_this: bool,
    mut answer: Authority,
    now: Timestamp,
) {
    let is_kept = |known: &Authority| known.uid == answer.uid && is_newer(known.asked, answer.asked, now);
    if is_of_this && answers.get(of).is_none_or(|known| !is_kept(known)) {
        let is_of_same =
            |known: &&Authority| known.uid == answer.uid && known.generation == answer.generation;
        if answer.answer.is_err() {
            answer.refusals = 1 + answers.get(of).filter(is_of_same).map_or(0, |known| known.refusals);
        }
        answers.insert(of.clone(), answer);
    }
}

fn forget(answers: &mut BTreeMap<Declarer, Authority>, of: &Declarer, is_it: impl Fn(&Authority) -> bool) {
    if answers.get(of).is_some_and(is_it) {
        answers.remove(of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Refusal, RefusalReason};

    fn known(answer: Result<(), Refusal>, generation: i64, asked: i64) -> Authority {
        let asked = Timestamp::from_second(asked).unwrap();
        Authority {
            uid: "u".into(),
            generation,
            identity: String::new(),
            answer,
            asked,
            questions: 4,
            refusals: 0,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// An answer has no effect if it is about an earlier spec, or arrives after a newer answer.
    #[test]
    fn an_answer_is_kept_only_for_what_was_asked_about() {
        let of = Declarer::rule("shop", "web");
        let mut answers = BTreeMap::new();
        keep(&mut answers, &of, false, known(Ok(()), 2, 10), at(100));
        assert!(answers.is_empty(), "it is gone, or has another spec");
        keep(&mut answers, &of, true, known(Ok(()), 2, 10), at(100));
        let no = || Err(Refusal { reason: RefusalReason::Forbidden, message: String::new() });
        keep(&mut answers, &of, true, known(no(), 2, 9), at(100));
        assert!(answers[&of].answer.is_ok(), "an older answer replaced a newer one");
        keep(&mut answers, &of, true, known(Ok(()), 2, 200), at(300));
        keep(&mut answers, &of, true, known(no(), 2, 50), at(50));
        assert!(answers[&of].answer.is_err(), "the clock was set back, and the later answer does not count");
        keep(&mut answers, &of, true, known(Ok(()), 2, 60), at(100));
        let mut in_a_row = answers.clone();
        for number in 1..4 {
            keep(&mut in_a_row, &of, true, known(no(), 2, 70 + number), at(100));
        }
        assert_eq!(in_a_row[&of].refusals, 3);
        keep(&mut in_a_row, &of, true, known(no(), 3, 80), at(100));
        assert_eq!(in_a_row[&of].refusals, 1, "of another spec they are counted anew");
        keep(&mut in_a_row, &of, true, known(Ok(()), 3, 90), at(100));
        assert_eq!(in_a_row[&of].refusals, 0);
        forget(&mut answers, &of, |known| known.answer.is_err());
        assert_eq!(answers.len(), 1);
        forget(&mut answers, &of, |known| known.answer.is_ok());
        assert!(answers.is_empty());
    }
}
