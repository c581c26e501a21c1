//! Conditions and problems, as every kind's status shows them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many problems a status lists at most; `problemCount` counts all of them.
pub const WORST_PROBLEMS: usize = 20;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Namespace of the object concerned; empty where the problem is the object's own spec.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object concerned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// One word, such as `Conflict` or `Forbidden`.
    pub reason: String,
    /// What is wrong and what to do about it. Never a Secret's value.
    pub message: String,
}

/// Whether a condition was set for this generation.
pub fn speaks_of(conditions: &[Condition], type_: &str, generation: i64) -> bool {
    conditions.iter().any(|one| one.type_ == type_ && one.observed_generation == Some(generation))
}

/// Sets one condition, moving its transition time only when its status changes
/// (the API convention for `lastTransitionTime`). `None` removes the condition.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    wanted: Option<(bool, &str, String)>,
    generation: i64,
    now: &Time,
) {
    let Some((status, reason, message)) = wanted else {
        conditions.retain(|c| c.type_ != type_);
        return;
    };
    let status = if status { "True" } else { "False" };
    let before = conditions.iter().find(|c| c.type_ == type_ && c.status == status);
    let last_transition_time = before.map_or_else(|| now.clone(), |c| c.last_transition_time.clone());
    let condition = Condition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        message,
        observed_generation: Some(generation),
        last_transition_time,
    };
    match conditions.iter_mut().find(|c| c.type_ == type_) {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}
