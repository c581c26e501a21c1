//! The kinds of group `copyrator.dev`, version `v1alpha1`, as users write them.
//!
//! A version only gains fields, without defaults in the schema and without demands on objects that lack them
//! (`tests/manifests/evolution.rs`). [`crate::validate`] checks what a schema cannot express.

#![allow(clippy::duplicated_attributes, reason = "kube's derive takes one printcolumn list for each column")]
#![allow(unreachable_pub, reason = "derives generate private types with the spans of ours")]

mod condition;
mod granted;
mod monitor;
mod policy;
mod resource;
mod resource_type;
mod rule;
mod schema;
mod span;
mod template;

pub use condition::{Problem, WORST_PROBLEMS, set_condition, speaks_of};
pub use granted::GrantedKind;
pub use monitor::{
    ConfigMonitor, ConfigMonitorSpec, ConfigMonitorStatus, Pace, Strategy, StrategyType, WatchTerm, Window,
    WorkloadKind, WorkloadName, Workloads,
};
pub use policy::{
    Action, ConfigPolicy, ConfigPolicySpec, ConfigPolicyStatus, CopiesMatch, DataRule, Defaults,
    ExistingViolation, FailurePolicy, Format, LabelRules, Limits, PolicyKind, PolicyMatch, Validation,
    WarnAbove, WhileInUse,
};
pub use resource_type::ResourceType;
pub use rule::{
    ConflictPolicy, CopyShape, CopyratorRule, CopyratorRuleSpec, CopyratorRuleStatus, DataKind,
    DeletionPolicy, KeyShape, Kind, MetaShape, Prefer, SourceSpec, TargetTerm,
};
pub use span::{Span, SpanError};
pub use template::{
    CopyratorTemplate, CopyratorTemplateSpec, CopyratorTemplateStatus, ForEach, InstanceSpec, Recreate,
    TemplateObject,
};

/// The API group of every kind of ours.
pub const GROUP: &str = "copyrator.dev";
/// The one version that is served and stored.
pub const VERSION: &str = "v1alpha1";
