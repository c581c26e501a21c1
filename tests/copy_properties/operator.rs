//! Plans and acts as `reconcile/slot.rs` does, on every slot until nothing is left to do.

use std::{collections::BTreeSet, time::Duration};

use copyrator::{
    model::{ObjectFacts, World, WriteFault},
    names::ObjectKey,
    plan::{
        Key,
        copy::{ACTION_GATES, Check, CopyAction, DueAction, SlotState, forget_attempt, plan_slot},
        slots_to_check,
    },
    testing::Outcome,
};
use jiff::Timestamp;

use super::{
    asking,
    cluster::Cluster,
    copy_model::{
        acting::{act, ask, at, authorize, catch_up, fetch, new_world, relist, remember},
        server::Server,
    },
    policies::refusal,
};

/// Who writes.
const ACCOUNT: &str = "system:serviceaccount:copyrator:copyrator";
/// Whatever has happened, more rounds over all slots than this are not needed.
const ROUNDS: usize = 10;

pub struct Operator {
    pub world: World,
    /// Whether our own kinds are all served.
    pub intact: bool,
    /// Whether it asks whose rights suffice as rarely as the reconciler does; else whenever it does anything.
    pub asks_seldom: bool,
}

/// What a look at a slot came to.
#[derive(Debug)]
pub enum Looked {
    /// Nothing to do, before this time at least.
    Rest(Option<Timestamp>),
    /// The API server is ahead of the watch.
    Ahead,
    /// Removals wait for our own kinds to be all there.
    NotIntact,
    Acted(CopyAction, Outcome),
}

/// The process has ended between two writes.
#[derive(Debug)]
pub struct Crashed;

impl Operator {
    /// A process that has just listed everything, and lets sources spread as often as they like.
    pub fn start(server: &mut Server) -> Self {
        let mut operator = Self::start_braked(server);
        operator.world.settings_mut().spread_limits.min_interval = Duration::ZERO;
        operator
    }

    /// The same with the brake on.
    pub fn start_braked(server: &mut Server) -> Self {
        let mut world = new_world();
        relist(server, &mut world);
        Self { world, intact: true, asks_seldom: false }
    }

    pub fn look_at(
        &mut self,
        server: &mut Server,
        slot: &ObjectKey,
        now: i64,
        leads: &mut dyn FnMut() -> bool,
    ) -> Looked {
        let mut plan = plan_slot(&self.world, slot, at(now));
        if matches!(plan.state, SlotState::Nothing) {
            self.world.forget_asked(slot);
        }
        while !plan.needs.is_empty() {
            if !fetch(server, &mut self.world, &plan.needs) {
                return Looked::Ahead;
            }
            plan = plan_slot(&self.world, slot, at(now));
        }
        let Some(action) = &plan.action else {
            if plan.recheck.is_none() {
                forget_attempt(&mut self.world, slot);
            }
            return Looked::Rest(plan.recheck);
        };
        let mut refused = None;
        for gate in &ACTION_GATES {
            let world = &self.world;
            match (gate.ask)(&DueAction { world, slot, plan: &plan, account: ACCOUNT, now: at(now) }) {
                Some(Check::Definitions { .. }) if !self.intact => return Looked::NotIntact,
                Some(Check::Policies(write, guards)) => {
                    refused = refusal(server, world, slot, (write, &guards), now);
                }
                // Rights are asked about before each round.
                _ => {}
            }
        }
        let outcome = match refused {
            Some(message) => Outcome::Refused { reason: WriteFault::RefusedByPolicy, message },
            None => act(server, slot, action, leads),
        };
        let is_shown = |facts: &ObjectFacts| !facts.seen.is_only_asked();
        if outcome == Outcome::Stale && !self.world.object(slot).is_some_and(is_shown) {
            ask(server, &mut self.world, slot);
        }
        remember((server, &mut self.world), slot, action, &outcome, now);
        Looked::Acted(action.clone(), outcome)
    }

    /// Looks at every slot until none is written any more, while the process lives.
    pub fn settle(&mut self, cluster: &mut Cluster, leads: &mut dyn FnMut() -> bool) -> Result<(), Crashed> {
        let settled = self.work(cluster, leads);
        cluster.declare();
        settled
    }

    fn work(&mut self, cluster: &mut Cluster, leads: &mut dyn FnMut() -> bool) -> Result<(), Crashed> {
        let (server, now) = (&mut cluster.server, cluster.now);
        let mut last = Vec::new();
        for _ in 0..ROUNDS {
            catch_up(server, &mut self.world);
            match self.asks_seldom {
                true => asking::authorize(server, &mut self.world, now),
                false => authorize(server, &mut self.world),
            }
            last.clear();
            for slot in slots(&self.world) {
                let looked = self.look_at(server, &slot, now, leads);
                catch_up(server, &mut self.world);
                match looked {
                    Looked::Rest(_) | Looked::NotIntact => {}
                    Looked::Acted(_, Outcome::Refused { reason: WriteFault::RefusedByPolicy, .. }) => {}
                    // What was refused after a deletion is looked at again when the watch tells of that.
                    Looked::Acted(action, Outcome::Refused { .. })
                        if server.refuses.contains_key(&slot)
                            && (!matches!(&action, CopyAction::Write(write) if write.anew)
                                || self.world.memory().slot(&slot).attempt().is_some()) => {}
                    Looked::Acted(_, Outcome::NotLeading) => return Err(Crashed),
                    other => last.push((slot, other)),
                }
            }
            if last.is_empty() {
                return Ok(());
            }
        }
        panic!("it does not come to rest; of the last round: {last:#?}");
    }
}

/// When the last copy may be written that waits for its source to calm down.
pub fn braked_until(world: &World, now: i64) -> Option<i64> {
    let until = slots(world).into_iter().filter_map(|slot| match plan_slot(world, &slot, at(now)).state {
        SlotState::Braked(until) => Some(until.as_second()),
        _ => None,
    });
    until.max()
}

/// Whether the old object of a renamed copy stays, and its rule says so, because another object has the new name.
pub fn waits_for_successor(world: &World, slot: &ObjectKey, now: i64) -> bool {
    match plan_slot(world, slot, at(now)).state {
        SlotState::Blocked(problem) => problem.message.starts_with("kept, because "),
        _ => false,
    }
}

/// Nothing has been listed yet.
pub fn forget_lists(world: &mut World) {
    let stores: Vec<_> = world.settings().stores.iter().copied().collect();
    stores.into_iter().for_each(|store| world.forget_listed(store));
}

/// Every slot that anybody could have a wish for.
pub fn slots(world: &World) -> BTreeSet<ObjectKey> {
    let wanted = world.rules().keys().flat_map(|rule| slots_to_check(world, rule));
    let wanted = wanted.filter_map(|key| match key {
        Key::Slot(slot) => Some(slot),
        _ => None,
    });
    wanted.chain(world.objects().map(|(key, _)| key.clone())).collect()
}
