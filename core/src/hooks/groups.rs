//! The hooks of policies: one for all of a `failurePolicy` that apply in the same namespaces, however many
//! they are. Each reaches no further than its policies, so that for one team's nobody else waits, and nobody
//! else pays.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhook,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};

use super::{
    needs::{judged, kept},
    render::{narrow, with_deletions},
    spoken::{Of, condition},
};
use crate::{
    api::ConfigPolicySpec,
    validate::{in_namespaces, policy_group, requirements},
};

/// Beyond so many places one hook serves all policies, wherever they apply: an entry takes some 4 KiB, and an
/// object at most 1.5 MiB.
const MOST: usize = 32;
/// Bytes of the conditions of all entries together, and of one: the API server's budget for evaluating one is
/// enough for that.
const ALL_CONDITIONS: usize = 256 << 10;
pub(super) const LONGEST_CONDITION: usize = 24 << 10;
/// The longest name of an entry.
const LONGEST_NAME: usize = 253;

/// A policy, by name.
pub(super) type Named<'p> = (&'p str, &'p ConfigPolicySpec);

/// The entries, each made from the one that is written in `webhook-config/`.
pub(super) fn entries(written: &ValidatingWebhook, policies: &[Named<'_>]) -> Vec<ValidatingWebhook> {
    let mut groups: BTreeMap<String, Vec<Named<'_>>> = BTreeMap::new();
    for one in policies {
        groups.entry(policy_group(one.1)).or_default().push(*one);
    }
    let mut groups: Vec<(Option<String>, Vec<Named<'_>>)> = match groups.len() > MOST {
        true => vec![(None, policies.to_vec())],
        false => groups.into_iter().map(|(group, policies)| (Some(group), policies)).collect(),
    };
    groups.sort_by_key(|(_, policies)| policies.first().map(|(name, _)| *name));
    let room = LONGEST_CONDITION.min(ALL_CONDITIONS / (2 * groups.len().max(1)));
    let both = |(group, policies): &(Option<String>, Vec<Named<'_>>)| {
        [Of::Content, Of::Namespaces].map(|of| entry(written, group.as_deref(), policies, of, room))
    };
    groups.iter().flat_map(both).flatten().collect()
}

fn entry(
    written: &ValidatingWebhook,
    group: Option<&str>,
    policies: &[Named<'_>],
    of: Of,
    room: usize,
) -> Option<ValidatingWebhook> {
    let here: Vec<Named<'_>> =
        policies.iter().filter(|(_, policy)| !of.judged(policy).is_empty()).copied().collect();
    let (_, first) = here.first()?;
    let mut entry = written.clone();
    entry.name = name(&written.name, group, &here, of);
    let specs: Vec<&ConfigPolicySpec> = here.iter().map(|(_, policy)| *policy).collect();
    let all = |which: fn(Of, &ConfigPolicySpec) -> BTreeSet<&'static str>| -> BTreeSet<&'static str> {
        specs.iter().flat_map(|policy| which(of, policy)).collect()
    };
    narrow(&mut entry.rules, &all(Of::judged));
    with_deletions(&mut entry.rules, &all(Of::kept));
    let (namespaces, mut labels) = group.map(|_| selected(first, of)).unwrap_or_default();
    labels.extend(shared_labels(&specs));
    restrict(&mut entry.namespace_selector, namespaces);
    restrict(&mut entry.object_selector, labels);
    entry.match_conditions.get_or_insert_default().extend(condition(&specs, of, room));
    Some(entry)
}

/// Whether an entry is asked wherever a policy applies: it is the one of the policy's group, or of all
/// policies.
pub(super) fn applies_for(entry: &ValidatingWebhook, policy: &ConfigPolicySpec, of: Of) -> bool {
    let all = entry.namespace_selector.iter().flat_map(|one| one.match_expressions.iter().flatten());
    // The first exempts the system's namespaces, as it is written in `webhook-config/`.
    let restricted: Vec<_> = all.skip(1).cloned().collect();
    restricted.is_empty() || restricted == selected(policy, of).0
}

/// What must hold of a namespace's labels, and of an object's, for a policy to apply.
///
/// The API server looks at an object as it is and as it would be for `objectSelector` only: by
/// `namespaceSelector`, to take a label off a Namespace would be to take the policy off.
fn selected(
    policy: &ConfigPolicySpec,
    of: Of,
) -> (Vec<LabelSelectorRequirement>, Vec<LabelSelectorRequirement>) {
    let names =
        |one: &LabelSelectorRequirement| one.key == "kubernetes.io/metadata.name" && one.operator == "NotIn";
    let (excluded, labels): (Vec<_>, Vec<_>) = in_namespaces(policy).into_iter().partition(names);
    match of {
        Of::Content | Of::Defaults => (labels.into_iter().chain(excluded).collect(), Vec::new()),
        Of::Namespaces => (excluded, labels),
    }
}

/// The labels of objects that all of these policies select by: the API server looks at these before it
/// evaluates anything.
fn shared_labels(policies: &[&ConfigPolicySpec]) -> Vec<LabelSelectorRequirement> {
    let mut all = policies.iter().map(|policy| requirements(policy.match_.object_selector.as_ref()));
    let first = all.next().unwrap_or_default();
    if all.all(|other| other == first) { first } else { Vec::new() }
}

/// Whom a write waits for: the one policy, or the first of several. Names of several have what stands for all
/// of them, too, which makes them unlike those of any policy.
fn name(written: &str, group: Option<&str>, policies: &[Named<'_>], of: Of) -> String {
    let written = match of {
        Of::Content | Of::Defaults => written.to_owned(),
        Of::Namespaces => written.replacen("policies-", "namespaces-", 1),
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

/// Whether labels that a hook selects objects by leave out nothing that a policy speaks of.
pub(super) fn selects_for(
    selector: Option<&LabelSelector>,
    policy: &ConfigPolicySpec,
    wanted: Option<&LabelSelector>,
) -> bool {
    let (live, wanted) = (requirements(selector), requirements(wanted));
    let own = requirements(policy.match_.object_selector.as_ref());
    live.iter().all(|one| wanted.contains(one) || own.contains(one))
}

/// What a policy needs asked, as operation and resource.
pub(super) fn needed(policy: &ConfigPolicySpec) -> impl Iterator<Item = (&'static str, &'static str)> {
    let writes = |resource: &'static str| ["CREATE", "UPDATE"].map(|operation| (operation, resource));
    judged(policy).flat_map(writes).chain(kept(policy).map(|resource| ("DELETE", resource)))
}
