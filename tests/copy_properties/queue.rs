//! The operator as it really works: one event of a watch at a time, and only what [`affected`] names is looked at.

use std::collections::{BTreeMap, BTreeSet};

use copyrator::{
    marks,
    model::{DataNeed, DataScope, World},
    names::ObjectKey,
    plan::{
        Changed, Key, affected,
        copy::{AGAIN, CopyAction, SlotState, inert::Inert, plan_slot},
        everything, slots_to_check,
    },
    testing::Outcome,
};

use super::{
    cluster::Cluster,
    copy_model::{
        acting::{REFUSED_AGAIN, at, authorize_one, new_world, observe},
        stored::Stored,
    },
    operator::{Looked, Operator, forget_lists},
    watches::Watches,
};

/// So many keys and events are more than any story needs.
const STEPS: usize = 5_000;

pub struct Queue {
    pub operator: Operator,
    keys: BTreeSet<Key>,
    /// Tried again when the watches have told more.
    later: BTreeSet<Key>,
    due: BTreeMap<ObjectKey, i64>,
    /// Of those that are due, the slots where a copy of another rule waited for the API server's answer about a rule.
    unanswered: BTreeSet<ObjectKey>,
    /// Where things go wrong with watches: else each event is told once.
    watches: Option<Watches>,
    /// Whether to take an event or a key next, and which key.
    dice: std::iter::Cycle<std::vec::IntoIter<u8>>,
}

impl Queue {
    pub fn start(cluster: &mut Cluster, dice: Vec<u8>) -> Self {
        let operator = Operator::start(&mut cluster.server);
        let keys = everything(&operator.world);
        let dice = dice.into_iter().cycle();
        Self {
            operator,
            keys,
            later: BTreeSet::new(),
            due: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            watches: None,
            dice,
        }
    }

    /// A process that knows nothing yet, and whose watches are cut now and then, and say things twice.
    pub fn start_in_trouble(cluster: &mut Cluster, dice: Vec<u8>) -> Self {
        Self::start_on(cluster, dice, new_world())
    }

    /// The same, of a process that watches ConfigMaps and Secrets only where something needs them.
    pub fn start_scoped(cluster: &mut Cluster, dice: Vec<u8>) -> Self {
        let mut world = new_world();
        let own = DataNeed::in_namespace(&world.settings().own_namespace);
        world.set_data_scope(Some(DataScope::new(own)));
        Self::start_on(cluster, dice, world)
    }

    fn start_on(cluster: &mut Cluster, dice: Vec<u8>, mut world: World) -> Self {
        forget_lists(&mut world);
        world.memory_mut().begin_term(at(cluster.now));
        let watches = Some(Watches::begin(&mut cluster.server, &mut world));
        world.settings_mut().spread_limits.min_interval = std::time::Duration::ZERO;
        let dice = dice.into_iter().cycle();
        let operator = Operator { world, intact: true, asks_seldom: false };
        Self {
            operator,
            keys: BTreeSet::new(),
            later: BTreeSet::new(),
            due: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            watches,
            dice,
        }
    }

    pub fn request(&mut self, key: Key) {
        self.keys.insert(key);
    }

    /// Does something, but not all there is to do.
    pub fn work_a_little(&mut self, cluster: &mut Cluster) {
        for _ in 0..self.dice.next().unwrap_or(0) % 8 {
            self.step(cluster);
        }
        cluster.declare();
    }

    /// Does everything that there is to do by now.
    pub fn drain(&mut self, cluster: &mut Cluster) {
        let ripe: Vec<_> =
            self.due.iter().filter(|(_, due)| **due <= cluster.now).map(|(slot, _)| slot.clone()).collect();
        for slot in ripe {
            self.due.remove(&slot);
            self.keys.insert(Key::Slot(slot));
        }
        self.ask_again();
        for _ in 0..STEPS {
            if !self.step(cluster) {
                cluster.declare();
                return;
            }
        }
        panic!("there is always more to do: {:?}", self.keys);
    }

    /// As if a minute had passed: the reconciler asks again about each object in the way that no watch shows.
    fn ask_again(&mut self) {
        let world = &mut self.operator.world;
        let asked = world.objects().filter(|(_, facts)| facts.seen.is_only_asked());
        let asked: Vec<ObjectKey> = asked.map(|(slot, _)| slot.clone()).collect();
        for slot in asked {
            world.memory_mut().ask_now(&slot);
            self.keys.insert(Key::Slot(slot));
        }
    }

    /// Whether an orphaned copy may still be in this slot: the API server had not answered yet about a rule that claimed
    /// the slot when the reconciler last looked. The reconciler promises to look again within five minutes
    /// (docs/decisions/conflicts-and-replacement.md), and not as soon as the answer comes: only rules that make copies ask for
    /// slots (docs/decisions/authority.md), and a refused rule makes none.
    pub fn may_be_late(&self, slot: &ObjectKey, now: i64) -> bool {
        let by = now + i64::try_from(AGAIN.as_secs()).unwrap();
        self.unanswered.contains(slot) && self.waits_for(slot, by)
    }

    /// Whether an orphaned copy without our labels may stay in this slot, since no watch shows it (docs/limits.md).
    pub fn is_out_of_sight(&self, cluster: &Cluster, slot: &ObjectKey) -> bool {
        let labels = cluster.server.objects.get(slot).map(Stored::labels).unwrap_or_default();
        let is_labelled = labels.get(marks::MANAGED_BY).is_some_and(|value| value == marks::MANAGED_BY_VALUE)
            && labels.contains_key(marks::RULE_LABEL);
        !self.operator.world.knows(slot.kind, &slot.namespace)
            && !is_labelled
            && cluster.wishes(slot).iter().all(|wish| cluster.is_inert(wish.name))
    }

    /// Whether this slot will be looked at by then.
    pub fn waits_for(&self, slot: &ObjectKey, by: i64) -> bool {
        self.due.get(slot).is_some_and(|due| *due <= by)
    }

    fn step(&mut self, cluster: &mut Cluster) -> bool {
        let dice = usize::from(self.dice.next().unwrap_or(0));
        let has_news = match &self.watches {
            Some(watches) => watches.has_news(&cluster.server),
            None => !cluster.server.log.is_empty(),
        };
        if self.keys.is_empty() && !has_news {
            self.keys = std::mem::take(&mut self.later);
        }
        if has_news && (self.keys.is_empty() || dice % 2 == 0) {
            self.hear(cluster, dice);
        } else if let Some(key) = self.keys.iter().nth(dice % self.keys.len().max(1)).cloned() {
            self.keys.remove(&key);
            self.work(cluster, key);
        } else {
            return false;
        }
        true
    }

    /// As `observe/watch.rs` does: asked on both sides of the change. Each kind has its own watch, and none waits
    /// for another.
    fn hear(&mut self, cluster: &mut Cluster, dice: usize) {
        if let Some(watches) = &mut self.watches {
            self.keys.extend(watches.tell(&mut cluster.server, &mut self.operator.world, dice));
            self.keys.append(&mut self.later);
            return;
        }
        let log = &mut cluster.server.log;
        let watch = |changed: &Changed| match changed {
            Changed::Object(key) => (std::mem::discriminant(changed), Some(key.kind)),
            _ => (std::mem::discriminant(changed), None),
        };
        let any = dice / 2 % log.len();
        let first = log.iter().position(|(changed, _)| watch(changed) == watch(&log[any].0));
        let Some((changed, state)) = first.and_then(|first| log.remove(first)) else { return };
        let world = &mut self.operator.world;
        let mut keys = affected(world, &changed);
        if observe(world, &changed, state.as_ref()) {
            keys.extend(affected(world, &changed));
            self.keys.extend(keys);
        }
        self.keys.append(&mut self.later);
    }

    fn work(&mut self, cluster: &mut Cluster, key: Key) {
        let (server, world) = (&mut cluster.server, &mut self.operator.world);
        let slot = match key {
            Key::Rule(rule) => {
                if authorize_one(server, world, &rule) {
                    self.keys.extend(slots_to_check(world, &rule));
                }
                return;
            }
            Key::Slot(slot) => slot,
            _ => return,
        };
        self.due.remove(&slot);
        self.unanswered.remove(&slot);
        match self.operator.look_at(server, &slot, cluster.now, &mut || true) {
            Looked::Rest(None) | Looked::NotIntact => {}
            Looked::Rest(Some(again)) => {
                let state = plan_slot(&self.operator.world, &slot, at(cluster.now)).state;
                if let SlotState::Inert(Inert::Unauthorized) = state {
                    self.unanswered.insert(slot.clone());
                }
                self.due.insert(slot, again.as_second());
            }
            Looked::Ahead | Looked::Acted(_, Outcome::Stale) => drop(self.later.insert(Key::Slot(slot))),
            Looked::Acted(CopyAction::Write(write), Outcome::NeedsReplacing(_)) if !write.anew => {
                self.keys.insert(Key::Slot(slot));
            }
            Looked::Acted(_, Outcome::Refused { .. } | Outcome::NeedsReplacing(_)) => {
                self.due.insert(slot, cluster.now + REFUSED_AGAIN);
            }
            Looked::Acted(_, Outcome::Done | Outcome::NamespaceGone) => {}
            Looked::Acted(action, outcome) => panic!("{slot}: {action:?}: {outcome:?}"),
        }
    }
}
