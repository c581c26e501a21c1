//! Which resources the policies present want to see, by hook.

use std::collections::BTreeSet;

use crate::api::{ConfigPolicySpec, FailurePolicy, PolicyKind};

/// Which resources the policies present want to see, by hook. What nobody wants never reaches us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Of policies that let writes pass while we are away.
    pub ignore: BTreeSet<&'static str>,
    /// Of policies that hold writes up while we are away.
    pub fail: BTreeSet<&'static str>,
    /// Of policies with defaults.
    pub defaults: BTreeSet<&'static str>,
}

impl Needs {
    /// What these policies want to see.
    pub fn of<'p>(policies: impl IntoIterator<Item = &'p ConfigPolicySpec>) -> Self {
        let mut needs = Self::default();
        for policy in policies {
            let resources = policy.match_.kinds.iter().map(|kind| match kind {
                PolicyKind::ConfigMap => "configmaps",
                PolicyKind::Secret => "secrets",
                PolicyKind::Namespace => "namespaces",
            });
            let adds = |defaults: &crate::api::Defaults| {
                !defaults.labels.is_empty() || !defaults.annotations.is_empty()
            };
            if policy.defaults.as_ref().is_some_and(adds) {
                needs.defaults.extend(resources.clone());
            }
            if judges(policy) {
                match policy.failure_policy {
                    FailurePolicy::Ignore => needs.ignore.extend(resources),
                    FailurePolicy::Fail => needs.fail.extend(resources),
                }
            }
        }
        // One hook a resource: both would call us twice, and the stricter decides anyway.
        needs.ignore = needs.ignore.difference(&needs.fail).copied().collect();
        needs
    }

    /// The resources that a hook must see; `None`: what its file says.
    pub(super) fn of_hook(&self, hook: &str) -> Option<&BTreeSet<&'static str>> {
        match hook.split('.').next() {
            Some("policies-ignore") => Some(&self.ignore),
            Some("policies-fail") => Some(&self.fail),
            Some("defaults") => Some(&self.defaults),
            _ => None,
        }
    }
}

fn judges(policy: &ConfigPolicySpec) -> bool {
    !policy.data.is_empty()
        || policy.labels.is_some()
        || policy.limits.is_some()
        || !policy.validations.is_empty()
}
