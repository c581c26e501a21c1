//! What is known of our own kinds: the object as written, as compiled, and what it may do.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::{
    api::{
        ConfigMonitorSpec, ConfigMonitorStatus, ConfigPolicySpec, ConfigPolicyStatus, CopyratorRuleSpec,
        CopyratorRuleStatus, Problem,
    },
    validate::{CompiledMonitor, CompiledPolicy, CompiledRule},
};

/// An object of ours: as written, and as compiled by the one validator.
#[derive(Clone, Debug)]
pub struct Declared<Spec, Compiled, Status> {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resource version.
    pub resource_version: Box<str>,
    /// Its generation.
    pub generation: i64,
    /// When it was created; the older of two rules wins a free slot.
    pub created: Timestamp,
    /// Its annotations that begin with `copyrator.dev/`: the author's stamp, `restart-now`.
    pub annotations: BTreeMap<String, String>,
    /// As written.
    pub spec: Spec,
    /// As understood; or everything that is wrong with it (then it is quarantined).
    pub compiled: Result<Arc<Compiled>, Vec<Problem>>,
    /// Its status as last seen.
    pub status: Option<Status>,
}

/// A [`crate::api::CopyratorRule`].
pub type RuleFacts = Declared<CopyratorRuleSpec, CompiledRule, CopyratorRuleStatus>;
/// A [`crate::api::ConfigMonitor`].
pub type MonitorFacts = Declared<ConfigMonitorSpec, CompiledMonitor, ConfigMonitorStatus>;
/// A [`crate::api::ConfigPolicy`].
pub type PolicyFacts = Declared<ConfigPolicySpec, CompiledPolicy, ConfigPolicyStatus>;

/// The definition of rules, as the API server had it right before rules were last listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its UID.
    pub uid: Box<str>,
    /// When it was created (1 s resolution): every rule of before went with the one before.
    pub created: Timestamp,
}

/// What the API server said when it was asked whether the identity of a rule or monitor may do what it
/// declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// UID of the object that was asked for.
    pub uid: Box<str>,
    /// Generation that was asked for.
    pub generation: i64,
    /// Whose rights: `user alice`, `serviceaccount shop/copier`.
    pub identity: String,
    /// `Ok`, or the reason and message of the refusal.
    pub answer: Result<(), (String, String)>,
    /// When it was asked; what can be withdrawn is written by for 30 s at most.
    pub asked: Timestamp,
    /// How many questions it took.
    pub questions: usize,
    /// How many times in a row it was refused.
    pub refusals: u32,
}
