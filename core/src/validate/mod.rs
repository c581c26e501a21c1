//! The only validator, which compiles the specs of our kinds, or reports all their problems. Webhook,
//! reconciler and commands all use the validator.

mod annotation;
mod copy_name;
mod fields;
mod glob;
mod matchable;
mod meant_name;
mod monitor;
mod never_copied;
mod policy;
mod regex_globs;
mod rule;
mod secret_type;
mod selector;
mod selector_text;
mod source_kind;
mod spelling;
mod stage;
mod target;
mod template;
mod template_kinds;
mod window;

pub use annotation::{annotated_monitor, annotated_rule, not_declared};
pub use annotation::{idle_on_jobs, labelling, misspelt_annotations, unknown_on_workload};
pub use copy_name::{CopyName, Gives};
pub use fields::{SpecFault, unknown_fields};
pub use glob::{Globs, NameGlob, can_match, name_fault, name_glob};
pub(crate) use glob::{check_name, is_literal};
pub use monitor::{CompiledMonitor, CompiledWatch, MIN_INTERVAL, QUIET_PERIOD, WorkloadChoice};
pub use policy::{
    Candidate, CandidateError, CompiledPolicy, Finding, Judgement, Position, RequestFacts, RequestKind,
    RequestResource, RequestUser, Violation, Write, in_namespaces, policy_group, printable, requirements,
};
pub use regex_globs::{Anchoring, globs};
pub use rule::{CompiledKeys, CompiledMeta, CompiledRule, CompiledShape};
pub use selector::Selector;
pub use selector_text::parse_selector;
pub(crate) use selector_text::split_outside;
pub(crate) use spelling::did_you_mean;
pub use spelling::meant;
pub use stage::CompiledStage;
pub use target::CompiledTarget;
pub use template::{
    CompiledObject, CompiledTemplate, Instance, Instances, LabelChange, Relabelled, RenderBudget,
    RenderFault, Rendered, Rendering, WrittenField, declared_kind, keeps_data, own_deletion, unserved,
    visible, written_kind,
};
pub use template_kinds::grant_fault;
pub use window::CompiledWindow;

use crate::api::Problem;

/// A problem with a spec: the field, what is wrong, and what to write instead.
pub(crate) fn invalid(field: &str, message: impl std::fmt::Display) -> Problem {
    SpecFault::Invalid.problem(format!("{field}: {message}"))
}
