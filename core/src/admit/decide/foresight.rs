//! What the author of a rule is told that it will not do as things stand: no namespace takes its copies, or
//! its sources are not there. The author may write it all the same, for both may come later.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    api::{CopyratorRuleSpec, CopyratorRuleStatus},
    model::World,
    names::NamespacedName,
    plan::copy::absent::{lacking_sources, lacking_targets, sees_sources},
    validate::CompiledRule,
};

/// A rule that is about to be stored.
#[derive(Debug)]
pub(super) struct Written {
    rule: NamespacedName,
    compiled: CompiledRule,
    /// What the status of the version before says that holds for this one, too: its reason, and all of it.
    said: Option<(&'static str, String)>,
}

/// What a rule's author is told, once it is known that the author may write the rule and that the rule may
/// act.
#[derive(Debug, Default)]
pub struct Foresight {
    /// To any author.
    pub told: Vec<String>,
    /// To an author who may list namespaces, and no other: it tells which of them there are.
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

    /// What there is to say; nothing before the cluster is known.
    pub(super) fn look(&self, world: &World) -> Foresight {
        let Self { rule, compiled, said } = self;
        if !world.is_listed() {
            return Foresight::default();
        }
        // A process that sees the sources knows better than an earlier status.
        let said = said.as_ref().filter(|(reason, _)| *reason != NO_SOURCE || !sees_sources(world, compiled));
        let said =
            said.map(|(reason, message)| format!("copyrator: the rule's status says {reason}: {message}"));
        let sources = lacking_sources(world, rule, compiled).map(|said| format!("copyrator: {said}"));
        let targets = lacking_targets(world, rule, compiled).into_iter();
        Foresight {
            told: sources.into_iter().chain(said).collect(),
            of_namespaces: targets.map(|said| format!("copyrator: {said}")).collect(),
        }
    }
}

const NO_SOURCE: &str = "NoSource";
const FORBIDDEN: &str = "Forbidden";

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

/// What the reconciler has said of the version before, as far as the new spec leaves it as it was: sources
/// that are not there, and rights that our own account lacks. Whether the author lacks some is asked anew.
fn said_before(old: &RawValue, spec: &CopyratorRuleSpec) -> Option<(&'static str, String)> {
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
    let reason = match ready.reason.as_str() {
        NO_SOURCE if is_same_source => NO_SOURCE,
        FORBIDDEN if may && is_same => FORBIDDEN,
        _ => return None,
    };
    Some((reason, ready.message.clone()))
}
