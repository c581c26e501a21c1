//! Delays the updates of a copy whose source keeps changing, and refuses to copy a source that is too large
//! for its targets. Only copies with exactly the content that we wrote are delayed: a missing or changed copy
//! is corrected at once. Each copy has its own delay, so that changes in one namespace do not delay copies in
//! another namespace.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use super::{
    claims::{Claim, Wants},
    intent::carried_bytes,
    targets::targets,
};
use crate::{
    digest::Fingerprint,
    marks::CopyMarks,
    model::{Bytes, ObjectFacts, Spread, World},
    names::ObjectKey,
    plan::at_after,
    validate::CompiledRule,
};

/// The longest gap between two contents of a copy whose source keeps changing.
const LONGEST_GAP: Duration = Duration::from_secs(300);

/// Whether the write only follows the copy's source.
pub(super) fn follows(existing: Option<&ObjectFacts>, wanted: &CopyMarks) -> bool {
    let Some(facts) = existing else { return false };
    let (Some(marks), Some(owned)) = (facts.marks.as_deref(), facts.ownership.as_deref()) else {
        return false;
    };
    let is_as_we_wrote_it = owned.ours.is_some() && owned.foreign.is_empty() && marks.rule == wanted.rule;
    let content = |marks: &CopyMarks| (marks.source_uid.clone(), marks.digest.clone());
    is_as_we_wrote_it && content(marks) != content(wanted)
}

/// Until when updates of this copy from its source are delayed.
pub(super) fn braked(world: &World, slot: &ObjectKey, now: Timestamp) -> Option<Timestamp> {
    let last = world.memory().slot(slot).spread()?;
    // If the clock was set back, the copy does not wait.
    (last.at <= now && now < end(&last)).then(|| end(&last))
}

/// The record of a copy that follows its source now.
pub(super) fn spread(world: &World, slot: &ObjectKey, now: Timestamp) -> Spread {
    next(world.memory().slot(slot).spread(), world.settings().spread_limits.min_interval, now)
}

fn next(last: Option<Spread>, least: Duration, now: Timestamp) -> Spread {
    let last = last.filter(|last| !is_calm(last, now));
    let gap = last.map_or(least, |last| last.gap.saturating_mul(2).min(LONGEST_GAP).max(least));
    Spread { at: now, gap }
}

/// Whether a source has not changed for long enough to forget its latest spread.
pub fn is_calm(spread: &Spread, now: Timestamp) -> bool {
    now >= at_after(end(spread), spread.gap)
}

fn end(spread: &Spread) -> Timestamp {
    at_after(spread.at, spread.gap)
}

/// A source that is large for so many targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeSpread {
    source: ObjectKey,
    /// The bytes that each copy carries.
    bytes: Bytes,
    /// How many namespaces get a copy.
    targets: usize,
}

impl LargeSpread {
    fn in_all(&self) -> Bytes {
        Bytes(self.bytes.0.saturating_mul(self.targets as u64))
    }
}

impl fmt::Display for LargeSpread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, bytes, targets } = self;
        write!(f, "{source}: {bytes} in each of {targets} namespaces, {} in total", self.in_all())
    }
}

/// Why this source is not copied: the source is too large for so many targets.
pub(super) fn too_large(world: &World, claim: &Claim<'_>, print: &Fingerprint) -> Option<String> {
    // Objects that templates declare have bounds of their own.
    let Wants::Copy { compiled, .. } = &claim.wants else { return None };
    let most = world.settings().spread_limits.max_bytes;
    let volume = beyond(world, compiled, &claim.source, print, most)?;
    Some(format!(
        "{volume}, more than --max-spread-bytes ({most}): Copyrator does not write these copies, and existing copies stay as they are; \
         copy fewer keys, or to fewer namespaces, or let an administrator raise --max-spread-bytes"
    ))
}

/// A source that is large for so many targets, and that is still copied.
pub(super) fn is_large(
    world: &World,
    compiled: &CompiledRule,
    source: &ObjectKey,
    print: &Fingerprint,
) -> Option<LargeSpread> {
    let limits = world.settings().spread_limits;
    let is_refused = beyond(world, compiled, source, print, limits.max_bytes).is_some();
    beyond(world, compiled, source, print, limits.warn_bytes).filter(|_| !is_refused)
}

/// A source whose copies in all targets of a rule are together larger than `bound`.
fn beyond(
    world: &World,
    compiled: &CompiledRule,
    source: &ObjectKey,
    print: &Fingerprint,
    bound: Bytes,
) -> Option<LargeSpread> {
    let bytes = Bytes(carried_bytes(&compiled.shape.keys, print));
    let to = |targets: usize| LargeSpread { source: source.clone(), bytes, targets };
    // With few namespaces, the targets need not be counted.
    if to(world.namespaces().len()).in_all() <= bound {
        return None;
    }
    let targets = targets(world, compiled).filter(|namespace| **namespace != source.namespace).count();
    Some(to(targets)).filter(|spread| spread.in_all() > bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// The seconds in which the only copy of a source is written, given the seconds in which the source
    /// changes.
    fn spreads(changes: impl Fn(i64) -> bool, until: i64) -> Vec<i64> {
        let (least, mut last): (_, Option<Spread>) = (Duration::from_secs(5), None);
        let (mut copy, mut source, mut written) = (0, 0, Vec::new());
        for second in 0..until {
            source = if changes(second) { second } else { source };
            if source != copy && last.is_none_or(|last| at(second) >= end(&last)) {
                last = Some(next(last, least, at(second)));
                (copy, written) = (source, [written, vec![second]].concat());
            }
        }
        written
    }

    #[test]
    fn a_source_that_keeps_changing_spreads_more_and_more_slowly() {
        let written = spreads(|_| true, 3600);
        let gaps: Vec<i64> = written.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps[..8], [5, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn now_and_then_is_not_held_up_and_calm_is_noticed() {
        assert_eq!(
            spreads(|second| second > 0 && second % 10 == 0, 100),
            [10, 20, 30, 40, 50, 60, 70, 80, 90]
        );
        // Two changes in a row, the second of which waits; and again when the gap of ten seconds has passed
        // twice.
        assert_eq!(spreads(|second| [1, 2, 26, 27].contains(&second), 100), [1, 6, 26, 31]);
    }
}
