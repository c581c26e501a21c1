//! Warns the author of a rule, a template or annotations about objects that the write deletes and creates.
//! Also warns if a rule will make no copies for now, because no namespace matches its targets or its sources
//! do not exist. The write is accepted anyway: namespaces and sources may appear later.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::change::{Counted, Told, created_by_source, of_rule, of_template};
use crate::{
    api::{CopyratorRuleSpec, CopyratorRuleStatus, CopyratorTemplateSpec, CopyratorTemplateStatus},
    model::{World, WriteFault},
    names::Declarer,
    plan::{
        Reason,
        copy::{
            ProblemReason,
            absent::{lacking_sources, lacking_targets, sees_sources},
            granted::not_granted,
        },
    },
    validate::{CompiledRule, CompiledTemplate},
};

/// A spec that a write is about to store, and the stored spec.
#[derive(Debug)]
pub(super) enum Written {
    Rule(Box<WrittenRule>),
    Template(Box<WrittenTemplate>),
    /// The rule that annotations of a source declare, and the rule that they declared before.
    Annotations {
        name: Declarer,
        new: Box<CompiledRule>,
        old: Option<Box<CompiledRule>>,
    },
}

#[derive(Debug)]
pub(super) struct WrittenRule {
    name: Declarer,
    new: CompiledRule,
    old: Option<(CompiledRule, Option<Counted>)>,
    /// The reason and message from the status of the rule's previous version, if they hold for this version,
    /// too.
    said: Option<(Reason, String)>,
}

#[derive(Debug)]
pub(super) struct WrittenTemplate {
    name: Declarer,
    new: CompiledTemplate,
    old: Option<(CompiledTemplate, Option<Counted>)>,
}

/// Warnings for the author of a spec. The webhook gives them only after the API server has confirmed all
/// rights that the spec needs.
#[derive(Debug, Default)]
pub struct Foresight {
    /// Warnings for any author.
    pub told: Vec<String>,
    /// Warnings only for an author who may list namespaces: they reveal which namespaces exist.
    pub of_namespaces: Vec<String>,
    /// Warnings for other authors, instead of `of_namespaces`.
    pub instead: Vec<String>,
}

impl Written {
    pub(super) fn rule(
        name: Declarer,
        spec: &CopyratorRuleSpec,
        new: CompiledRule,
        old: Option<&RawValue>,
        compile: impl Fn(&CopyratorRuleSpec) -> Option<CompiledRule>,
    ) -> Self {
        let before = old.and_then(Before::<CopyratorRuleSpec, CopyratorRuleStatus>::read);
        let said = before.as_ref().and_then(|before| said_before(before, spec));
        let old = before.and_then(|before| Some((compile(&before.spec)?, before.counted())));
        Self::Rule(Box::new(WrittenRule { name, new, old, said }))
    }

    pub(super) fn template(name: Declarer, new: CompiledTemplate, old: Option<&RawValue>) -> Self {
        let before = old.and_then(Before::<CopyratorTemplateSpec, CopyratorTemplateStatus>::read);
        let old = before.and_then(|before| {
            let compiled = CompiledTemplate::compile(&before.spec).ok()?;
            let Before { metadata, spec, status } = before;
            Some((compiled, Before { metadata, spec, status: CopyratorRuleStatus::from(status) }.counted()))
        });
        Self::Template(Box::new(WrittenTemplate { name, new, old }))
    }

    /// Returns the warnings that follow from the model of the cluster; none until every store is complete.
    pub(super) fn look(&self, world: &World) -> Foresight {
        if !world.is_listed() || world.namespace_scope().is_some() {
            return Foresight::default();
        }
        match self {
            Self::Rule(written) => written.look(world),
            Self::Template(written) => {
                let WrittenTemplate { name, new, old } = &**written;
                of_template(world, name, new, old.as_ref().map(|(old, counted)| (old, *counted))).into()
            }
            Self::Annotations { name, new, old } => {
                // The warnings hook reports deletions, since the API server calls it for the annotation's
                // removal, too.
                let created = created_by_source(world, name, new, old.as_deref());
                Foresight { of_namespaces: created.into_iter().collect(), ..Foresight::default() }
            }
        }
    }
}

impl From<Told> for Foresight {
    fn from(told: Told) -> Self {
        let of_namespaces = told.of_namespaces.into_iter().chain(told.created).collect();
        Self { told: told.always, of_namespaces, instead: told.instead }
    }
}

impl WrittenRule {
    fn look(&self, world: &World) -> Foresight {
        let Self { name, new, old, said } = self;
        // A process that watches the sources does not need the stored status.
        let said = said
            .as_ref()
            .filter(|(reason, _)| *reason != Reason::NoSource || !sees_sources(world, name, new));
        let said = said.map(|(reason, message)| {
            format!("copyrator: the rule's status says {}: {message}", reason.as_str())
        });
        if !world.settings().copies(new.kind) {
            let told = [format!("copyrator: {}", not_granted(new.kind))];
            return Foresight { told: told.into_iter().chain(said).collect(), ..Foresight::default() };
        }
        let sources = lacking_sources(world, name, new).map(|said| format!("copyrator: {said}"));
        let targets = lacking_targets(world, name, new).into_iter().map(|said| format!("copyrator: {said}"));
        let change = of_rule(world, name, new, old.as_ref().map(|(old, counted)| (old, *counted)));
        let Foresight { told, of_namespaces, instead } = change.into();
        Foresight {
            told: sources.into_iter().chain(said).chain(told).collect(),
            of_namespaces: targets.chain(of_namespaces).collect(),
            instead,
        }
    }
}

/// The stored version of an object.
#[derive(Deserialize)]
#[serde(bound = "Spec: DeserializeOwned, Status: DeserializeOwned + Default")]
struct Before<Spec, Status> {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

impl<Spec: DeserializeOwned, Status: DeserializeOwned + Default> Before<Spec, Status> {
    fn read(old: &RawValue) -> Option<Self> {
        serde_json::from_str(old.get()).ok()
    }
}

impl<Spec> Before<Spec, CopyratorRuleStatus> {
    /// Returns the numbers in the status, if the status belongs to this spec.
    fn counted(&self) -> Option<Counted> {
        let speaks = self.status.observed_generation == Some(self.metadata.generation);
        speaks.then(|| Counted::from(&self.status))
    }
}

#[derive(Deserialize)]
struct Metadata {
    generation: i64,
}

/// Returns the reason and message of the stored rule's `Ready` condition, if they hold for the new spec, too:
/// missing sources, or rights that our own account lacks. The message does not cover the author's rights,
/// which the webhook checks again.
fn said_before(
    old: &Before<CopyratorRuleSpec, CopyratorRuleStatus>,
    spec: &CopyratorRuleSpec,
) -> Option<(Reason, String)> {
    let Before { metadata, spec: before, status } = old;
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
