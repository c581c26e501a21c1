//! Which resources the policies present want to see, by hook.

use std::collections::BTreeSet;

use crate::api::{ConfigPolicySpec, FailurePolicy, PolicyKind};

/// Which resources the policies present want to see, by hook. What nobody wants never reaches us.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Needs<'p> {
    /// Of policies that let writes pass while we are away.
    pub(super) ignore: BTreeSet<&'static str>,
    /// Policies that hold writes up while we are away, by name.
    pub(super) fail: Vec<(&'p str, &'p ConfigPolicySpec)>,
    /// Of policies with defaults.
    pub(super) defaults: BTreeSet<&'static str>,
}

impl<'p> Needs<'p> {
    /// What these policies want to see.
    pub(super) fn of(policies: impl IntoIterator<Item = (&'p str, &'p ConfigPolicySpec)>) -> Self {
        let mut needs = Self::default();
        for (name, policy) in policies {
            let adds = |defaults: &crate::api::Defaults| {
                !defaults.labels.is_empty() || !defaults.annotations.is_empty()
            };
            if policy.defaults.as_ref().is_some_and(adds) {
                needs.defaults.extend(resources(policy));
            }
            match policy.failure_policy {
                _ if !judges(policy) => {}
                FailurePolicy::Ignore => needs.ignore.extend(resources(policy)),
                FailurePolicy::Fail => needs.fail.push((name, policy)),
            }
        }
        needs.fail.sort_unstable_by_key(|(name, _)| *name);
        needs
    }
}

/// The resources of a policy's kinds.
pub(super) fn resources(policy: &ConfigPolicySpec) -> impl Iterator<Item = &'static str> {
    policy.match_.kinds.iter().map(|kind| match kind {
        PolicyKind::ConfigMap => "configmaps",
        PolicyKind::Secret => "secrets",
        PolicyKind::Namespace => NAMESPACES,
    })
}

/// The resource that is in no namespace.
pub(super) const NAMESPACES: &str = "namespaces";

fn judges(policy: &ConfigPolicySpec) -> bool {
    !policy.data.is_empty()
        || policy.labels.is_some()
        || policy.limits.is_some()
        || !policy.validations.is_empty()
}
