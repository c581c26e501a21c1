//! What no update turns into its successor is deleted for a successor that the API server accepts, and for no other.

use std::cell::Cell;

use copyrator::plan::copy::{SlotState, plan_slot};
use proptest::prelude::*;

use super::{
    always,
    copy_model::{acting::at, server::Refuses},
    events::anew_story,
    none, play,
};

/// While a successor is refused, what was there stays. If the refusal comes after the deletion only, the status says so, and the
/// content is there as soon as it may be.
#[test]
fn nothing_goes_for_a_successor_that_is_refused() {
    let (kept, lost) = (Cell::new(0), Cell::new(0));
    always(anew_story(), |story| {
        play(&story, |before, cluster, operator| {
            for (slot, refuses) in &cluster.server.refuses {
                let may_write = [before, cluster].iter().all(|at| {
                    let wishes = at.wishes(slot);
                    !wishes.is_empty() && wishes.iter().all(|wish| !at.is_inert(wish.name))
                });
                if !may_write {
                    continue;
                }
                let was_there = before.server.objects.get(slot).is_some_and(|old| !old.deleting);
                let is_there = cluster.server.objects.contains_key(slot);
                let may_be_lost = *refuses == Refuses::Creations || !was_there;
                prop_assert!(is_there || may_be_lost, "{} is gone, and its successor is refused", slot);
                let state = plan_slot(&operator.world, slot, at(cluster.now)).state;
                let is_blocked = matches!(state, SlotState::Blocked(_));
                prop_assert!(is_there || is_blocked, "{} is not there: {:?}", slot, state);
                let seen = if is_there { &kept } else { &lost };
                seen.set(seen.get() + usize::from(is_blocked && was_there));
            }
            none(&cluster.wrong(before))
        })
        .map(drop)
    });
    assert!(kept.get() > 0 && lost.get() > 0, "{kept:?} and {lost:?}: this test looks at nothing");
}
