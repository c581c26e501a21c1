//! The resources that the policies in the cluster need to see, by hook.

use crate::api::{ConfigPolicySpec, Defaults, FailurePolicy, PolicyKind, WhileInUse};

/// The resources that the policies in the cluster need to see, by hook. The API server does not call the
/// webhook for other resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Needs<'p> {
    /// Policies with `failurePolicy: Ignore`, by name: while Copyrator is away, writes pass.
    pub(super) ignore: Vec<(&'p str, &'p ConfigPolicySpec)>,
    /// Policies with `failurePolicy: Fail`, by name: while Copyrator is away, writes are refused.
    pub(super) fail: Vec<(&'p str, &'p ConfigPolicySpec)>,
    /// Policies with defaults to add.
    pub(super) defaults: Vec<&'p ConfigPolicySpec>,
}

impl<'p> Needs<'p> {
    /// Sorts the resources of these policies by hook.
    pub(super) fn of(policies: impl IntoIterator<Item = (&'p str, &'p ConfigPolicySpec)>) -> Self {
        let mut needs = Self::default();
        for (name, policy) in policies {
            needs.defaults.extend(adds(policy).next().map(|_| policy));
            match policy.failure_policy {
                _ if judged(policy).next().is_none() => {}
                FailurePolicy::Ignore => needs.ignore.push((name, policy)),
                FailurePolicy::Fail => needs.fail.push((name, policy)),
            }
        }
        needs.ignore.sort_unstable_by_key(|(name, _)| *name);
        needs.fail.sort_unstable_by_key(|(name, _)| *name);
        needs
    }
}

/// The resources of a policy's kinds.
fn resources(policy: &ConfigPolicySpec) -> impl Iterator<Item = &'static str> {
    policy.match_.kinds.iter().map(|kind| kind.resource().plural)
}

/// The only covered resource that is cluster-scoped.
pub(super) const NAMESPACES: &str = PolicyKind::Namespace.resource().plural;
/// The subresources of Namespaces. A write of a subresource also stores the labels and annotations of the
/// Namespace; ConfigMaps and Secrets have no subresource.
pub(super) const NAMESPACE_PARTS: [&str; 2] = ["namespaces/status", "namespaces/finalize"];

/// The resources whose writes a policy judges. `warnAbove` and `whileInUse` do not apply to Namespaces: no
/// workload uses a Namespace, and no rule copies one.
pub(super) fn judged(policy: &ConfigPolicySpec) -> impl Iterator<Item = &'static str> {
    let all = !policy.data.is_empty()
        || policy.labels.is_some()
        || policy.limits.is_some()
        || !policy.validations.is_empty();
    let content = policy.warn_above.is_some() || policy.while_in_use == WhileInUse::Refuse;
    resources(policy).filter(move |one| all || (content && *one != NAMESPACES))
}

/// The resources that a policy adds defaults to.
pub(super) fn adds(policy: &ConfigPolicySpec) -> impl Iterator<Item = &'static str> {
    let adds = |defaults: &Defaults| !defaults.labels.is_empty() || !defaults.annotations.is_empty();
    let adds = policy.defaults.as_ref().is_some_and(adds);
    resources(policy).filter(move |_| adds)
}

/// The resources whose deletions a policy judges.
pub(super) fn kept(policy: &ConfigPolicySpec) -> impl Iterator<Item = &'static str> {
    let refuses = policy.while_in_use == WhileInUse::Refuse;
    resources(policy).filter(move |one| refuses && *one != NAMESPACES)
}
