//! What events of watches have not asked for, though there is something to do.

use std::collections::BTreeSet;

use copyrator::{names::ObjectKey, plan::copy::plan_slot};
use proptest::{prelude::*, test_runner::TestCaseResult};

use super::{
    cluster::Cluster,
    copy_model::{
        acting::{at, authorize},
        server::Answer,
    },
    operator::{Looked, Operator, slots},
    queue::Queue,
};

/// Longest time until the reconciler looks again whether a successor is there (`plan/copy/successor.rs`).
pub const AWAITED: i64 = 30;

/// Looks at everything, as a new process would, and expects to find nothing.
pub fn overlooked(cluster: &mut Cluster, queue: &Queue) -> TestCaseResult {
    let mut fresh = cluster.clone();
    let mut operator = Operator::start(&mut fresh.server);
    authorize(&fresh.server, &mut operator.world);
    let known: BTreeSet<_> = slots(&operator.world).into_iter().chain(slots(&queue.operator.world)).collect();
    let is_seen = |slot: &&ObjectKey| {
        !cluster.server.refuses.contains_key(slot) && !queue.is_out_of_sight(cluster, slot)
    };
    for slot in known.iter().filter(is_seen) {
        match operator.look_at(&mut fresh.server, slot, cluster.now, &mut || true) {
            Looked::Rest(None) => {}
            Looked::Rest(Some(again)) => {
                let is_due = queue.waits_for(slot, again.as_second()) || queue.may_be_late(slot, cluster.now);
                let is_seen = is_due || is_at_rest(&were_refused(cluster, slot), slot, queue);
                prop_assert!(is_seen, "{} is not looked at again", slot);
            }
            Looked::Acted(action, _) if action.removes() && queue.may_be_late(slot, cluster.now) => {}
            // It looks again soon whether what comes in the place of the object is there.
            Looked::Acted(action, _) if action.removes() && queue.waits_for(slot, cluster.now + AWAITED) => {}
            other => {
                let seen = plan_slot(&queue.operator.world, slot, at(cluster.now)).state;
                prop_assert!(false, "{} was overlooked: {:?}, and here: {:?}", slot, other, seen);
            }
        }
    }
    Ok(())
}

/// What a new process would do in a slot if every rule that waits for an answer were refused. The reconciler looks again at a
/// copy that waits with such a rule, since the copy would be deleted otherwise (docs/decisions/conflicts-and-replacement.md). A
/// copy that stays either way waits for nothing.
fn were_refused(cluster: &Cluster, slot: &ObjectKey) -> Looked {
    let mut fresh = cluster.clone();
    let unasked = fresh.server.answers.values_mut().filter(|answer| **answer == Answer::Unasked);
    unasked.for_each(|answer| *answer = Answer::Refused);
    let mut operator = Operator::start(&mut fresh.server);
    authorize(&fresh.server, &mut operator.world);
    operator.look_at(&mut fresh.server, slot, cluster.now, &mut || true)
}

fn is_at_rest(looked: &Looked, slot: &ObjectKey, queue: &Queue) -> bool {
    match looked {
        Looked::Rest(again) => again.is_none_or(|again| queue.waits_for(slot, again.as_second())),
        _ => false,
    }
}
