//! Delays a source that keeps changing, and stops one that is too large for its targets. Only copies that
//! have exactly what we wrote are delayed: a copy that is missing, or that somebody changed, is put right at
//! once.

use std::{collections::BTreeSet, fmt, time::Duration};

use jiff::Timestamp;

use super::{
    claims::{Claim, Wants},
    intent::carried_bytes,
    slot_plan::CopyWrite,
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

/// The longest gap between two spreads of a source that keeps changing.
const LONGEST_GAP: Duration = Duration::from_secs(300);

/// The content that a copy has, if following its source is all that the write does.
pub(super) fn follows(existing: Option<&ObjectFacts>, wanted: &CopyMarks) -> Option<String> {
    let facts = existing?;
    let (marks, owned) = (facts.marks.as_deref()?, facts.ownership.as_deref()?);
    let is_as_we_wrote_it = owned.ours.is_some() && owned.foreign.is_empty() && marks.rule == wanted.rule;
    (is_as_we_wrote_it && content(marks) != content(wanted)).then(|| content(marks))
}

/// Until when a copy with this content waits: each copy is written once a spread.
pub(super) fn braked(
    world: &World,
    source: &ObjectKey,
    carried: Option<&String>,
    now: Timestamp,
) -> Option<Timestamp> {
    let spread = world.memory().source(source).spread()?;
    // If the clock was set back, nothing waits.
    (spread.contents.contains(carried?) && spread.begun <= now && now < end(spread)).then(|| end(spread))
}

/// The source's latest spread, once this write is done; `None` where the write does not count.
///
/// A copy that is still to be written belongs to the spread under way, even if that takes longer than its
/// gap.
pub(super) fn spread(world: &World, write: &CopyWrite, now: Timestamp) -> Option<Spread> {
    let least = world.settings().spread_limits.min_interval;
    let before = world.memory().source(&write.source).spread();
    Some(next(before, least, write.follows.as_ref()?, content(&write.intent.marks), now))
}

fn next(before: Option<&Spread>, least: Duration, carried: &str, takes: String, now: Timestamp) -> Spread {
    let Some(before) = before else {
        return Spread { begun: now, gap: least, contents: BTreeSet::from([takes]) };
    };
    let is_late = !before.contents.contains(carried) && before.contents.contains(&takes);
    if now < end(before) || is_late {
        let mut same = before.clone();
        same.contents.insert(takes);
        return same;
    }
    let doubled = before.gap.saturating_mul(2).min(LONGEST_GAP).max(least);
    let gap = if is_calm(before, now) { least } else { doubled };
    Spread { begun: now, gap, contents: BTreeSet::from([takes]) }
}

/// Whether a source has not changed for long enough to forget its latest spread.
pub fn is_calm(spread: &Spread, now: Timestamp) -> bool {
    now >= at_after(end(spread), spread.gap)
}

fn end(spread: &Spread) -> Timestamp {
    at_after(spread.begun, spread.gap)
}

/// The content that a copy has, according to its marks.
fn content(marks: &CopyMarks) -> String {
    format!("{} {}", marks.source_uid, marks.digest)
}

/// A source that is large for so many targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeSpread {
    source: ObjectKey,
    /// What each copy carries.
    bytes: Bytes,
    /// How many namespaces get one.
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
        write!(f, "{source}: {bytes} in each of {targets} namespaces are {}", self.in_all())
    }
}

/// Why nothing of this source is copied: it is too large for so many targets.
pub(super) fn too_large(world: &World, claim: &Claim<'_>, print: &Fingerprint) -> Option<String> {
    // What templates declare has bounds of its own.
    let Wants::Copy { compiled, .. } = &claim.wants else { return None };
    let most = world.settings().spread_limits.max_bytes;
    let volume = beyond(world, compiled, &claim.source, print, most)?;
    Some(format!(
        "{volume}, more than --max-spread-bytes ({most}): nothing of it is written, and copies stay as they are; copy \
         fewer keys, or into fewer namespaces, or have --max-spread-bytes raised"
    ))
}

/// A source that is large for so many targets, and copied all the same.
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

/// A source of which all of a rule's targets together get more than `bound`.
fn beyond(
    world: &World,
    compiled: &CompiledRule,
    source: &ObjectKey,
    print: &Fingerprint,
    bound: Bytes,
) -> Option<LargeSpread> {
    let bytes = Bytes(carried_bytes(&compiled.shape.keys, print));
    let to = |targets: usize| LargeSpread { source: source.clone(), bytes, targets };
    // Usually there are too few namespaces for it to be worth counting.
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
            let may = last
                .as_ref()
                .is_none_or(|last| !(last.contents.contains(&copy.to_string()) && at(second) < end(last)));
            if source != copy && may {
                last = Some(next(last.as_ref(), least, &copy.to_string(), source.to_string(), at(second)));
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

    /// Five thousand copies take longer than the gap: the late ones are not a second spread.
    #[test]
    fn a_spread_under_way_is_not_cut_by_its_own_brake() {
        let least = Duration::from_secs(5);
        let begun = next(None, least, "old", "new".into(), at(100));
        let late = next(Some(&begun), least, "old", "new".into(), at(107));
        assert_eq!(late, begun);
        // Until the source changes again: then every copy is written, now.
        let second = next(Some(&late), least, "old", "newer".into(), at(107));
        assert_eq!((second.begun, second.gap), (at(107), Duration::from_secs(10)));
        // Alternating between two contents does not evade the gap.
        let both = next(Some(&begun), least, "old", "other".into(), at(101));
        let third = next(Some(&both), least, "new", "other".into(), at(105));
        assert_eq!((third.begun, third.gap), (at(105), Duration::from_secs(10)));
    }
}
