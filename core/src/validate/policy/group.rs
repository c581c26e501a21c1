//! Groups of policies that share a hook: all policies of a group have the same `failurePolicy` and the same
//! namespaces.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::{api::ConfigPolicySpec, digest::hex, validate::is_literal};

/// Returns sixteen hexadecimal digits, the same for all policies that share a hook: a digest of the
/// `failurePolicy`, and of the namespaces as far as the API server can select them.
pub fn policy_group(policy: &ConfigPolicySpec) -> String {
    let said = format!("{:?} {:?}", policy.failure_policy, in_namespaces(policy));
    let digest = ring::digest::digest(&ring::digest::SHA256, said.as_bytes());
    hex(&digest.as_ref()[..8])
}

/// Returns the requirements on a namespace's labels: the policy's selector, and `NotIn` for the excluded
/// names. The API server cannot exclude by glob.
pub fn in_namespaces(policy: &ConfigPolicySpec) -> Vec<LabelSelectorRequirement> {
    let mut names: Vec<String> =
        policy.match_.exclude_namespaces.iter().filter(|name| is_literal(name)).cloned().collect();
    names.sort();
    names.dedup();
    let excluded = LabelSelectorRequirement {
        key: "kubernetes.io/metadata.name".into(),
        operator: "NotIn".into(),
        values: Some(names.clone()),
    };
    let mut all = requirements(policy.match_.namespace_selector.as_ref());
    all.extend((!names.is_empty()).then_some(excluded));
    all
}

/// Returns a selector as a sorted list of requirements. Further requirements can be added to a list, but not
/// to a map (two maps could require two values of one label).
pub fn requirements(selector: Option<&LabelSelector>) -> Vec<LabelSelectorRequirement> {
    let labels = selector.into_iter().flat_map(|selector| selector.match_labels.iter().flatten());
    let labels = labels.map(|(key, value)| LabelSelectorRequirement {
        key: key.clone(),
        operator: "In".into(),
        values: Some(vec![value.clone()]),
    });
    let expressions = selector.into_iter().flat_map(|selector| selector.match_expressions.iter().flatten());
    let mut all: Vec<LabelSelectorRequirement> = labels.chain(expressions.cloned()).collect();
    for values in all.iter_mut().filter_map(|one| one.values.as_mut()) {
        values.sort();
        values.dedup();
    }
    all.sort_by(|one, other| {
        (&one.key, &one.operator, &one.values).cmp(&(&other.key, &other.operator, &other.values))
    });
    all.dedup();
    all
}
