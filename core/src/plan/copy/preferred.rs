//! Decides which of several sources is copied if their copies have the same name.

use std::cmp::Reverse;

use crate::{
    api::Prefer,
    model::{ObjectFacts, World},
    names::{Declarer, ObjectKey},
    validate::CompiledRule,
};

/// The source that is copied into this slot: the source that the rule prefers, else the source that the copy
/// was made of, else the oldest, else the alphabetically first.
pub(super) fn preferred<'w>(
    world: &World,
    rule: &Declarer,
    compiled: &CompiledRule,
    slot: &ObjectKey,
    sources: &[(&'w ObjectKey, &ObjectFacts)],
) -> Option<&'w ObjectKey> {
    let marks = world.object(slot).and_then(|copy| copy.marks.as_deref()).filter(|marks| marks.rule == *rule);
    let has_it = |source: &ObjectKey| marks.is_some_and(|marks| marks.source == source.named());
    let (older_first, newer_first) = (
        |(source, facts): &&(&ObjectKey, &ObjectFacts)| (!has_it(source), facts.created),
        |(source, facts): &&(&ObjectKey, &ObjectFacts)| (Reverse(facts.created), !has_it(source)),
    );
    let first = match compiled.prefer {
        None => sources.iter().min_by_key(older_first),
        Some(Prefer::Newest) => sources.iter().min_by_key(newer_first),
    };
    first.map(|(source, _)| *source)
}
