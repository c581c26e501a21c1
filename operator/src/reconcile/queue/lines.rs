//! Lines of waiting keys, one for each tenant. The tenant whose keys have cost the least has the next turn,
//! so that many keys or costly keys of one tenant delay that tenant alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::plan::Key;

/// The namespace that pays for a key; `None` for keys of the whole cluster.
pub(crate) type Tenant = Option<Arc<str>>;

/// Cost of a turn until it is known how long the key takes.
const TURN: Duration = Duration::from_millis(1);

/// The lines of all tenants.
#[derive(Default)]
pub(super) struct Lines {
    /// All keys, by number: in the order in which they entered.
    keys: BTreeMap<u64, Key>,
    lines: BTreeMap<Tenant, Line>,
    /// Tenants in the order of their turns: by cost, and at equal cost by the number of their first key.
    turns: BTreeSet<(Duration, u64, Tenant)>,
    /// Cost of the tenant with the last turn. A returning tenant begins with this cost: it comes before all
    /// tenants that had a turn since, and gains nothing from its absence.
    begun: Duration,
}

/// The waiting keys of one tenant, and their cost so far.
struct Line {
    cost: Duration,
    keys: BTreeSet<u64>,
}

impl Lines {
    /// Adds a key to its tenant's line. The line is in the order of numbers, and no two keys have the same
    /// number.
    pub(super) fn enter(&mut self, tenant: &Tenant, number: u64, key: Key) {
        self.keys.insert(number, key);
        self.at(tenant, |line| line.keys.insert(number));
    }

    /// Removes the key with this number from its tenant's line.
    pub(super) fn leave(&mut self, tenant: &Tenant, number: u64) -> Option<Key> {
        self.at(tenant, |line| line.keys.remove(&number));
        self.keys.remove(&number)
    }

    /// Removes and returns the first key of the tenant whose turn is next, among tenants for which `may` is
    /// true.
    pub(super) fn next(&mut self, may: impl Fn(&Tenant) -> bool) -> Option<Key> {
        let (cost, number, tenant) = self.turns.iter().find(|(.., tenant)| may(tenant))?.clone();
        self.begun = self.begun.max(cost);
        self.charge(&tenant, TURN);
        self.leave(&tenant, number)
    }

    /// Charges the cost of a key to its tenant. A tenant without waiting keys pays nothing, since it delays
    /// no other tenant.
    pub(super) fn charge(&mut self, tenant: &Tenant, cost: Duration) {
        self.at(tenant, |line| line.cost = line.cost.saturating_add(cost));
    }

    /// The key that has waited the longest.
    pub(super) fn first(&self) -> Option<&Key> {
        self.keys.values().next()
    }

    /// How many keys wait.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// How many keys of one tenant wait.
    pub(super) fn len_of(&self, tenant: &Tenant) -> usize {
        self.lines.get(tenant).map_or(0, |line| line.keys.len())
    }

    /// The tenants with keys in line.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.lines.keys()
    }

    /// Changes a tenant's line, and so the tenant's turn. A line without keys is removed.
    fn at<T>(&mut self, tenant: &Tenant, change: impl FnOnce(&mut Line) -> T) -> T {
        let mut line =
            self.lines.remove(tenant).unwrap_or_else(|| Line { cost: self.begun, keys: BTreeSet::new() });
        let turn = |line: &Line| Some((line.cost, *line.keys.first()?, tenant.clone()));
        if let Some(turn) = turn(&line) {
            self.turns.remove(&turn);
        }
        let result = change(&mut line);
        if let Some(turn) = turn(&line) {
            self.turns.insert(turn);
            self.lines.insert(tenant.clone(), line);
        }
        result
    }
}
