//! The common part of all copies of one source by one rule: the copies differ only in their places and in the
//! marks that are bound to the places. The common part is computed once for many slots, and shows cheaply
//! that a copy is as it should be. Objects of a template are left out: each can have content of its own.

use std::collections::{BTreeMap, HashMap};

use super::{claims::Claim, intent::Intent};
use crate::{
    marks::CopyMarks,
    model::{ObjectFacts, OwnFields},
    names::{Declarer, ObjectKey},
};

/// Common parts by rule and source. Valid for one version of the world only.
#[derive(Default)]
pub(super) struct CopyCache(HashMap<(Declarer, ObjectKey), Common>);

struct Common {
    marks: CopyMarks,
    labels: BTreeMap<String, String>,
    fields: OwnFields,
}

impl CopyCache {
    /// Remembers the intent of one slot for the other slots.
    pub(super) fn learn(&mut self, claim: &Claim<'_>, slot: &ObjectKey, intent: &Intent) {
        if claim.rule.as_template().is_some() {
            return;
        }
        let common = || Common {
            marks: intent.marks.clone(),
            labels: intent.labels.clone(),
            fields: intent.own_fields(slot.kind),
        };
        self.0.entry((claim.rule.clone(), claim.source.clone())).or_insert_with(common);
    }

    /// Whether a copy with a verified mark, of which only the metadata is known, is as it should be. `false`
    /// decides nothing: the copy may differ, or its intent is not in the cache.
    pub(super) fn is_in_order(&self, claim: &Claim<'_>, facts: &ObjectFacts) -> bool {
        let known = self.0.get(&(claim.rule.clone(), claim.source.clone()));
        let (Some(common), Some(marks), Some(owned)) =
            (known, facts.marks.as_deref(), facts.ownership.as_deref())
        else {
            return false;
        };
        marks.same_but_for_place(&common.marks)
            && owned.foreign.is_empty()
            && owned.ours.as_ref().is_some_and(|owned| owned.are(&common.fields))
            && facts.labels.may_have_all(&common.labels)
    }
}
