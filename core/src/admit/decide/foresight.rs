//! Warns the author of a rule that the rule will copy nothing for now: no namespace matches its targets, or
//! its sources do not exist. The write is accepted all the same, for both may appear later.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    api::{CopyratorRuleSpec, CopyratorRuleStatus},
    model::{World, WriteFault},
    names::NamespacedName,
    plan::{
        Reason,
        copy::{
            ProblemReason,
            absent::{lacking_sources, lacking_targets, sees_sources},
            granted::not_granted,
        },
    },
    validate::CompiledRule,
};

/// A rule that a write is about to store.
#[derive(Debug)]
pub(super) struct Written {
    rule: NamespacedName,
    compiled: CompiledRule,
    /// The reason and message from the status of the rule's previous version, where they hold for this
    /// version, too.
    said: Option<(Reason, String)>,
}

/// Warnings for a rule's author, given only once the API server has said that the author may write the rule
/// and the rule may act.
#[derive(Debug, Default)]
pub struct Foresight {
    /// Warnings for any author.
    pub told: Vec<String>,
    /// Warnings for an author who may list namespaces, and for no other author: they tell which namespaces
    /// exist.
    pub of_namespaces: Vec<String>,
}

impl Written {
    pub(super) fn new(
        rule: NamespacedName,
        (spec, compiled): (&CopyratorRuleSpec, CompiledRule),
        old: Option<&RawValue>,
    ) -> Self {
        Self { rule, compiled, said: old.and_then(|old| said_before(old, spec)) }
    }

    /// The warnings from what is known of the cluster; none before every store is complete.
    pub(super) fn look(&self, world: &World) -> Foresight {
        let Self { rule, compiled, said } = self;
        if !world.is_listed() {
            return Foresight::default();
        }
        // A process that watches sources knows better than an earlier status.
        let said = said
            .as_ref()
            .filter(|(reason, _)| *reason != Reason::NoSource || !sees_sources(world, rule, compiled));
        let said = said.map(|(reason, message)| {
            format!("copyrator: the rule's status says {}: {message}", reason.as_str())
        });
        let refused = (!world.settings().copies(compiled.kind)).then(|| not_granted(compiled.kind));
        let refused = refused.map(|said| format!("copyrator: {said}"));
        let sources = lacking_sources(world, rule, compiled).map(|said| format!("copyrator: {said}"));
        let targets = lacking_targets(world, rule, compiled).into_iter();
        Foresight {
            told: refused.into_iter().chain(sources).chain(said).collect(),
            of_namespaces: targets.map(|said| format!("copyrator: {said}")).collect(),
        }
    }
}

#[derive(Deserialize)]
struct Before {
    metadata: Metadata,
    spec: CopyratorRuleSpec,
    #[serde(default)]
    status: CopyratorRuleStatus,
}

#[derive(Deserialize)]
struct Metadata {
    generation: i64,
}

/// What the reconciler said of the rule's previous version, as far as the new spec leaves it true: missing
/// sources, and rights that our own account lacks. Rights that the author lacks are asked about anew.
fn said_before(old: &RawValue, spec: &CopyratorRuleSpec) -> Option<(Reason, String)> {
    let Before { metadata, spec: before, status } = serde_json::from_str(old.get()).ok()?;
    let condition = |type_: &str| {
        let of_this =
            status.conditions.iter().filter(|one| one.observed_generation == Some(metadata.generation));
        of_this.into_iter().find(|one| one.type_ == type_)
    };
    let ready = condition("Ready").filter(|ready| ready.status == "False")?;
    let may = condition("Authorized").is_some_and(|authorized| authorized.status == "True");
    let is_same_source = before.source == spec.source;
    let is_same = is_same_source && before.targets == spec.targets && before.copy == spec.copy;
    let still_true = [
        is_same_source.then_some(Reason::NoSource),
        (may && is_same).then_some(ProblemReason::Fault(WriteFault::Forbidden).into()),
    ];
    let reason = still_true.into_iter().flatten().find(|reason| reason.as_str() == ready.reason)?;
    Some((reason, ready.message.clone()))
}
