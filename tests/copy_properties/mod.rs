//! Any cluster, any sequence of events: what always holds of copies. A counterexample is shrunk to a short story; its
//! cause, once found, is pinned as a case of `copy_cases`.

mod asking;
mod cluster;
mod crashes;
mod events;
mod operator;
mod oracle;
mod others;
mod overlooked;
mod patterns;
mod policies;
mod queue;
mod rules;
mod successors;
mod unreadable;
mod watches;

use std::{cell::Cell, collections::BTreeMap};

use copyrator::{
    marks,
    model::Store,
    names::{Kind, ObjectKey},
    plan::{
        Key,
        copy::{SlotState, plan_slot, rule_status},
    },
};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngSeed, TestCaseResult, TestRunner},
};

use serde_json::json;

use crate::copy_model;
use cluster::Cluster;
use copy_model::{
    acting::{at, authorize, fetch, new_world, observe},
    stored::{Field, Stored},
};
use events::{Event, flapping_story, story, tenants_story};
use operator::{Operator, braked_until, forget_lists, slots, waits_for_successor};
use oracle::{Wish, copy_of};
use overlooked::overlooked;
use queue::Queue;
use rules::rule_name;
use watches::Watches;

/// Longer than any grace.
const LONG: Event = Event::Pass(1_000_000);
/// As many stories as fit in a few seconds.
const STORIES: u32 = 64;

/// The test holds for every value drawn: always the same ones, or, with `PROPTEST_CASES`, so many others, which `PROPTEST_RNG_SEED`
/// draws again.
fn always<S: Strategy>(drawn: S, test: impl Fn(S::Value) -> TestCaseResult) {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config = ProptestConfig { cases: STORIES, rng_seed: RngSeed::Fixed(1), ..config };
    }
    TestRunner::new(config).run(&drawn, test).unwrap_or_else(|error| panic!("{error}"));
}

/// Plays a story; whenever time passes the operator works until it rests, and `check` compares before and after.
fn play(
    story: &[Event],
    mut check: impl FnMut(&Cluster, &mut Cluster, &mut Operator) -> TestCaseResult,
) -> Result<(Cluster, Operator), TestCaseError> {
    let mut cluster = Cluster::default();
    let mut operator = Operator::start(&mut cluster.server);
    for event in story {
        cluster.happen(event);
        if let Event::Pass(_) = event {
            let before = cluster.clone();
            operator.settle(&mut cluster, &mut || true).unwrap();
            check(&before, &mut cluster, &mut operator)?;
        }
    }
    Ok((cluster, operator))
}

/// A story, and after it more time than any orphaned copy is kept.
fn long_story() -> impl Strategy<Value = Vec<Event>> {
    story().prop_map(|story| [story, vec![LONG, LONG]].concat())
}

fn none(faults: &[String]) -> TestCaseResult {
    prop_assert!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

#[test]
fn it_comes_to_rest_and_then_writes_nothing() {
    always(story(), |story| {
        play(&story, |_, cluster, operator| {
            let written = cluster.server.versions;
            operator.settle(cluster, &mut || true).unwrap();
            prop_assert_eq!(cluster.server.versions, written, "it writes though nothing has happened");
            Operator::start(&mut cluster.server).settle(cluster, &mut || true).unwrap();
            prop_assert_eq!(cluster.server.versions, written, "it writes after a restart");
            Ok(())
        })
        .map(drop)
    });
}

#[test]
fn where_it_rests_everything_is_right() {
    always(long_story(), |story| {
        play(&story, |before, cluster, operator| {
            let stays = |slot: &ObjectKey| waits_for_successor(&operator.world, slot, cluster.now);
            none(&cluster.wrong_but_for(before, stays))
        })
        .map(drop)
    });
}

/// Content waits for its turn, the last content arrives, and nothing else waits.
#[test]
fn with_the_brake_on_the_last_content_arrives() {
    let braked = Cell::new(0);
    always(flapping_story(), |story| {
        let mut cluster = Cluster::default();
        let mut operator = Operator::start_braked(&mut cluster.server);
        for event in &story {
            cluster.happen(event);
            let Event::Pass(_) = event else { continue };
            let before = cluster.clone();
            operator.settle(&mut cluster, &mut || true).unwrap();
            let mut unbraked = before.clone();
            Operator::start(&mut unbraked.server).settle(&mut unbraked, &mut || true).unwrap();
            for slot in
                cluster.differs(&unbraked).iter().filter(|slot| before.wishers(slot) == cluster.wishers(slot))
            {
                let state = plan_slot(&operator.world, slot, at(cluster.now)).state;
                prop_assert!(matches!(state, SlotState::Braked(_)), "{} differs: {:?}", slot, state);
                // That it is wanted is said at once: a mark for removal does not wait for the content.
                let is_content = |field: &Field| *field != Field::Annotation(marks::REMOVE_AFTER.into());
                let content = |cluster: &Cluster| {
                    let copy = cluster.server.objects.get(slot)?;
                    Some(
                        copy.values
                            .clone()
                            .into_iter()
                            .filter(|(field, _)| is_content(field))
                            .collect::<Vec<_>>(),
                    )
                };
                prop_assert_eq!(content(&cluster), content(&before), "{}", slot);
            }
            while let Some(until) = braked_until(&operator.world, cluster.now) {
                prop_assert!(
                    until > cluster.now && until <= cluster.now + 300,
                    "{} at {}",
                    until,
                    cluster.now
                );
                cluster.now = until;
                braked.set(braked.get() + 1);
                operator.settle(&mut cluster, &mut || true).unwrap();
            }
            none(&cluster.wrong(&before))?;
        }
        Ok(())
    });
    assert!(braked.get() > 0, "nothing was ever braked: this test looks at nothing");
}

#[test]
fn what_a_status_says_is_so() {
    always(story(), |story| {
        play(&story, |_, cluster, operator| {
            let objects = &cluster.server.objects;
            if objects.values().any(|object| object.deleting) || !cluster.server.refuses.is_empty() {
                return Ok(());
            }
            for rule in cluster.rules.keys().filter(|rule| !cluster.is_inert(rule)) {
                let is_its = |slot: &ObjectKey, object: &Stored| {
                    copy_of(slot, object) == Some((rule.clone(), true))
                        && cluster.wishes(slot).iter().any(|wish| wish.name == rule)
                };
                let current = objects.iter().filter(|(slot, object)| is_its(slot, object)).count() as i64;
                let status = rule_status(&operator.world, rule, at(cluster.now)).unwrap();
                let is = |word: &str| status.conditions.iter().any(|condition| condition.type_ == word);
                prop_assert_eq!(status.current, current, "{}", rule);
                // What is named and not there is waited for; where nothing is in order of what is wanted, that is said.
                let waits = status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "False");
                let is_nothing = status.desired > 0 && current == 0;
                prop_assert!(
                    is_nothing == waits || (waits && status.sources == 0),
                    "{}: {:?}",
                    rule,
                    status.conditions
                );
                prop_assert!(
                    is("Reconciling") == (waits && !is_nothing) && !is("Stalled"),
                    "{}: {:?}",
                    rule,
                    status.conditions
                );
                prop_assert!(is("Degraded") || current == status.desired, "{}: {:?}", rule, status);
            }
            Ok(())
        })
        .map(drop)
    });
}

/// Objects of the same name that nobody of us made, and sources, are neither written nor deleted (reflector#238, #256;
/// NCO#61).
#[test]
fn what_is_not_ours_is_not_touched() {
    always(long_story(), |story| play(&story, |before, cluster, _| none(&cluster.touched(before))).map(drop));
}

#[test]
fn nothing_is_removed_on_incomplete_knowledge() {
    let stores = [Store::Namespaces, Store::ConfigMaps, Store::Secrets, Store::CopyratorRules];
    always((long_story(), vec(any::<bool>(), 1..40), 0..stores.len()), |(story, seen, store)| {
        let (cluster, _) = play(&story, |_, _, _| Ok(()))?;
        let mut world = new_world();
        world.forget_listed(stores[store]);
        for (changed, _) in cluster.server.all().iter().zip(seen.iter().cycle()).filter(|(_, seen)| **seen) {
            observe(&mut world, changed, cluster.server.state(changed).as_ref());
        }
        for slot in slots(&world) {
            let mut plan = plan_slot(&world, &slot, at(cluster.now));
            while !plan.needs.is_empty() && fetch(&cluster.server, &mut world, &plan.needs) {
                plan = plan_slot(&world, &slot, at(cluster.now));
            }
            let removes = plan.action.as_ref().is_some_and(|action| action.removes());
            prop_assert!(!removes, "{}: {:?}", slot, plan);
        }
        Ok(())
    });
}

/// `kubectl delete crd` looks like every rule being deleted.
#[test]
fn nothing_is_removed_while_our_kinds_go() {
    always((story(), vec(any::<bool>(), rules::RULES.len())), |(story, gone)| {
        let (mut cluster, mut operator) = play(&story, |_, _, _| Ok(()))?;
        let before = cluster.clone();
        for rule in (0..gone.len()).filter(|rule| gone[*rule]) {
            cluster.happen(&Event::Rule(rule, None));
        }
        cluster.happen(&LONG);
        operator.intact = false;
        operator.settle(&mut cluster, &mut || true).unwrap();
        for (key, old) in &before.server.objects {
            let Some(new) = cluster.server.objects.get(key) else {
                return Err(TestCaseError::fail(format!("{key} is gone")));
            };
            let is_marked = |one: &Stored| one.annotations().contains_key(marks::REMOVE_AFTER);
            prop_assert!(is_marked(old) || !is_marked(new), "{} was marked", key);
            prop_assert!(copy_of(key, old).is_none() || copy_of(key, new).is_some(), "{} was let go", key);
        }
        Ok(())
    });
}

#[test]
fn a_rule_that_writes_nothing_keeps_its_copies() {
    always(long_story(), |story| {
        play(&story, |before, cluster, _| {
            for (key, old) in &before.server.objects {
                let Some((rule, _)) = copy_of(key, old).filter(|(rule, _)| before.is_inert(rule)) else {
                    continue;
                };
                let is_taken = cluster.wishes(key).iter().any(|wish| !cluster.is_inert(wish.name));
                if !is_taken || before.rules[&rule].is_broken() {
                    let new = cluster.server.objects.get(key).map(|new| &new.values);
                    prop_assert_eq!(new, Some(&old.values), "{} of {}", key, rule);
                }
            }
            Ok(())
        })
        .map(drop)
    });
}

/// The definition of rules is deleted and made anew, whatever else happens, with the rules or without: no copy goes for it, nor is
/// marked or released. A rule that is back and then deleted lets its copies go, also after a restart.
#[test]
fn nothing_goes_with_the_definition_of_rules() {
    let held = Cell::new(0);
    always((story(), vec(any::<bool>(), rules::RULES.len())), |(story, back)| {
        let mut cluster = Cluster::default();
        cluster.server.definition = Some("before".into());
        let mut operator = Operator::start(&mut cluster.server);
        for event in &story {
            cluster.happen(event);
            if let Event::Pass(_) = event {
                operator.settle(&mut cluster, &mut || true).unwrap();
            }
        }
        let before = cluster.clone();
        (0..back.len()).for_each(|rule| cluster.happen(&Event::Rule(rule, None)));
        cluster.server.definition = Some("anew".into());
        cluster.happen(&LONG);
        let mut operator = Operator::start(&mut cluster.server);
        operator.settle(&mut cluster, &mut || true).unwrap();
        let kept = |key: &ObjectKey, old: &Stored| {
            let Some((rule, true)) = copy_of(key, old).filter(|(rule, _)| rule.as_annotated().is_none())
            else {
                return Ok(());
            };
            held.set(held.get() + 1);
            let is_taken = cluster.wishes(key).iter().any(|wish| !cluster.is_inert(wish.name));
            let same = cluster.server.objects.get(key).is_some_and(|new| new.values == old.values);
            prop_assert!(same || is_taken || old.deleting, "{} of {} went with the definition", key, rule);
            Ok(())
        };
        before.server.objects.iter().try_for_each(|(key, old)| kept(key, old))?;

        for rule in (0..back.len()).filter(|rule| back[*rule]) {
            let Some(drawn) = before.rules.get(&rule_name(rule)) else { continue };
            cluster.happen(&Event::Rule(rule, Some(Box::new(drawn.clone()))));
        }
        operator.settle(&mut cluster, &mut || true).unwrap();
        let returned = cluster.clone();
        (0..back.len()).for_each(|rule| cluster.happen(&Event::Rule(rule, None)));
        let mut operator = Operator::start(&mut cluster.server);
        for _ in 0..2 {
            cluster.happen(&LONG);
            operator.settle(&mut cluster, &mut || true).unwrap();
        }
        for (key, old) in &returned.server.objects {
            let Some((rule, true)) = copy_of(key, old) else { continue };
            let its = |wish: &Wish<'_>| *wish.name == rule && !returned.is_inert(&rule);
            let was_current =
                returned.wishes(key).iter().any(its) && !returned.server.refuses.contains_key(key);
            let there =
                cluster.server.objects.get(key).filter(|new| !new.deleting && copy_of(key, new).is_some());
            let stays = cluster.server.namespaces.get(&*key.namespace).is_none_or(|it| it.terminating);
            let is_held = rule.as_annotated().is_none() && was_current && there.is_some() && !stays;
            prop_assert!(
                !is_held || !cluster.wishes(key).is_empty(),
                "{} of {} is held though it was back",
                key,
                rule
            );
        }
        Ok(())
    });
    assert!(held.get() > 0, "no copy was there: this test looks at nothing");
}

/// Tenants narrow rules, change policy and grace, delete rules and make them anew: no copy goes, is marked or released where
/// the author of the rule may not delete it; where the author may, it does not stay.
#[test]
fn no_rule_takes_away_what_its_identity_may_not() {
    let refused = Cell::new(0);
    let story = tenants_story().prop_map(|story| [story, vec![LONG, LONG]].concat());
    always(story, |story| {
        play(&story, |before, cluster, operator| {
            none(&cluster.trespassed(before))?;
            none(&cluster.wrong(before))?;
            refused
                .set(refused.get() + operator.world.rights().filter(|known| known.answer.is_err()).count());
            Ok(())
        })
        .map(drop)
    });
    assert!(refused.get() > 0, "nobody was ever refused: this test looks at nothing");
}

/// As many namespaces as peers crashed at, and ten times more (replicator#214, #215: 100 to 155).
#[test]
fn a_thousand_namespaces_get_their_copies() {
    let mut cluster = Cluster::default();
    let source = Event::Edit(
        events::Which::At(Kind::ConfigMap, "home", "x"),
        events::How::Patch("kubectl"),
        vec![events::Change::Data("a", Some("1"))],
    );
    let server = &mut cluster.server;
    let names = (0..1_000).map(|number| format!("n-{number}")).chain(["home".to_owned()]);
    names.for_each(|name| server.set_namespace(&name, BTreeMap::new(), false));
    let spec =
        json!({"source": {"kind": "ConfigMap", "names": ["x"]}, "targets": [{"namespaceSelector": {}}]});
    server.set_rule(&rule_name(0), spec, 0);
    cluster.happen(&source);
    let mut operator = Operator::start(&mut cluster.server);
    operator.settle(&mut cluster, &mut || true).unwrap();
    let is_copy = |(key, object): &(&ObjectKey, &Stored)| copy_of(key, object).is_some();
    assert_eq!(cluster.server.objects.iter().filter(is_copy).count(), 1_000);
    let written = cluster.server.versions;
    operator.settle(&mut cluster, &mut || true).unwrap();
    assert_eq!(cluster.server.versions, written);
}

#[test]
fn what_is_affected_is_all_there_is_to_look_at() {
    always((long_story(), vec(any::<u8>(), 1..200)), |(story, dice)| {
        let mut cluster = Cluster::default();
        let mut queue = Queue::start(&mut cluster, dice);
        for event in &story {
            cluster.happen(event);
            match event {
                Event::Pass(_) => {
                    queue.drain(&mut cluster);
                    overlooked(&mut cluster, &queue)?;
                }
                // The reconciler asks again every 30 s.
                Event::Answer(rule, _) => queue.request(Key::Rule(rule_name(*rule))),
                _ => queue.work_a_little(&mut cluster),
            }
        }
        Ok(())
    });
}

/// Watches that are cut and miss things, lists that are cut and begun anew while the other watches go on, events told
/// twice, kinds in any order: nothing is lost by it, and nothing removed by mistake (replicator#357, HNC#228).
#[test]
fn however_watches_fail_it_converges() {
    converges_in_trouble(Queue::start_in_trouble);
}

/// The same where only those namespaces are watched in which something needs ConfigMaps or Secrets: whatever comes and goes, what is
/// not watched changes nothing, and what is not known yet is not missing.
#[test]
fn wherever_it_watches_it_converges() {
    converges_in_trouble(Queue::start_scoped);
}

fn converges_in_trouble(start: impl Fn(&mut Cluster, Vec<u8>) -> Queue) {
    always((long_story(), vec(any::<u8>(), 1..300)), |(story, dice)| {
        let mut cluster = Cluster::default();
        let mut queue = start(&mut cluster, dice);
        // As it was since the process last knew everything.
        let mut earlier = vec![cluster.clone()];
        for event in &story {
            cluster.happen(event);
            match event {
                Event::Pass(_) => {
                    let before = cluster.clone();
                    queue.drain(&mut cluster);
                    none(&cluster.touched_since(&before, &earlier))?;
                    overlooked(&mut cluster, &queue)?;
                    let is_late = |slot: &ObjectKey| {
                        queue.may_be_late(slot, cluster.now)
                            || queue.waits_for(slot, cluster.now + overlooked::AWAITED)
                            || queue.is_out_of_sight(&cluster, slot)
                            || waits_for_successor(&queue.operator.world, slot, cluster.now)
                    };
                    none(&cluster.wrong_but_for(&cluster, is_late))?;
                    earlier.clear();
                }
                Event::Answer(rule, _) => queue.request(Key::Rule(rule_name(*rule))),
                _ => queue.work_a_little(&mut cluster),
            }
            earlier.push(cluster.clone());
        }
        Ok(())
    });
}

/// A first list that is cut and begun anew is no knowledge: until every list is complete nothing is removed
/// (HNC#228: propagated objects were deleted after a restart, before the cache was complete).
#[test]
fn nothing_is_removed_during_the_first_lists() {
    always((long_story(), vec(any::<u8>(), 1..99)), |(story, dice)| {
        let (mut cluster, _) = play(&story, |_, _, _| Ok(()))?;
        let mut world = new_world();
        forget_lists(&mut world);
        let mut watches = Watches::begin(&mut cluster.server, &mut world);
        for dice in dice {
            drop(watches.tell(&mut cluster.server, &mut world, usize::from(dice)));
            if world.is_complete() {
                return Ok(());
            }
            authorize(&cluster.server, &mut world);
            for slot in slots(&world) {
                let plan = plan_slot(&world, &slot, at(cluster.now));
                let removes = plan.action.as_ref().is_some_and(|action| action.removes());
                prop_assert!(!removes, "{}: {:?}", slot, plan);
            }
        }
        Ok(())
    });
}
