//! How a process is set, as its flags say.

use std::{collections::BTreeSet, time::Duration};

use super::{SpreadLimits, Store};
use crate::names::NamespacedName;

/// How a process is set. None of it is observed, and none of it is forgotten.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The stores that this process keeps: it decides nothing before all of them are listed.
    pub stores: BTreeSet<Store>,
    /// How many restarts of ours may be under way in the whole cluster; 0: as many as are due.
    pub max_rollouts: usize,
    /// Never targets.
    pub system_namespaces: BTreeSet<String>,
    /// Grace of rules that name none.
    pub default_grace: Duration,
    /// How fast and how far one source may spread.
    pub spread_limits: SpreadLimits,
    /// Where our own objects live.
    pub own_namespace: String,
    /// The only rule that is served, where the process serves one: copies of others are not its business.
    pub only_rule: Option<NamespacedName>,
    /// Whether annotations of ours on other people's objects count.
    pub annotations: bool,
}
