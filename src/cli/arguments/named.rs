//! Objects as users name them: `secret/registry`, `deploy/web`, as in kubectl.

use std::{fmt, str::FromStr};

use crate::{
    api::WorkloadKind,
    names::{Kind, NamespacedName},
};

/// A kind that users can ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Object(Kind),
    Workload(WorkloadKind),
    Rule,
    Template,
}

/// An object that a user names as `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub sort: Sort,
    pub name: String,
}

/// The argument is not of the form `KIND/NAME`.
#[derive(Debug, thiserror::Error)]
#[error(
    "write KIND/NAME, as in secret/registry; kinds are configmap (cm), secret, networkpolicy (netpol), resourcequota (quota), \
     limitrange (limits), poddisruptionbudget (pdb), serviceaccount (sa), service (svc), rolebinding (rb), deployment (deploy), statefulset (sts), daemonset (ds), \
     copyratorrule (copyr) and copyratortemplate (copyt)"
)]
pub(crate) struct NotNamed;

impl Named {
    /// The rule or template of this name in a namespace; `None` for other objects.
    pub(crate) fn declared_in(&self, namespace: &str) -> Option<NamespacedName> {
        match self.sort {
            Sort::Rule => Some(NamespacedName::new(namespace, self.name.as_str())),
            Sort::Template => Some(NamespacedName::of_template(namespace, &self.name)),
            Sort::Object(_) | Sort::Workload(_) => None,
        }
    }
}

impl FromStr for Named {
    type Err = NotNamed;

    fn from_str(text: &str) -> Result<Self, NotNamed> {
        let (kind, name) = text.split_once('/').ok_or(NotNamed)?;
        let sort = match kind.to_lowercase().as_str() {
            "cm" | "configmap" | "configmaps" => Sort::Object(Kind::ConfigMap),
            "secret" | "secrets" => Sort::Object(Kind::Secret),
            "netpol" => Sort::Object(Kind::NetworkPolicy),
            "quota" => Sort::Object(Kind::ResourceQuota),
            "limits" => Sort::Object(Kind::LimitRange),
            "pdb" => Sort::Object(Kind::PodDisruptionBudget),
            "sa" => Sort::Object(Kind::ServiceAccount),
            "rb" => Sort::Object(Kind::RoleBinding),
            "svc" => Sort::Object(Kind::Service),
            "deploy" | "deployment" | "deployments" | "deployment.apps" | "deployments.apps" => {
                Sort::Workload(WorkloadKind::Deployment)
            }
            "sts" | "statefulset" | "statefulsets" | "statefulset.apps" | "statefulsets.apps" => {
                Sort::Workload(WorkloadKind::StatefulSet)
            }
            "ds" | "daemonset" | "daemonsets" | "daemonset.apps" | "daemonsets.apps" => {
                Sort::Workload(WorkloadKind::DaemonSet)
            }
            "copyr"
            | "copyratorrule"
            | "copyratorrules"
            | "copyratorrule.copyrator.dev"
            | "copyratorrules.copyrator.dev" => Sort::Rule,
            "copyt"
            | "copyratortemplate"
            | "copyratortemplates"
            | "copyratortemplate.copyrator.dev"
            | "copyratortemplates.copyrator.dev" => Sort::Template,
            other => Sort::Object(copied(other).ok_or(NotNamed)?),
        };
        let is_name = !name.is_empty() && !name.contains('/');
        is_name.then(|| Self { sort, name: name.to_owned() }).ok_or(NotNamed)
    }
}

/// The kind that is copied and whose singular or plural this is, with or without its API group.
fn copied(word: &str) -> Option<Kind> {
    let is_one = |kind: &Kind| {
        let resource = kind.resource();
        let plain = word.strip_suffix(&format!(".{}", resource.group)).unwrap_or(word);
        plain == resource.plural || plain == resource.singular()
    };
    Kind::ALL.into_iter().find(is_one)
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(kind) => kind.fmt(f),
            Self::Workload(kind) => kind.fmt(f),
            Self::Rule => f.write_str("CopyratorRule"),
            Self::Template => f.write_str("CopyratorTemplate"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectls_words_name_objects() {
        for (text, expected) in [
            ("secret/a", Some((Sort::Object(Kind::Secret), "a"))),
            ("CM/a", Some((Sort::Object(Kind::ConfigMap), "a"))),
            ("deployment.apps/web", Some((Sort::Workload(WorkloadKind::Deployment), "web"))),
            ("netpol/deny", Some((Sort::Object(Kind::NetworkPolicy), "deny"))),
            ("networkpolicies.networking.k8s.io/deny", Some((Sort::Object(Kind::NetworkPolicy), "deny"))),
            ("serviceaccount/ci", Some((Sort::Object(Kind::ServiceAccount), "ci"))),
            ("pdb/a", Some((Sort::Object(Kind::PodDisruptionBudget), "a"))),
            ("svc/a", Some((Sort::Object(Kind::Service), "a"))),
            ("services/a", Some((Sort::Object(Kind::Service), "a"))),
            ("copyr/r", Some((Sort::Rule, "r"))),
            ("copyt/kit", Some((Sort::Template, "kit"))),
            ("secret", None),
            ("secret/", None),
            ("secret/a/b", None),
            ("pod/a", None),
        ] {
            let named = text.parse::<Named>().ok();
            assert_eq!(named.as_ref().map(|one| (one.sort, one.name.as_str())), expected, "{text}");
        }
    }
}
