//! The cost of a hook for writes that the hook does not cover. For every write in the cluster, before any
//! match condition, the API server looks up the labels of the namespace for a hook with a
//! `namespaceSelector`, and equivalent resources for a hook with `matchPolicy: Equivalent`
//! (docs/decisions/admission-webhooks.md).

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations, ValidatingWebhook};

/// Whether `matchPolicy: Exact` covers the same writes as `Equivalent`: the rules match all versions.
pub(super) fn names_every_version(rules: &[RuleWithOperations]) -> bool {
    rules.iter().all(|rule| rule.api_versions.as_deref().is_some_and(|versions| versions == ["*"]))
}

/// Exempts the namespaces of the `namespaceSelector` by a match condition instead. The API server evaluates
/// the condition only if the hook's rules and its `objectSelector` match. `attribute` is the namespace's name
/// in the request.
pub(super) fn exempt_by_condition(hook: &mut ValidatingWebhook, attribute: &str) {
    let selected = hook.namespace_selector.take().and_then(|selector| selector.match_expressions);
    let names = selected.into_iter().flatten().filter_map(|one| one.values).flatten();
    let quoted: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    let expression = format!("!({attribute} in [{}])", quoted.join(", "));
    let condition = MatchCondition { name: "not-the-system".into(), expression };
    hook.match_conditions.get_or_insert_default().insert(0, condition);
}
