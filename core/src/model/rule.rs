//! Facts about our custom resources: the written object, the compiled spec, and the rights of the object's
//! identity.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::{
    api::{
        ConfigMonitorSpec, ConfigMonitorStatus, ConfigPolicySpec, ConfigPolicyStatus, CopyratorRuleSpec,
        CopyratorRuleStatus, CopyratorTemplateSpec, Problem,
    },
    validate::{CompiledMonitor, CompiledPolicy, CompiledRule, CompiledTemplate},
};

/// An object of one of our kinds, with its compiled spec.
#[derive(Clone, Debug)]
pub struct Declared<Spec, Compiled, Status> {
    /// `metadata.uid`: an object that is deleted and created again has a new UID.
    pub uid: Box<str>,
    /// The resource version of the object as last seen.
    pub resource_version: Box<str>,
    /// The object's generation, which changes with the spec.
    pub generation: i64,
    /// When the rule was created; the older of two rules wins a free slot.
    pub created: Timestamp,
    /// The rule's annotations under `copyrator.dev/`, such as the author annotations and `restart-now`.
    pub annotations: BTreeMap<String, String>,
    /// The spec as the user wrote it.
    pub spec: Spec,
    /// The compiled spec, or all problems of the spec. Copyrator does not act on an invalid object.
    pub compiled: Result<Arc<Compiled>, Vec<Problem>>,
    /// The status that was last seen.
    pub status: Option<Status>,
}

impl<Spec, Compiled, Status> Declared<Spec, Compiled, Status> {
    /// The version of the spec.
    pub fn version(&self) -> SpecVersion<'_> {
        SpecVersion { uid: &self.uid, generation: self.generation }
    }
}

/// The version of an object's spec. An object that is deleted and created again has a new UID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecVersion<'v> {
    /// `metadata.uid` of the object.
    pub uid: &'v str,
    /// `metadata.generation` of the object.
    pub generation: i64,
}

/// Facts about a [`crate::api::CopyratorRule`].
pub type RuleFacts = Declared<CopyratorRuleSpec, CompiledRule, CopyratorRuleStatus>;
/// Facts about a [`crate::api::CopyratorTemplate`]; its status has the type of a rule's status.
pub type TemplateFacts = Declared<CopyratorTemplateSpec, CompiledTemplate, CopyratorRuleStatus>;
/// Facts about a [`crate::api::ConfigMonitor`].
pub type MonitorFacts = Declared<ConfigMonitorSpec, CompiledMonitor, ConfigMonitorStatus>;
/// Facts about a [`crate::api::ConfigPolicy`].
pub type PolicyFacts = Declared<ConfigPolicySpec, CompiledPolicy, ConfigPolicyStatus>;

/// A rule or template that declares objects.
#[derive(Clone, Copy, Debug)]
pub enum Declaration<'w> {
    /// A rule, written or declared by annotations.
    Rule(&'w RuleFacts),
    /// A template.
    Template(&'w TemplateFacts),
}

impl<'w> Declaration<'w> {
    /// The version of the object's spec.
    pub fn version(self) -> SpecVersion<'w> {
        match self {
            Self::Rule(facts) => facts.version(),
            Self::Template(facts) => facts.version(),
        }
    }

    /// Whether the validator understood the spec.
    pub fn is_valid(self) -> bool {
        match self {
            Self::Rule(facts) => facts.compiled.is_ok(),
            Self::Template(facts) => facts.compiled.is_ok(),
        }
    }

    /// The ServiceAccount that the rule acts with; `None` for the rule's author.
    pub fn account(self) -> Option<&'w str> {
        match self {
            Self::Rule(facts) => facts.spec.service_account_name.as_deref(),
            Self::Template(facts) => facts.spec.service_account_name.as_deref(),
        }
    }

    /// The rule's annotations under `copyrator.dev/`.
    pub fn annotations(self) -> &'w BTreeMap<String, String> {
        match self {
            Self::Rule(facts) => &facts.annotations,
            Self::Template(facts) => &facts.annotations,
        }
    }

    /// The rule's status, as last seen.
    pub fn status(self) -> Option<&'w CopyratorRuleStatus> {
        match self {
            Self::Rule(facts) => facts.status.as_ref(),
            Self::Template(facts) => facts.status.as_ref(),
        }
    }
}

/// The CustomResourceDefinition of rules, or of templates, as read right before its objects were last listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// `metadata.uid` of the CustomResourceDefinition, which changes when the definition is created again.
    pub uid: Box<str>,
    /// When the definition was created (1 s resolution). Rules that are older than the definition were
    /// deleted with the previous definition.
    pub created: Timestamp,
}

/// Why the identity of a rule or monitor lacks declared rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of the refusal.
    pub reason: RefusalReason,
    /// Which right is missing, and how to give it.
    pub message: String,
}

/// The reason of a condition `Authorized` that is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The object does not determine whose rights it acts with.
    IdentityRequired,
    /// The API server answered that the identity lacks a right.
    Forbidden,
    /// The API server was not asked: checking all rights would take too many questions.
    TooManyQuestions,
}

impl RefusalReason {
    /// All reasons, each once.
    const ALL: [Self; 3] = [Self::IdentityRequired, Self::Forbidden, Self::TooManyQuestions];

    /// The word in conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IdentityRequired => "IdentityRequired",
            Self::Forbidden => "Forbidden",
            Self::TooManyQuestions => "TooManyQuestions",
        }
    }

    /// The reason that a condition names; a word that only a newer version knows is read as
    /// [`Self::Forbidden`].
    pub fn read(word: &str) -> Self {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word).unwrap_or(Self::Forbidden)
    }
}

/// The API server's answer to whether the identity of a rule or monitor has all declared rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// UID of the object at the time of the question.
    pub uid: Box<str>,
    /// Generation of the object at the time of the question.
    pub generation: i64,
    /// The identity: `user alice`, `serviceaccount shop/copier`.
    pub identity: String,
    /// Whether the identity has all rights that the spec needs.
    pub answer: Result<(), Refusal>,
    /// When the API server was asked. Copyrator relies on a right that can be withdrawn for 30 s at most.
    pub asked: Timestamp,
    /// How many questions were asked.
    pub questions: usize,
    /// How many times in a row the answer was no.
    pub refusals: u32,
}
