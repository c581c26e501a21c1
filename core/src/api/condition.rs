//! Conditions and problems, as every kind's status shows them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many problems a status lists at most, each with the number of objects that have it; `problemCount` counts all objects.
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
    /// The other objects with this very problem, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Box<OtherObjects>>,
}

/// Objects that have the problem of another object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct OtherObjects {
    /// Their number.
    pub count: i64,
    /// The first of them, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// How many other objects a problem names.
const MOST_OTHERS: usize = WORST_PROBLEMS - 1;
/// How many objects a message names.
const MOST_SAID: usize = 3;

impl Problem {
    /// Adds the problem to a list; if the list has an equal one of another object, counts the object there.
    pub fn join(self, problems: &mut Vec<Self>) {
        let is_equal = |known: &&mut Self| (&known.reason, &known.message) == (&self.reason, &self.message);
        let Some(known) = problems.iter_mut().find(is_equal) else { return problems.push(self) };
        let others = known.others.get_or_insert_default();
        others.count += 1;
        if others.names.len() < MOST_OTHERS {
            others.names.push(format!("{}/{}", self.namespace, self.name));
        }
    }

    /// Whether the problem names this object.
    pub fn is_about(&self, namespace: &str, name: &str) -> bool {
        let is_it = |other: &String| other.split_once('/') == Some((namespace, name));
        (self.namespace == namespace && self.name == name) || self.other_names().any(is_it)
    }

    /// The objects with this problem, such as `shop/registry, web/registry, docs/registry and 21 more`; empty for a problem of a spec.
    pub fn place(&self) -> String {
        let first = [self.namespace.as_str(), self.name.as_str()].join("/");
        let named = std::iter::once(first.trim_matches('/')).chain(self.other_names().map(String::as_str));
        let named: Vec<&str> = named.take(MOST_SAID).collect();
        let others = self.others.as_ref().map_or(0, |others| usize::try_from(others.count).unwrap_or(0));
        match (others + 1).saturating_sub(named.len()) {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    }

    fn other_names(&self) -> impl Iterator<Item = &String> {
        self.others.iter().flat_map(|others| &others.names)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(namespace: &str, message: &str) -> Problem {
        Problem {
            namespace: namespace.into(),
            name: "registry".into(),
            reason: "Refused".into(),
            message: message.into(),
            ..Problem::default()
        }
    }

    #[test]
    fn objects_with_one_problem_are_one_entry_with_a_count() {
        let mut problems = Vec::new();
        problem("other", "quota").join(&mut problems);
        (1..=24).for_each(|number| problem(&format!("app-{number}"), "label").join(&mut problems));
        let [quota, label] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!((quota.others.as_ref(), quota.place().as_str()), (None, "other/registry"));
        let others = label.others.as_ref().unwrap();
        assert_eq!((others.count, others.names.len()), (23, MOST_OTHERS));
        assert_eq!(label.place(), "app-1/registry, app-2/registry, app-3/registry and 21 more");
        assert!(label.is_about("app-2", "registry") && !label.is_about("app-24", "registry"));
        let of_spec = Problem { message: "spec.targets: is empty".into(), ..Problem::default() };
        assert_eq!(of_spec.place(), "");
    }
}
