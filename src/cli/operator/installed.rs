//! What the operator in the cluster was told, as far as its plans depend on it: a command must be told the
//! same.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    authority::TrustedWriters,
    cli::arguments::{UsageError, duration, namespaces, non_empty},
    config::system_namespaces,
    model::{Bytes, Settings, SpreadLimits, Store, World},
};

/// What the operator in the cluster was told. The flags and their environment forms are those of `copyrator serve`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "What copyrator serve was told, where it was told anything")]
pub(crate) struct InstalledArgs {
    /// Where Copyrator's own objects live: serve's --namespace.
    #[arg(
        long,
        alias = "install-namespace",
        env = "COPYRATOR_NAMESPACE",
        value_name = "NS",
        default_value = "copyrator-system"
    )]
    copyrator_namespace: String,
    /// The only namespaces that it looks at; without it, what its Deployment says.
    #[arg(long, env = "COPYRATOR_NAMESPACES", value_delimiter = ',', value_name = "NS,…")]
    namespaces: Vec<String>,
    /// How long a copy that nobody wants is kept, for rules that do not say.
    #[arg(long, env = "COPYRATOR_DELETION_GRACE", default_value = "5m", value_name = "DURATION")]
    deletion_grace: String,
    /// Never targets, beside Kubernetes' own and Copyrator's.
    #[arg(long, env = "COPYRATOR_SYSTEM_NAMESPACES", value_delimiter = ',', value_name = "NS")]
    system_namespaces: Vec<String>,
    /// A source is not copied beyond so many bytes, times its targets.
    #[arg(long, env = "COPYRATOR_MAX_SPREAD_BYTES", default_value = "1Gi", value_name = "BYTES")]
    max_spread_bytes: Bytes,
    /// Copies that one rule may come to; of a rule that comes to more no new copy is made. 0: no limit.
    #[arg(long, env = "COPYRATOR_MAX_COPIES_PER_RULE", default_value_t = 100_000, value_name = "N")]
    max_copies_per_rule: usize,
    /// Accounts of other namespaces whose own rights count.
    #[arg(long, env = "COPYRATOR_TRUSTED_WRITERS", value_delimiter = ',', value_name = "USER[@NS]")]
    trusted_writers: Vec<String>,
    /// The ServiceAccount that the reconciler writes with.
    #[arg(
        long,
        env = "COPYRATOR_RECONCILER_ACCOUNT",
        default_value = "copyrator-reconciler",
        value_name = "NAME"
    )]
    reconciler_account: String,
    /// Whether annotations of ours on other people's objects count.
    #[arg(
        long,
        env = "COPYRATOR_ANNOTATIONS",
        default_value_t = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    annotations: bool,
}

/// The same, checked.
pub(crate) struct Installed {
    /// Where Copyrator's own objects live.
    pub namespace: String,
    /// Whose own rights count although they are of other namespaces.
    pub trusted: TrustedWriters,
    /// The user that the reconciler writes as.
    pub account: String,
    /// The only namespaces that it looks at, where the command line names them.
    pub places: BTreeSet<Arc<str>>,
    system_namespaces: BTreeSet<String>,
    grace: Duration,
    max_bytes: Bytes,
    max_copies: usize,
    annotations: bool,
}

impl InstalledArgs {
    pub(crate) fn check(self) -> Result<Installed, UsageError> {
        let more: BTreeSet<String> = non_empty(self.system_namespaces).collect();
        Ok(Installed {
            account: format!(
                "system:serviceaccount:{}:{}",
                self.copyrator_namespace, self.reconciler_account
            ),
            system_namespaces: system_namespaces(&self.copyrator_namespace, &more),
            namespace: self.copyrator_namespace,
            places: namespaces(self.namespaces)?.into_iter().map(Arc::from).collect(),
            trusted: non_empty(self.trusted_writers).collect(),
            grace: duration("deletion-grace", &self.deletion_grace)?,
            max_bytes: self.max_spread_bytes,
            max_copies: self.max_copies_per_rule,
            annotations: self.annotations,
        })
    }
}

impl Installed {
    /// A world of which nothing is known yet but this.
    pub(crate) fn world(&self) -> World {
        let stores =
            [Store::Namespaces, Store::ConfigMaps, Store::Secrets, Store::CopyratorRules, Store::DigestKey];
        let limits =
            SpreadLimits { max_bytes: self.max_bytes, max_copies: self.max_copies, ..Default::default() };
        let mut world = World::new(Settings {
            stores: stores.into(),
            system_namespaces: self.system_namespaces.clone(),
            default_grace: self.grace,
            spread_limits: limits,
            own_namespace: self.namespace.clone(),
            annotations: self.annotations,
            ..Settings::default()
        });
        // Whether they are is the reconciler's to see.
        world.set_stamps_guarded(true);
        world
    }
}
