//! The objects that a policy covers.

use std::collections::BTreeMap;

use super::Candidate;
use crate::{
    api::{PolicyKind, PolicyMatch, Problem},
    names::NameKind,
    validate::{Globs, Selector, invalid},
};

/// The compiled `spec.match` of a policy.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) kinds: Vec<PolicyKind>,
    names: Option<Globs>,
    object_selector: Option<Selector>,
    namespace_selector: Option<Selector>,
    exclude: Globs,
}

impl Scope {
    pub(super) fn compile(spec: &PolicyMatch, problems: &mut Vec<Problem>) -> Self {
        if spec.kinds.is_empty() {
            problems.push(invalid("spec.match.kinds", "needs at least one of ConfigMap, Secret, Namespace"));
        }
        let of_namespaces = spec.kinds.iter().all(|kind| *kind == PolicyKind::Namespace);
        let named =
            if of_namespaces && !spec.kinds.is_empty() { NameKind::Namespace } else { NameKind::Object };
        Self {
            kinds: spec.kinds.clone(),
            names: spec
                .names
                .as_ref()
                .map(|names| Globs::compile("spec.match.names", names, named, problems)),
            object_selector: spec
                .object_selector
                .as_ref()
                .map(|selector| Selector::compile("spec.match.objectSelector", selector, problems)),
            namespace_selector: spec
                .namespace_selector
                .as_ref()
                .map(|selector| Selector::of_namespaces("spec.match.namespaceSelector", selector, problems)),
            exclude: Globs::compile(
                "spec.match.excludeNamespaces",
                &spec.exclude_namespaces,
                NameKind::Namespace,
                problems,
            ),
        }
    }

    /// Whether the policy covers the object; `None` if the labels of the object's namespace decide and are
    /// unknown.
    pub(super) fn covers(
        &self,
        object: &Candidate<'_>,
        namespace: Option<&BTreeMap<String, String>>,
    ) -> Option<bool> {
        // A Namespace is selected by its own labels.
        let of_namespace = self.namespace_selector.as_ref().filter(|_| object.kind == PolicyKind::Namespace);
        let mut selectors = self.object_selector.iter().chain(of_namespace);
        match selectors.all(|selector| selector.matches(|key| object.label(key))) {
            true => self.may_cover(object, namespace),
            false => Some(false),
        }
    }

    /// Whether the policy can cover an object in a namespace with this name and these labels.
    pub(super) fn reaches(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        let selects = |selector: &Selector| selector.matches(|key| labels.get(key).map(String::as_str));
        !self.exclude.matches(namespace) && self.namespace_selector.as_ref().is_none_or(selects)
    }

    /// Whether the policy could cover the object with some labels of its own; `None` as for [`Self::covers`].
    pub(super) fn may_cover(
        &self,
        object: &Candidate<'_>,
        namespace: Option<&BTreeMap<String, String>>,
    ) -> Option<bool> {
        let by_name = self.kinds.contains(&object.kind)
            && self.names.as_ref().is_none_or(|names| names.matches(&object.name))
            && !self.exclude.matches(&object.namespace);
        if !by_name {
            return Some(false);
        }
        let by_labels = self.namespace_selector.as_ref().filter(|_| object.kind != PolicyKind::Namespace);
        let Some(selector) = by_labels else { return Some(true) };
        let labels = namespace?;
        Some(selector.matches(|key| labels.get(key).map(String::as_str)))
    }
}
