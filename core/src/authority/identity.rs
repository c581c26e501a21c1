//! The identity whose rights an object acts with.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    marks::{AUTHOR, AUTHOR_GROUPS},
    names::NameKind,
    validate::name_fault,
};

const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A user that the API server can be asked about. Groups come from the request, never from an assumption.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The user name, such as `alice` or `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// The user's UID, if the authenticator gave one.
    pub uid: String,
    /// The user's groups, as the authenticator gave them.
    pub groups: Vec<String>,
    /// Further attributes, as the authenticator gave them.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Subject {
    /// Creates the user of a ServiceAccount, with the groups that the API server gives every ServiceAccount.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            user: format!("{ACCOUNT_PREFIX}{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".into(),
            ],
            ..Self::default()
        }
    }

    /// Namespace and name of the ServiceAccount; `None` for a user who is no ServiceAccount.
    pub fn as_service_account(&self) -> Option<(&str, &str)> {
        self.user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')
    }
}

/// The identity whose rights an object acts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The ServiceAccount that `serviceAccountName` names, of the object's own namespace.
    ServiceAccount {
        /// The object's own namespace.
        namespace: String,
        /// The value of `serviceAccountName`.
        name: String,
    },
    /// The user who wrote the spec.
    Author(Subject),
}

/// Why an object has no usable identity, so that the object stays inert.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityRequired {
    /// A ServiceAccount of a different namespace wrote the spec: a GitOps controller, CI, a backup tool.
    #[error(
        "{user} from another namespace wrote this spec, so Copyrator has no identity for it: set serviceAccountName to a ServiceAccount \
         of namespace {namespace:?} with the necessary rights (for an annotation, write a CopyratorRule or ConfigMonitor instead), or let \
         a cluster administrator add {user}@{namespace} to --trusted-writers"
    )]
    ForeignAccount {
        /// The account's user name.
        user: String,
        /// The namespace of the rule or monitor.
        namespace: String,
    },
    /// The author annotations are missing or unreadable.
    #[error(
        "the annotations {AUTHOR} and {AUTHOR_GROUPS}, which name the author of this spec, are missing or unreadable: set \
         serviceAccountName (for an annotation, write a CopyratorRule or ConfigMonitor instead), or apply the spec again while Copyrator's admission policies are installed"
    )]
    NoAuthor,
}

impl IdentityRequired {
    /// A message short enough for an admission warning.
    pub fn in_short(&self) -> &'static str {
        "no effect until a rule, template or monitor sets serviceAccountName: another namespace's account wrote this"
    }
}

/// The trusted accounts of other namespaces, which may write objects with their own rights: `user`, or
/// `user@namespace` for the objects of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedWriters(BTreeSet<(String, Option<String>)>);

impl<S: AsRef<str>> FromIterator<S> for TrustedWriters {
    fn from_iter<I: IntoIterator<Item = S>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|entry| match entry.as_ref().rsplit_once('@') {
            // A namespace's name has no dot, unlike the part after the @ of an e-mail address.
            Some((user, namespace)) if !namespace.is_empty() && !namespace.contains('.') => {
                (user.to_owned(), Some(namespace.to_owned()))
            }
            _ => (entry.as_ref().to_owned(), None),
        });
        Self(entries.collect())
    }
}

impl TrustedWriters {
    /// Returns the fault of an entry of the list; `None` for a valid entry. Only ServiceAccounts can be
    /// entries.
    pub fn fault(entry: &str) -> Option<String> {
        let form = || {
            format!(
                "{entry:?} is not a ServiceAccount: write system:serviceaccount:NAMESPACE:NAME, optionally with @NAMESPACE"
            )
        };
        let Some(account) = entry.strip_prefix(ACCOUNT_PREFIX) else { return Some(form()) };
        let (account, only) =
            account.rsplit_once('@').map_or((account, None), |(account, only)| (account, Some(only)));
        let Some((home, name)) = account.split_once(':') else { return Some(form()) };
        let namespaces = only.into_iter().chain([home]);
        let fault = namespaces.into_iter().find_map(|name| name_fault(name, NameKind::Namespace));
        fault.or_else(|| name_fault(name, NameKind::Object)).map(|fault| format!("{entry:?}: {fault}"))
    }

    fn contains(&self, user: &str, namespace: &str) -> bool {
        self.0
            .iter()
            .any(|(trusted, only)| trusted == user && only.as_deref().is_none_or(|only| only == namespace))
    }
}

impl Identity {
    /// The identity that an object would act with, if `writer` writes it into `namespace`.
    ///
    /// # Errors
    /// The writer cannot be an identity.
    pub fn of_writer(
        namespace: &str,
        account: Option<&str>,
        writer: &Subject,
        trusted: &TrustedWriters,
    ) -> Result<Self, IdentityRequired> {
        if let Some(name) = account {
            return Ok(Self::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() });
        }
        let foreign = writer.as_service_account().is_some_and(|(home, _)| home != namespace);
        match foreign && !trusted.contains(&writer.user, namespace) {
            true => Err(IdentityRequired::ForeignAccount {
                user: writer.user.clone(),
                namespace: namespace.to_owned(),
            }),
            false => Ok(Self::Author(writer.clone())),
        }
    }

    /// The identity that a stored object acts with, by its author annotations.
    ///
    /// # Errors
    /// The annotations are missing or unreadable, or the author cannot be an identity.
    pub fn of_stored(
        namespace: &str,
        account: Option<&str>,
        annotations: &BTreeMap<String, String>,
        trusted: &TrustedWriters,
    ) -> Result<Self, IdentityRequired> {
        match account {
            Some(_) => Self::of_writer(namespace, account, &Subject::default(), trusted),
            None => Self::of_writer(namespace, None, &author(annotations)?, trusted),
        }
    }

    /// The user to ask the API server about.
    pub fn subject(&self) -> Subject {
        match self {
            Self::ServiceAccount { namespace, name } => Subject::service_account(namespace, name),
            Self::Author(subject) => subject.clone(),
        }
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ServiceAccount { namespace, name } => write!(f, "serviceaccount {namespace}/{name}"),
            Self::Author(subject) => match subject.as_service_account() {
                Some((namespace, name)) => write!(f, "serviceaccount {namespace}/{name}"),
                None => write!(f, "user {}", subject.user),
            },
        }
    }
}

/// The author of a stored spec, by its annotations.
///
/// # Errors
/// The annotations are missing or unreadable.
pub fn author(annotations: &BTreeMap<String, String>) -> Result<Subject, IdentityRequired> {
    let user = annotations.get(AUTHOR).filter(|user| !user.is_empty()).ok_or(IdentityRequired::NoAuthor)?;
    let groups = annotations.get(AUTHOR_GROUPS).ok_or(IdentityRequired::NoAuthor)?;
    let groups = serde_json::from_str(groups).map_err(|_| IdentityRequired::NoAuthor)?;
    Ok(Subject { user: user.clone(), groups, ..Subject::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Subject {
        Subject { user: name.into(), groups: vec!["system:authenticated".into()], ..Subject::default() }
    }

    #[test]
    fn the_writer_stands_behind_a_spec_unless_it_is_a_foreign_account() {
        let none = TrustedWriters::default();
        let flux = "system:serviceaccount:flux-system:kustomize-controller";
        let of = |who: &str, trusted: &TrustedWriters| Identity::of_writer("shop", None, &user(who), trusted);
        assert_eq!(of("alice", &none).unwrap().to_string(), "user alice");
        assert_eq!(of("system:masters", &none).unwrap().to_string(), "user system:masters");
        assert_eq!(of("system:serviceaccount:shop:ci", &none).unwrap().to_string(), "serviceaccount shop/ci");
        assert!(matches!(of(flux, &none), Err(IdentityRequired::ForeignAccount { .. })));
        assert!(of(flux, &[flux].into_iter().collect()).is_ok());
        assert!(of(flux, &[format!("{flux}@shop")].into_iter().collect()).is_ok());
        assert!(of(flux, &[format!("{flux}@other")].into_iter().collect()).is_err());
        let named = Identity::of_writer("shop", Some("copier"), &user(flux), &none).unwrap();
        assert_eq!(named.to_string(), "serviceaccount shop/copier");
        assert_eq!(named.subject().groups[1], "system:serviceaccounts:shop");
    }

    #[test]
    fn a_stored_spec_needs_a_whole_stamp() {
        let none = TrustedWriters::default();
        let mut stamp = BTreeMap::from([(AUTHOR.to_owned(), "alice".to_owned())]);
        let stored = |stamp: &_| Identity::of_stored("shop", None, stamp, &none);
        assert_eq!(stored(&stamp), Err(IdentityRequired::NoAuthor));
        stamp.insert(AUTHOR_GROUPS.into(), "dev".into());
        assert_eq!(stored(&stamp), Err(IdentityRequired::NoAuthor));
        stamp.insert(AUTHOR_GROUPS.into(), r#"["dev"]"#.into());
        assert_eq!(stored(&stamp).unwrap().subject().groups, ["dev"]);
        assert!(Identity::of_stored("shop", Some("copier"), &BTreeMap::new(), &none).is_ok());
    }
}
