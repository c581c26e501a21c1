//! The rules of a ClusterPolicy that generate objects; values of Secrets are dropped here.

use serde_json::Value;

use crate::import::finding::{Finding, none};

/// A rule of a ClusterPolicy that generates objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateRule {
    /// The name of the policy.
    pub(super) policy: String,
    /// The name of the rule.
    pub(super) name: String,
    /// Whether namespaces that are there when the policy comes get the object, too.
    pub(super) existing: bool,
    /// What its policy says that keeps the rule from being imported.
    pub(super) lost: Vec<Finding>,
    /// The rule: match, exclude, preconditions, generate.
    pub(super) body: Value,
}

impl GenerateRule {
    /// All of a policy.
    pub(in super::super) fn all(document: &Value, policy: &str) -> Vec<Self> {
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
            Self {
                policy: policy.to_owned(),
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
}

/// What a policy says of all its rules that has no equivalent.
fn lost(spec: &Value, generating: usize) -> Vec<Finding> {
    let mut lost = Vec::new();
    if spec["applyRules"] == "One" && generating > 1 {
        lost.push(none(
            "spec.applyRules",
            "is One, so that a namespace gets the object of the first rule that matches it, and nothing is made: make a policy of each \
             rule, and exclude what the earlier ones match",
        ));
    }
    let conditions = &spec["webhookConfiguration"]["matchConditions"];
    if !conditions.is_null() && conditions.as_array().is_none_or(|all| !all.is_empty()) {
        lost.push(none(
            "spec.webhookConfiguration.matchConditions",
            "are not read, so nothing is made: they may choose fewer namespaces",
        ));
    }
    lost
}

/// Rules that a PolicyException names.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyException {
    /// The namespace and name of the PolicyException.
    by: String,
    /// The name of the policy.
    policy: String,
    /// Names of its rules, and globs.
    rules: Vec<String>,
}

impl PolicyException {
    /// All that a document names.
    pub(in super::super) fn all(document: &Value, namespace: &str, name: &str) -> Vec<Self> {
        let read = |one: &Value| Self {
            by: format!("{namespace}/{name}"),
            policy: one["policyName"].as_str().unwrap_or_default().to_owned(),
            rules: texts(&one["ruleNames"]),
        };
        document["spec"]["exceptions"].as_array().into_iter().flatten().map(read).collect()
    }

    /// What it takes from a rule, if it names it. A glob is taken to mean every name.
    pub(super) fn lost(&self, rule: &GenerateRule) -> Option<Finding> {
        let means = |written: &String, name: &str| written == name || written.contains(['*', '?']);
        let named =
            means(&self.policy, &rule.policy) && self.rules.iter().any(|written| means(written, &rule.name));
        named.then(|| {
            let told = format!(
                "{} makes an exception of this rule, so nothing is made: leave out the same namespaces by exclude, and import \
                 again without it",
                self.by
            );
            none("PolicyException", told)
        })
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}
