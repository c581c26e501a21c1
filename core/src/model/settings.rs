//! The settings of a process, from its flags.

use std::{collections::BTreeSet, time::Duration};

use super::{SpreadLimits, Store};
use crate::names::{Declarer, InstanceKind, Kind, TemplateKind};

/// The settings of a process, which no watch changes.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The stores that this process keeps. The process makes no decision before all of these stores are
    /// listed.
    pub stores: BTreeSet<Store>,
    /// How many restarts may be under way in the whole cluster; 0: no limit.
    pub max_rollouts: usize,
    /// The namespaces that rules never copy into.
    pub system_namespaces: BTreeSet<String>,
    /// How long an orphaned copy is kept for a rule without `deletionGrace`.
    pub default_grace: Duration,
    /// Limits on how fast and how far the content of one source spreads.
    pub spread_limits: SpreadLimits,
    /// The namespace of Copyrator's own objects.
    pub own_namespace: String,
    /// The only rule that this process serves (`--rule-name`); copies of other rules are left alone.
    pub only_rule: Option<Declarer>,
    /// Whether this process reads our CustomResourceDefinitions: it manages copies, and has the right to read
    /// them.
    pub reads_definitions: bool,
    /// Whether annotations that declare copies or restarts have an effect.
    pub annotations: bool,
    /// The kinds that are copied beside ConfigMaps and Secrets (`--copy-kinds`).
    pub copy_kinds: BTreeSet<Kind>,
    /// The kinds whose objects templates are rendered for (`--template-kinds`).
    pub template_kinds: BTreeSet<TemplateKind>,
}

impl Settings {
    /// Whether objects of this kind are copied.
    pub fn copies(&self, kind: Kind) -> bool {
        kind.data().is_some() || self.copy_kinds.contains(&kind)
    }

    /// The grant of a kind whose objects templates are rendered for; `None` without a grant.
    pub fn template_kind(&self, kind: &InstanceKind) -> Option<&TemplateKind> {
        self.template_kinds.iter().find(|granted| granted.kind == *kind && granted.for_each)
    }

    /// The kinds that are copied, in order.
    pub fn copied_kinds(&self) -> impl Iterator<Item = Kind> {
        Kind::copied(&self.copy_kinds)
    }
}
