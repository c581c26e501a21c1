//! The hooks of policies: one for all policies with the same `failurePolicy` that apply in the same
//! namespaces. A hook reaches no further than its policies, so one team's policies do not delay other teams.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::admissionregistration::v1::{RuleWithOperations, ValidatingWebhook},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};

use super::{
    match_condition::{HookKind, condition},
    needs::{NAMESPACE_PARTS, NAMESPACES, judged, kept},
};
use crate::{
    api::ConfigPolicySpec,
    validate::{in_namespaces, policy_group, requirements},
};

/// The maximum number of groups with their own hook. With more groups, one hook serves all policies: an entry
/// needs some 4 KiB, and an object has at most 1.5 MiB.
const MOST: usize = 32;
/// Bytes of the conditions of all entries together; [`LONGEST_CONDITION`] limits each. The API server's
/// budget for evaluating a condition suffices for that.
const ALL_CONDITIONS: usize = 256 << 10;
pub(super) const LONGEST_CONDITION: usize = 24 << 10;
/// The longest name of an entry.
const LONGEST_NAME: usize = 253;

/// A policy's name and spec.
pub(super) type NamedPolicy<'p> = (&'p str, &'p ConfigPolicySpec);

/// The entries of the webhook configuration, each made from the entry in `webhook-config/`.
pub(super) fn entries(written: &ValidatingWebhook, policies: &[NamedPolicy<'_>]) -> Vec<ValidatingWebhook> {
    let mut groups: BTreeMap<String, Vec<NamedPolicy<'_>>> = BTreeMap::new();
    for one in policies {
        groups.entry(policy_group(one.1)).or_default().push(*one);
    }
    let mut groups: Vec<(Option<String>, Vec<NamedPolicy<'_>>)> = match groups.len() > MOST {
        true => vec![(None, policies.to_vec())],
        false => groups.into_iter().map(|(group, policies)| (Some(group), policies)).collect(),
    };
    groups.sort_by_key(|(_, policies)| policies.first().map(|(name, _)| *name));
    let room = LONGEST_CONDITION.min(ALL_CONDITIONS / (2 * groups.len().max(1)));
    let both = |(group, policies): &(Option<String>, Vec<NamedPolicy<'_>>)| {
        [HookKind::Content, HookKind::Namespaces]
            .map(|of| entry(written, group.as_deref(), policies, of, room))
    };
    groups.iter().flat_map(both).flatten().collect()
}

fn entry(
    written: &ValidatingWebhook,
    group: Option<&str>,
    policies: &[NamedPolicy<'_>],
    of: HookKind,
    room: usize,
) -> Option<ValidatingWebhook> {
    let here: Vec<NamedPolicy<'_>> =
        policies.iter().filter(|(_, policy)| !of.judged(policy).is_empty()).copied().collect();
    let (_, first) = here.first()?;
    let mut entry = written.clone();
    entry.name = name(&written.name, group, &here, of);
    let specs: Vec<&ConfigPolicySpec> = here.iter().map(|(_, policy)| *policy).collect();
    let all = |which: fn(HookKind, &ConfigPolicySpec) -> BTreeSet<&'static str>| -> BTreeSet<&'static str> {
        specs.iter().flat_map(|policy| which(of, policy)).collect()
    };
    narrow(&mut entry.rules, &all(HookKind::judged));
    with_deletions(&mut entry.rules, &all(HookKind::kept));
    let (namespaces, mut labels) = group.map(|_| selected(first, of)).unwrap_or_default();
    labels.extend(shared_labels(&specs));
    restrict(&mut entry.namespace_selector, namespaces);
    restrict(&mut entry.object_selector, labels);
    entry.match_conditions.get_or_insert_default().extend(condition(&specs, of, room));
    Some(entry)
}

/// Whether the API server calls an entry in all namespaces where a policy applies: the entry belongs to the
/// policy's group, or to all policies.
pub(super) fn applies_for(entry: &ValidatingWebhook, policy: &ConfigPolicySpec, of: HookKind) -> bool {
    let all = entry.namespace_selector.iter().flat_map(|one| one.match_expressions.iter().flatten());
    // The first requirement exempts the system's namespaces, as `webhook-config/` has it.
    let restricted: Vec<_> = all.skip(1).cloned().collect();
    restricted.is_empty() || restricted == selected(policy, of).0
}

/// The requirements on the labels of a namespace and of an object for a policy to apply.
///
/// The API server matches `objectSelector` against the old and the new object, and `namespaceSelector`
/// against the new Namespace only. With a `namespaceSelector` for Namespaces, removing a label from a
/// Namespace would remove the policy's protection.
fn selected(
    policy: &ConfigPolicySpec,
    of: HookKind,
) -> (Vec<LabelSelectorRequirement>, Vec<LabelSelectorRequirement>) {
    let names =
        |one: &LabelSelectorRequirement| one.key == "kubernetes.io/metadata.name" && one.operator == "NotIn";
    let (excluded, labels): (Vec<_>, Vec<_>) = in_namespaces(policy).into_iter().partition(names);
    match of {
        HookKind::Content | HookKind::Defaults => (labels.into_iter().chain(excluded).collect(), Vec::new()),
        HookKind::Namespaces => (excluded, labels),
    }
}

/// The object labels that all of these policies select by: the API server checks them before it evaluates any
/// condition.
fn shared_labels(policies: &[&ConfigPolicySpec]) -> Vec<LabelSelectorRequirement> {
    let mut all = policies.iter().map(|policy| requirements(policy.match_.object_selector.as_ref()));
    let first = all.next().unwrap_or_default();
    if all.all(|other| other == first) { first } else { Vec::new() }
}

/// The name of an entry. The name contains the policy that a write waits for: the only policy of the entry,
/// or the first of several policies. For several policies, the name also contains their number and the group,
/// so it differs from the name of every single policy.
fn name(written: &str, group: Option<&str>, policies: &[NamedPolicy<'_>], of: HookKind) -> String {
    let written = match of {
        HookKind::Content | HookKind::Defaults => written.to_owned(),
        HookKind::Namespaces => written.replacen("policies-", "namespaces-", 1),
    };
    let (Some(group), Some((first, _))) = (group, policies.first()) else { return written };
    let more = match policies.len() - 1 {
        0 => String::new(),
        more => format!(".and-{more}-more.{group}"),
    };
    let whole = format!("{first}{more}.{written}");
    if whole.len() <= LONGEST_NAME { whole } else { format!("{group}.{written}") }
}

fn restrict(selector: &mut Option<LabelSelector>, more: Vec<LabelSelectorRequirement>) {
    if !more.is_empty() {
        selector.get_or_insert_default().match_expressions.get_or_insert_default().extend(more);
    }
}

/// Whether a hook's object selector includes every object that a policy selects.
pub(super) fn selects_for(
    selector: Option<&LabelSelector>,
    policy: &ConfigPolicySpec,
    wanted: Option<&LabelSelector>,
) -> bool {
    let (live, wanted) = (requirements(selector), requirements(wanted));
    let own = requirements(policy.match_.object_selector.as_ref());
    live.iter().all(|one| wanted.contains(one) || own.contains(one))
}

/// The operations and resources that a policy needs the API server to ask about.
pub(super) fn needed(policy: &ConfigPolicySpec) -> impl Iterator<Item = (&'static str, &'static str)> {
    let writes = |resource: &'static str| ["CREATE", "UPDATE"].map(|operation| (operation, resource));
    let namespaces = judged(policy).filter(|resource| *resource == NAMESPACES);
    let parts = namespaces.flat_map(|_| NAMESPACE_PARTS.map(|part| ("UPDATE", part)));
    judged(policy).flat_map(writes).chain(parts).chain(kept(policy).map(|resource| ("DELETE", resource)))
}

/// Keeps only the rules for these resources.
pub(super) fn narrow(rules: &mut Option<Vec<RuleWithOperations>>, wanted: &BTreeSet<&'static str>) {
    let Some(rules) = rules else { return };
    rules.retain(|rule| rule.resources.iter().flatten().any(|resource| wanted.contains(resource.as_str())));
}

/// Adds DELETE for these resources: the API server calls the webhook for a deletion only if a policy needs
/// the call.
fn with_deletions(rules: &mut Option<Vec<RuleWithOperations>>, wanted: &BTreeSet<&'static str>) {
    for rule in rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|resource| wanted.contains(resource.as_str())) {
            rule.operations.get_or_insert_default().push("DELETE".into());
        }
    }
}
