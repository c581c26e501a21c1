//! Parser of the generate rules in a ClusterPolicy or Policy. The parser drops the values of Secrets.

use serde_json::Value;

use crate::{
    api::DeletionPolicy,
    finding::{Finding, none},
};

/// A rule of a ClusterPolicy or Policy that generates objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateRule {
    /// The name of the policy.
    pub(super) policy: String,
    /// The namespace of a Policy, which applies only to objects of its own namespace; `None` for a
    /// ClusterPolicy.
    pub(super) namespace: Option<String>,
    /// The name of the rule.
    pub(super) name: String,
    /// Whether resources that are older than the policy trigger the rule, too.
    pub(super) existing: bool,
    /// Findings about settings of the policy that keep the rule from being imported.
    pub(super) lost: Vec<Finding>,
    /// The fields `match`, `exclude`, `preconditions` and `generate` of the rule.
    pub(super) body: Value,
}

impl GenerateRule {
    /// Reads all generate rules of a policy. `namespace` is the namespace of a Policy.
    pub(in super::super) fn all(document: &Value, namespace: Option<&str>, policy: &str) -> Vec<Self> {
        let spec = &document["spec"];
        let rules = spec["rules"].as_array().into_iter().flatten();
        let generating: Vec<&Value> = rules.filter(|rule| rule["generate"].is_object()).collect();
        let lost = lost(spec, generating.len());
        let read = |rule: &&Value| {
            let generate = &rule["generate"];
            let yes = |value: &Value| value == true;
            let mut body = Value::Object(serde_json::Map::new());
            for field in ["match", "exclude", "preconditions", "celPreconditions", "generate"] {
                if let Some(value) = rule.get(field) {
                    body[field] = value.clone();
                }
            }
            if [&generate["kind"], &generate["data"]["kind"]].iter().any(|kind| **kind == "Secret") {
                body["generate"]["data"] = Value::Null;
            }
            // `foreach` is not translated, and may contain Secrets.
            if let Some(each) = body["generate"].get_mut("foreach") {
                *each = Value::Null;
            }
            Self {
                policy: policy.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: rule["name"].as_str().unwrap_or_default().to_owned(),
                existing: yes(&generate["generateExisting"])
                    || yes(&spec["generateExisting"])
                    || yes(&spec["generateExistingOnPolicyUpdate"]),
                lost: lost.clone(),
                body,
            }
        };
        generating.iter().map(read).collect()
    }

    /// The kind of the rule's policy.
    pub(super) fn policy_kind(&self) -> &'static str {
        if self.namespace.is_some() { "Policy" } else { "ClusterPolicy" }
    }

    /// The namespace of the rule's policy; empty for a ClusterPolicy.
    pub(super) fn home(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the names of policy and rule, as part of the name of an imported object.
    pub(super) fn stem(&self) -> String {
        let letter = |one: char| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '-' };
        let name = self.name.chars().map(letter).collect::<String>();
        format!("{}-{}", self.policy, name).trim_matches('-').to_owned()
    }

    /// Returns the deletion policy for the rule's objects. `is_owned` is whether the trigger owns the
    /// objects.
    pub(super) fn kept(&self, is_owned: bool) -> DeletionPolicy {
        let generate = &self.body["generate"];
        let is_synchronized = generate["synchronize"] == true;
        match (is_synchronized, generate["orphanDownstreamOnPolicyDelete"] == true) {
            (true, false) => DeletionPolicy::Delete,
            (false, _) if is_owned => DeletionPolicy::Delete,
            _ => DeletionPolicy::Retain,
        }
    }
}

/// Returns findings about settings of a policy that affect all its rules and have no equivalent.
fn lost(spec: &Value, generating: usize) -> Vec<Finding> {
    let mut lost = Vec::new();
    if spec["applyRules"] == "One" && generating > 1 {
        lost.push(none(
            "spec.applyRules",
            "is One: Kyverno applies only the first matching rule, which Copyrator cannot do, so import skips this policy. Write one \
             policy for each rule, and exclude in each the resources that the earlier rules match",
        ));
    }
    let conditions = &spec["webhookConfiguration"]["matchConditions"];
    if !conditions.is_null() && conditions.as_array().is_none_or(|all| !all.is_empty()) {
        lost.push(none(
            "spec.webhookConfiguration.matchConditions",
            "are not supported by import, so import skips this policy: without them, the rule could select more objects",
        ));
    }
    lost
}

/// Rules of one policy that a PolicyException names.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyException {
    /// The namespace and name of the PolicyException.
    by: String,
    /// The name of the policy.
    policy: String,
    /// Names of the policy's rules, and globs.
    rules: Vec<String>,
}

impl PolicyException {
    /// Reads all exceptions of a PolicyException.
    pub(in super::super) fn all(document: &Value, namespace: &str, name: &str) -> Vec<Self> {
        let read = |one: &Value| Self {
            by: format!("{namespace}/{name}"),
            policy: one["policyName"].as_str().unwrap_or_default().to_owned(),
            rules: texts(&one["ruleNames"]),
        };
        document["spec"]["exceptions"].as_array().into_iter().flatten().map(read).collect()
    }

    /// Returns a finding if the exception names the rule. A glob counts as if it matched every name.
    pub(super) fn lost(&self, rule: &GenerateRule) -> Option<Finding> {
        let means = |written: &String, name: &str| written == name || written.contains(['*', '?']);
        // A PolicyException names a Policy with its namespace.
        let policy = match &rule.namespace {
            Some(namespace) => format!("{namespace}/{}", rule.policy),
            None => rule.policy.clone(),
        };
        let named =
            means(&self.policy, &policy) && self.rules.iter().any(|written| means(written, &rule.name));
        named.then(|| {
            let told = format!(
                "PolicyException {} exempts resources from this rule, so import skips the rule: add these resources to exclude, and \
                 import again without the exception",
                self.by
            );
            none("PolicyException", told)
        })
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}
