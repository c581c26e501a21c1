//! Objects as users name them: `secret/registry`, `deploy/web`, as in kubectl.

use std::{fmt, str::FromStr};

use crate::{
    api::WorkloadKind,
    model::World,
    names::{Declarer, Kind},
};

/// A kind that users can ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// An object of a copied kind.
    Object(Kind),
    /// A workload.
    Workload(WorkloadKind),
    /// A CopyratorRule.
    Rule,
    /// A CopyratorTemplate.
    Template,
    /// A kind without a built-in name; the cluster may know the kind ([`Named::known_in`]).
    Further,
}

/// An object that a user names as `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The kind of the object.
    pub sort: Sort,
    /// The name of the object.
    pub name: String,
    /// The word for the kind, in lower case.
    word: String,
}

/// The argument is not of the form `KIND/NAME`.
#[derive(Debug, thiserror::Error)]
#[error(
    "write KIND/NAME, as in secret/registry; kinds are configmap (cm), secret, networkpolicy (netpol), resourcequota (quota), \
     limitrange (limits), poddisruptionbudget (pdb), serviceaccount (sa), service (svc), rolebinding (rb), deployment (deploy), statefulset (sts), daemonset (ds), \
     copyratorrule (copyr), copyratortemplate (copyt), and those of the chart's value templates.kinds"
)]
pub struct NotNamed;

impl Named {
    /// The rule or template of this name in a namespace; `None` for other objects.
    pub(crate) fn declared_in(&self, namespace: &str) -> Option<Declarer> {
        match self.sort {
            Sort::Rule => Some(Declarer::rule(namespace, self.name.as_str())),
            Sort::Template => Some(Declarer::template(namespace, self.name.as_str())),
            Sort::Object(_) | Sort::Workload(_) | Sort::Further => None,
        }
    }

    /// This object, with its kind looked up among the kinds that templates are granted, if the kind has no
    /// built-in name.
    pub(crate) fn known_in(&self, world: &World) -> Self {
        let granted = world.settings().copy_kinds.iter().copied();
        let known = granted.filter(|_| self.sort == Sort::Further).find(|kind| is_named(*kind, &self.word));
        Self { sort: known.map_or(self.sort, Sort::Object), ..self.clone() }
    }

    /// The kind as messages show it.
    pub(crate) fn kind(&self) -> String {
        match self.sort {
            Sort::Further => self.word.clone(),
            sort => sort.to_string(),
        }
    }
}

impl FromStr for Named {
    type Err = NotNamed;

    fn from_str(text: &str) -> Result<Self, NotNamed> {
        let (kind, name) = text.split_once('/').ok_or(NotNamed)?;
        let word = kind.to_lowercase();
        let sort = match word.as_str() {
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
            other => copied(other).map_or(Sort::Further, Sort::Object),
        };
        let is_name = !name.is_empty() && !name.contains('/');
        let is_word = word.starts_with(|first: char| first.is_ascii_lowercase())
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte));
        (is_name && is_word).then(|| Self { sort, name: name.to_owned(), word }).ok_or(NotNamed)
    }
}

/// The copied kind with this singular or plural name, with or without the API group.
fn copied(word: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| is_named(*kind, word))
}

fn is_named(kind: Kind, word: &str) -> bool {
    let resource = kind.resource();
    let plain = word.strip_suffix(&format!(".{}", resource.group)).unwrap_or(word);
    plain == resource.plural || plain == resource.singular()
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(kind) => kind.fmt(f),
            Self::Workload(kind) => kind.fmt(f),
            Self::Rule => f.write_str("CopyratorRule"),
            Self::Template => f.write_str("CopyratorTemplate"),
            Self::Further => f.write_str("object"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GrantedKinds;

    #[test]
    fn a_kind_without_a_name_here_is_found_where_it_is_granted() {
        let kind =
            GrantedKinds::default().kind("cert-manager.io/v1", "Certificate", "certificates", false).unwrap();
        let mut world = World::default();
        world.settings_mut().copy_kinds = [kind].into();
        for (text, sort) in [
            ("certificate/web", Sort::Object(kind)),
            ("Certificates.cert-manager.io/web", Sort::Object(kind)),
            ("issuer/web", Sort::Further),
            ("cm/web", Sort::Object(Kind::ConfigMap)),
        ] {
            let named: Named = text.parse().unwrap();
            assert_eq!(named.known_in(&world).sort, sort, "{text}");
        }
        let named: Named = "Issuer/web".parse().unwrap();
        assert_eq!(named.kind(), "issuer");
    }

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
            ("pods.v1/a", Some((Sort::Further, "a"))),
            ("po d/a", None),
            ("/a", None),
        ] {
            let named = text.parse::<Named>().ok();
            assert_eq!(named.as_ref().map(|one| (one.sort, one.name.as_str())), expected, "{text}");
        }
    }
}
