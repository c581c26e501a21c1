//! A process ends between two of its writes, and the next one goes on from there.

use proptest::{collection::vec, prelude::*};

use super::{always, events::story, none, operator::Operator, play};
use copyrator::names::ObjectKey;

#[test]
fn after_crashes_it_comes_to_the_same() {
    always((story(), vec(0..6_usize, 2)), |(story, crashes)| {
        play(&story, |before, cluster, _| {
            let mut left = Vec::new();
            let mut torn = before.clone();
            for writes in &crashes {
                let mut writes = (0..*writes).map(|_| true);
                let mut leads = || writes.next().unwrap_or(false);
                drop(Operator::start(&mut torn.server).settle(&mut torn, &mut leads));
                left.push(torn.clone());
            }
            Operator::start(&mut torn.server).settle(&mut torn, &mut || true).unwrap();
            // What was deleted to be made anew is free when the process ends in between, at any of the crashes: of several rules
            // the oldest gets it (ARCHITECTURE.md, "A crash, at any moment").
            let lacks = |slot: &ObjectKey| left.iter().any(|left| !left.server.objects.contains_key(slot));
            let freed: Vec<&ObjectKey> = before.server.objects.keys().filter(|slot| lacks(slot)).collect();
            let is_steady = |slot: &ObjectKey| {
                let moments = [before, cluster].into_iter().chain(&left);
                moments.map(|moment| moment.wishers(slot)).all(|wishers| wishers == torn.wishers(slot))
            };
            let mut begun = left.last().unwrap_or(before).clone();
            for slot in freed.iter().filter(|slot| is_steady(slot)) {
                begun.server.objects.remove(slot);
            }
            none(&torn.wrong(&begun))?;
            let mut differs = torn.differs(cluster);
            differs.retain(|slot| {
                let may_change_hands = freed.contains(&slot) && cluster.wishers(slot).len() > 1;
                !may_change_hands && before.wishers(slot) == cluster.wishers(slot)
            });
            prop_assert!(differs.is_empty(), "{:?} differ", differs);
            Ok(())
        })
        .map(drop)
    });
}
