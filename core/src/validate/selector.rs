//! Label selectors by Kubernetes' own rules, compiled once.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::{check_name, invalid};
use crate::{api::Problem, names::NameKind};

/// The label that contains the name of a Namespace.
const NAME_OF_NAMESPACE: &str = "kubernetes.io/metadata.name";

/// A compiled LabelSelector. An empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Compiles a selector, and reports its problems below `field`.
    pub fn compile(field: &str, selector: &LabelSelector, problems: &mut Vec<Problem>) -> Self {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            check_name(&format!("{field}.matchLabels"), key, NameKind::MetadataKey, problems);
            check_value(&format!("{field}.matchLabels[{key}]"), value, problems);
            requirements.push(Requirement { key: key.clone(), operator: Operator::In(vec![value.clone()]) });
        }
        for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
            let at = format!("{field}.matchExpressions[{index}]");
            check_name(&at, &requirement.key, NameKind::MetadataKey, problems);
            for value in requirement.values.iter().flatten() {
                check_value(&at, value, problems);
            }
            match operator(requirement) {
                Ok(operator) => requirements.push(Requirement { key: requirement.key.clone(), operator }),
                Err(message) => problems.push(invalid(&at, message)),
            }
        }
        Self(requirements)
    }

    /// Compiles a selector of namespaces. Also reports a value of `kubernetes.io/metadata.name` that no
    /// namespace can have: the value would silently select no namespace, and so exclude no namespace.
    pub fn of_namespaces(field: &str, selector: &LabelSelector, problems: &mut Vec<Problem>) -> Self {
        let compiled = Self::compile(field, selector, problems);
        let named = compiled.0.iter().filter(|requirement| requirement.key == NAME_OF_NAMESPACE);
        let values = named.flat_map(|requirement| match &requirement.operator {
            Operator::In(values) | Operator::NotIn(values) => &values[..],
            Operator::Exists | Operator::DoesNotExist => &[],
        });
        values.for_each(|value| check_name(field, value, NameKind::Namespace, problems));
        compiled
    }

    /// Whether labels, given as a look-up, meet every requirement.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.is_met(label(&requirement.key)))
    }

    /// Returns the keys of the labels that the selector reads.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|requirement| requirement.key.as_str())
    }

    /// Returns the first requirement that the labels do not meet, as kubectl writes it, and the value of its
    /// label.
    pub fn unmet<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> Option<(String, Option<&'a str>)> {
        let mut values = self.0.iter().map(|requirement| (requirement, label(&requirement.key)));
        let (requirement, value) = values.find(|(requirement, value)| !requirement.is_met(*value))?;
        Some((requirement.to_string(), value))
    }
}

impl Requirement {
    fn is_met(&self, value: Option<&str>) -> bool {
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            // NotIn is true if the label is absent, as in Kubernetes.
            Operator::NotIn(values) => !value.is_some_and(|value| values.iter().any(|one| one == value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.operator {
            Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0]),
            Operator::In(values) => write!(f, "{key} in ({})", values.join(",")),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

fn operator(requirement: &LabelSelectorRequirement) -> Result<Operator, String> {
    let values = requirement.values.clone().unwrap_or_default();
    match (requirement.operator.as_str(), values.is_empty()) {
        ("In", false) => Ok(Operator::In(values)),
        ("NotIn", false) => Ok(Operator::NotIn(values)),
        ("Exists", true) => Ok(Operator::Exists),
        ("DoesNotExist", true) => Ok(Operator::DoesNotExist),
        ("In" | "NotIn", true) => Err(format!("{} needs values", requirement.operator)),
        ("Exists" | "DoesNotExist", false) => Err(format!("{} does not allow values", requirement.operator)),
        (other, _) => Err(format!("operator {other:?} must be In, NotIn, Exists or DoesNotExist")),
    }
}

/// Whether a text is a valid label value: empty, or up to 63 characters of `[A-Za-z0-9_.-]` that begin and
/// end with a letter or digit.
pub(crate) fn is_label_value(value: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    value.len() <= 63
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && edge(value.bytes().next())
        && edge(value.bytes().last())
}

fn check_value(at: &str, value: &str, problems: &mut Vec<Problem>) {
    if !is_label_value(value) {
        problems.push(invalid(
            at,
            format!("{value:?} is not a valid label value (at most 63 of A-Z a-z 0-9 - _ .)"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(json: serde_json::Value) -> (Selector, Vec<Problem>) {
        let mut problems = Vec::new();
        let selector: LabelSelector = serde_json::from_value(json).unwrap();
        (Selector::compile("objectSelector", &selector, &mut problems), problems)
    }

    fn matches(selector: &Selector, labels: &[(&'static str, &'static str)]) -> bool {
        selector.matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    #[test]
    fn requirements_mean_what_kubernetes_means() {
        let (all, _) = compile(serde_json::json!({}));
        assert!(matches(&all, &[]));
        let (some, problems) = compile(serde_json::json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["db"]},
                {"key": "old", "operator": "DoesNotExist"},
            ]
        }));
        assert!(problems.is_empty());
        assert!(matches(&some, &[("app", "web")]));
        assert!(matches(&some, &[("app", "web"), ("tier", "front")]));
        assert!(!matches(&some, &[("app", "web"), ("tier", "db")]));
        assert!(!matches(&some, &[("app", "web"), ("old", "")]));
        assert!(!matches(&some, &[("app", "shop")]));
    }

    /// config-syncer#472: a bad selector stopped the whole process.
    #[test]
    fn a_name_that_no_namespace_can_have_is_refused() {
        let selector = |value: &str| -> LabelSelector {
            let one = serde_json::json!({"key": NAME_OF_NAMESPACE, "operator": "NotIn", "values": [value]});
            serde_json::from_value(serde_json::json!({"matchExpressions": [one]})).unwrap()
        };
        for (value, count) in [("kip", 0), ("Kip", 1), ("kip.dev", 1)] {
            let mut problems = Vec::new();
            Selector::of_namespaces("namespaceSelector", &selector(value), &mut problems);
            assert_eq!(problems.len(), count, "{value}: {problems:?}");
            Selector::compile("objectSelector", &selector(value), &mut problems);
            assert_eq!(problems.len(), count, "a label of other objects");
        }
    }

    #[test]
    fn bad_selectors_are_named_and_harm_nobody() {
        let (_, problems) = compile(serde_json::json!({
            "matchLabels": {"a b": "x", "app": "no spaces"},
            "matchExpressions": [{"key": "k", "operator": "Near"}, {"key": "k", "operator": "In"}]
        }));
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems[2].message.contains("\"Near\" must be In"), "{problems:?}");
    }
}
