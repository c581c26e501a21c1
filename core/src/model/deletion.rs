//! Whether the identities of rules may delete copies that the rules' current specs do not mention.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::World;
use crate::names::{Kind, NamespacedName};

/// Stands for all namespaces, in a question about all of them at once.
pub const EVERYWHERE: &str = "";

/// The API server's answer to whether an identity may delete objects of one kind in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionAnswer {
    /// `Err` with the reason, and what to do about it.
    pub answer: Result<(), String>,
    /// When the API server was asked.
    pub asked: Timestamp,
}

/// The answers about the identity of one rule. There are at most as many as namespaces with orphaned copies
/// of the rule.
#[derive(Clone, Debug)]
pub struct DeletionAnswers {
    /// UID of the rule that was asked about.
    pub uid: Box<str>,
    /// Generation that was asked about.
    pub generation: i64,
    /// Answers by kind and namespace, or [`EVERYWHERE`].
    pub answers: BTreeMap<(Kind, Arc<str>), DeletionAnswer>,
}

impl World {
    /// The last answer about this generation of a rule; a yes for all namespaces answers for each one.
    pub fn may_delete(&self, rule: &NamespacedName, kind: Kind, namespace: &str) -> Option<&DeletionAnswer> {
        let facts = self.cluster.rules.get(rule)?;
        let known = self.cluster.deletions.get(rule)?;
        let known =
            Some(known).filter(|known| known.uid == facts.uid && known.generation == facts.generation)?;
        let here = known.answers.get(&(kind, namespace.into()));
        let everywhere = known.answers.get(&(kind, EVERYWHERE.into()));
        everywhere.filter(|all| all.answer.is_ok() && here.is_none_or(|it| it.asked <= all.asked)).or(here)
    }

    /// The last answers about all rules, including earlier generations.
    pub fn deletions(&self) -> impl Iterator<Item = &DeletionAnswer> {
        self.cluster.deletions.values().flat_map(|known| known.answers.values())
    }

    /// Keeps an answer, unless the rule has changed or gone since the question, or a newer answer is known.
    pub fn note_deletion(
        &mut self,
        rule: &NamespacedName,
        (uid, generation): (&str, i64),
        place: (Kind, Arc<str>),
        answer: DeletionAnswer,
    ) {
        let is_there = self
            .cluster
            .rules
            .get(rule)
            .is_some_and(|facts| *facts.uid == *uid && facts.generation == generation);
        if !is_there {
            return;
        }
        let none = || DeletionAnswers { uid: uid.into(), generation, answers: BTreeMap::new() };
        let known = self.cluster.deletions.entry(rule.clone()).or_insert_with(none);
        if *known.uid != *uid || known.generation != generation {
            *known = none();
        }
        if known.answers.get(&place).is_none_or(|known| known.asked <= answer.asked) {
            known.answers.insert(place, answer);
        }
    }

    /// Forgets answers that are older than `age`, and those about rules that have changed or gone.
    pub fn forget_deletions(&mut self, age: Duration, now: Timestamp) {
        let rules = &self.cluster.rules;
        self.cluster.deletions.retain(|rule, known| {
            known.answers.retain(|_, answer| now.duration_since(answer.asked).unsigned_abs() < age);
            let is_of_this =
                rules.get(rule).is_some_and(|it| it.uid == known.uid && it.generation == known.generation);
            is_of_this && !known.answers.is_empty()
        });
    }
}
