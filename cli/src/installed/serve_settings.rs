//! The settings of `copyrator serve` on which plans depend, as far as the command line or the Deployment gives them.

use std::{collections::BTreeSet, time::Duration};

use crate::{authority::TrustedWriters, model::Bytes};

/// The settings of `copyrator serve` that plans depend on; `None` for a setting that command line and
/// Deployment lack.
#[derive(Clone, Default)]
pub(crate) struct ServeSettings {
    /// The time before Copyrator deletes an orphaned copy, for rules without deletionGrace.
    pub(super) grace: Option<Duration>,
    /// The most bytes of one source times its targets.
    pub(super) max_bytes: Option<Bytes>,
    /// The most copies of one rule.
    pub(super) max_copies: Option<usize>,
    /// Whether copyrator.dev/ annotations have an effect.
    pub(super) annotations: Option<bool>,
    /// The trusted accounts of other namespaces, which may write objects with their own rights.
    pub(super) trusted: Option<TrustedWriters>,
    /// Namespaces that never get copies, beside Kubernetes' own and Copyrator's.
    pub(super) system_namespaces: Option<BTreeSet<String>>,
    /// The ServiceAccount that the reconciler writes with.
    pub(super) account: Option<String>,
}

impl ServeSettings {
    /// Returns these settings, completed by the `other` settings.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            grace: self.grace.or(other.grace),
            max_bytes: self.max_bytes.or(other.max_bytes),
            max_copies: self.max_copies.or(other.max_copies),
            annotations: self.annotations.or(other.annotations),
            trusted: self.trusted.or(other.trusted),
            system_namespaces: self.system_namespaces.or(other.system_namespaces),
            account: self.account.or(other.account),
        }
    }
}
