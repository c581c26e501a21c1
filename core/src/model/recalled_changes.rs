//! Changes of the listed grants to annotations ([`ListedGrant`]), and which proofs are valid because of the
//! grants.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Declared, World,
    recalled::{ListedGrant, Recall},
};
use crate::names::Declarer;

impl World {
    /// Starts leading: no proof of an annotation has an effect until the index was read.
    pub fn begin_recall(&mut self) {
        self.cluster.recall = Recall::Pending;
    }

    /// Whether the index was not read yet.
    pub fn is_recalling(&self) -> bool {
        matches!(self.cluster.recall, Recall::Pending)
    }

    /// Stores the grants of the index, once all objects are known. A grant whose annotations are no longer on
    /// the object was withdrawn.
    pub fn recall_grants(&mut self, listed: impl IntoIterator<Item = (Declarer, ListedGrant)>) {
        let mut known = BTreeMap::new();
        for (name, mut grant) in listed {
            let now = self.declared_by_annotations(&name);
            let uid = now.first().map(|(uid, _)| uid.clone()).unwrap_or_default();
            let generations: BTreeSet<i64> = now.iter().map(|(_, generation)| *generation).collect();
            if grant.uid.is_empty() {
                grant = ListedGrant { uid: uid.clone(), generations: generations.clone() };
            }
            grant.generations.retain(|one| grant.uid == uid && generations.contains(one));
            if !grant.generations.is_empty() {
                known.insert(name, grant);
            }
        }
        self.cluster.recall = Recall::Known(known);
    }

    /// Stores the grants of the index that this leader has written. A grant is valid if it was valid before,
    /// or if the API server has confirmed the rights to this leader. Returns the names of the grants that are
    /// new or have changed.
    pub fn note_listed(
        &mut self,
        listed: impl IntoIterator<Item = (Declarer, ListedGrant)>,
    ) -> Vec<Declarer> {
        let Recall::Known(before) = &self.cluster.recall else { return Vec::new() };
        let is_told = |name: &Declarer, uid: &str, generation: i64| {
            let known = [self.rule_authority(name), self.monitor_authority(name)];
            let mut known = known.into_iter().flatten().filter(|known| known.answer.is_ok());
            known.any(|known| *known.uid == *uid && known.generation == generation)
        };
        let mut after: BTreeMap<Declarer, ListedGrant> = listed.into_iter().collect();
        for (name, ListedGrant { uid, generations }) in &mut after {
            let earlier = before.get(name).filter(|earlier| earlier.uid == *uid);
            let is_known = |one: &i64| earlier.is_some_and(|earlier| earlier.generations.contains(one));
            generations.retain(|one| is_known(one) || is_told(name, uid, *one));
        }
        after.retain(|_, grant| !grant.generations.is_empty());
        let is_new = |(name, grant): &(&Declarer, &ListedGrant)| before.get(name) != Some(grant);
        let new = after.iter().filter(is_new).map(|(name, _)| name.clone()).collect();
        self.cluster.recall = Recall::Known(after);
        new
    }

    /// Drops the listed grants that an object's annotations no longer declare. A dropped grant stays invalid
    /// when somebody writes the annotations again.
    pub(crate) fn withdraw_recalled(&mut self, name: &Declarer) {
        let now = self.declared_by_annotations(name);
        let Recall::Known(known) = &mut self.cluster.recall else { return };
        let Some(grant) = known.get_mut(name) else { return };
        grant
            .generations
            .retain(|one| now.iter().any(|(uid, generation)| *uid == grant.uid && generation == one));
        if grant.generations.is_empty() {
            known.remove(name);
        }
    }

    /// Whether a proof of this declaration is valid; `None` until the index was read. A proof in a status is
    /// always valid, since only we write the status.
    pub fn recalls<S, C, T>(&self, name: &Declarer, facts: &Declared<S, C, T>) -> Option<bool> {
        if name.as_annotated().is_none() {
            return Some(true);
        }
        match &self.cluster.recall {
            Recall::Unneeded => Some(true),
            Recall::Pending => None,
            Recall::Known(known) => Some(known.get(name).is_some_and(|grant| {
                grant.uid == facts.uid && grant.generations.contains(&facts.generation)
            })),
        }
    }

    /// UID and generation of the valid rule and monitor that an object's annotations declare.
    fn declared_by_annotations(&self, name: &Declarer) -> Vec<(Box<str>, i64)> {
        let rule = self.rules().get(name).filter(|facts| facts.compiled.is_ok());
        let monitor = self.monitors().get(name).filter(|facts| facts.compiled.is_ok());
        let rule = rule.map(|facts| (facts.uid.clone(), facts.generation));
        rule.into_iter().chain(monitor.map(|facts| (facts.uid.clone(), facts.generation))).collect()
    }
}
