//! The rules of a ClusterPolicy that generate objects; values of Secrets are dropped here.

use serde_json::Value;

/// A rule of a ClusterPolicy that generates objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateRule {
    /// The name of the policy.
    pub(super) policy: String,
    /// The name of the rule.
    pub(super) name: String,
    /// Whether namespaces that are there when the policy comes get the object, too.
    pub(super) existing: bool,
    /// The rule: match, exclude, preconditions, generate.
    pub(super) body: Value,
}

impl GenerateRule {
    /// All of a policy.
    pub(in super::super) fn all(document: &Value, policy: &str) -> Vec<Self> {
        let spec = &document["spec"];
        let rules = spec["rules"].as_array().into_iter().flatten();
        let generating = rules.filter(|rule| rule["generate"].is_object());
        let read = |rule: &Value| {
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
                body,
            }
        };
        generating.map(read).collect()
    }
}
