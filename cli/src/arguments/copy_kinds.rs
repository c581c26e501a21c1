//! Which kinds rules copy beside ConfigMaps and Secrets, by a flag of commands and of `serve`.

use std::collections::BTreeSet;

use super::{UsageError, non_empty};
use crate::names::Kind;

/// The kinds that are copied beside ConfigMaps and Secrets.
#[derive(Clone, Debug, clap::Args)]
pub struct CopyKinds {
    /// Kinds that rules may copy and templates may declare, in addition to ConfigMaps and Secrets:
    /// NetworkPolicy, ResourceQuota, LimitRange, PodDisruptionBudget, ServiceAccount, RoleBinding; only for
    /// templates: Deployment, Service.
    #[arg(long, env = "COPYRATOR_COPY_KINDS", value_delimiter = ',', value_name = "KIND,…")]
    copy_kinds: Vec<String>,
}

impl CopyKinds {
    /// Wraps the values of a flag that a different struct declares.
    pub(crate) fn of(copy_kinds: Vec<String>) -> Self {
        Self { copy_kinds }
    }

    /// The kinds, without ConfigMap and Secret, which are always copied.
    pub fn kinds(self) -> Result<BTreeSet<Kind>, UsageError> {
        let mut kinds = BTreeSet::new();
        for word in non_empty(self.copy_kinds) {
            let Some(kind) = Kind::named(word.trim()) else {
                let known = Kind::ALL.map(|kind| kind.to_string()).join(", ");
                let message = format!("no rule or template can have the kind {word:?}; choose from {known}");
                return Err(UsageError::Value { flag: "copy-kinds", message });
            };
            kinds.extend(Some(kind).filter(|kind| kind.data().is_none()));
        }
        Ok(kinds)
    }
}
