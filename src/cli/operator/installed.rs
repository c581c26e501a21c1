//! The settings of the operator in the cluster, as far as its plans depend on them: a command needs the same.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    authority::TrustedWriters,
    cli::arguments::{CopyKinds, TemplateKinds, UsageError, duration, namespaces, trusted_writers},
    config::{Config, system_namespaces},
    model::{Bytes, Settings, SpreadLimits, Store, World},
    names::{GrantedKinds, Kind, TemplateKind},
};

/// The settings of the operator in the cluster. The flags and their environment variables are those of
/// `copyrator serve`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Settings of copyrator serve, where they differ from the defaults")]
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
    /// The only namespaces that it looks at; without it, those of its Deployment.
    #[arg(long, env = "COPYRATOR_NAMESPACES", value_delimiter = ',', value_name = "NS,…")]
    namespaces: Vec<String>,
    /// How long an orphaned copy is kept, for rules without deletionGrace.
    #[arg(long, env = "COPYRATOR_DELETION_GRACE", default_value = "5m", value_name = "DURATION")]
    deletion_grace: String,
    /// Namespaces that never get copies, beside Kubernetes' own and Copyrator's.
    #[arg(long, env = "COPYRATOR_SYSTEM_NAMESPACES", value_delimiter = ',', value_name = "NS")]
    system_namespaces: Vec<String>,
    /// The most bytes of one source times its targets; beyond it, the source is not copied.
    #[arg(long, env = "COPYRATOR_MAX_SPREAD_BYTES", default_value = "1Gi", value_name = "BYTES")]
    max_spread_bytes: Bytes,
    /// The most copies of one rule; a rule with more makes no new ones. 0: no limit.
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
    /// Whether copyrator.dev/ annotations on workloads, ConfigMaps and Secrets count.
    #[arg(
        long,
        env = "COPYRATOR_ANNOTATIONS",
        default_value_t = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    annotations: bool,
    #[command(flatten)]
    copies: CopyKinds,
    #[command(flatten)]
    templates: TemplateKinds,
}

/// The kinds that the operator is told to work with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    /// Those that are copied beside ConfigMaps and Secrets.
    pub(crate) copied: BTreeSet<Kind>,
    /// Those whose objects templates are rendered for.
    pub(crate) templates: BTreeSet<TemplateKind>,
}

impl Kinds {
    /// The same without custom resources and templates, as a Copyrator has them that looks at some namespaces only.
    pub(super) fn of_rules_in_some_namespaces(mut self) -> Self {
        self.copied.retain(|kind| kind.is_copied() && !matches!(kind, Kind::Granted(_)));
        Self { templates: BTreeSet::new(), ..self }
    }
}

/// What the flags say of how Copyrator is installed, checked.
#[derive(Clone)]
pub(crate) struct Installed {
    /// Where Copyrator's own objects live.
    pub namespace: String,
    /// The accounts of other namespaces whose own rights count.
    pub trusted: TrustedWriters,
    /// The user that the reconciler writes as.
    pub account: String,
    /// The namespaces of `--namespaces`; empty without the flag.
    pub namespaces: BTreeSet<Arc<str>>,
    system_namespaces: BTreeSet<String>,
    grace: Duration,
    max_bytes: Bytes,
    max_copies: usize,
    annotations: bool,
    /// The kinds of `--copy-kinds`; empty without the flag.
    pub(super) copy_kinds: BTreeSet<Kind>,
    /// The kinds of `--template-kinds`; empty without the flag.
    pub(super) template_kinds: BTreeSet<TemplateKind>,
    /// The kinds that are known at run time only.
    pub granted: GrantedKinds,
}

impl InstalledArgs {
    pub(crate) fn check(self) -> Result<Installed, UsageError> {
        let granted = GrantedKinds::default();
        let more = namespaces("system-namespaces", self.system_namespaces)?;
        Ok(Installed {
            account: format!(
                "system:serviceaccount:{}:{}",
                self.copyrator_namespace, self.reconciler_account
            ),
            system_namespaces: system_namespaces(&self.copyrator_namespace, &more),
            namespace: self.copyrator_namespace,
            namespaces: namespaces("namespaces", self.namespaces)?.into_iter().map(Arc::from).collect(),
            trusted: trusted_writers(self.trusted_writers)?.into_iter().collect(),
            grace: duration("deletion-grace", &self.deletion_grace)?,
            max_bytes: self.max_spread_bytes,
            max_copies: self.max_copies_per_rule,
            annotations: self.annotations,
            copy_kinds: self.copies.kinds()?,
            template_kinds: self.templates.kinds(&granted)?,
            granted,
        })
    }
}

impl Installed {
    /// What a serving process is told of the install.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            account: format!("system:serviceaccount:{}:{}", config.namespace, config.reconciler_account),
            system_namespaces: config.system_namespaces(),
            namespace: config.namespace.clone(),
            namespaces: config.namespaces.iter().map(|name| name.as_str().into()).collect(),
            trusted: config.trusted_writers.iter().collect(),
            grace: config.deletion_grace,
            max_bytes: config.spread_limits.max_bytes,
            max_copies: config.spread_limits.max_copies,
            annotations: config.annotations,
            copy_kinds: config.copy_kinds.clone(),
            template_kinds: config.template_kinds.clone(),
            granted: GrantedKinds::default(),
        }
    }

    /// An empty world with these settings, where these kinds are copied beside ConfigMaps and Secrets, and templates
    /// rendered for objects of those.
    pub(crate) fn world(&self, Kinds { copied: mut copy_kinds, templates: template_kinds }: Kinds) -> World {
        copy_kinds.extend(template_kinds.iter().filter_map(|kind| kind.rendered));
        let mut stores = BTreeSet::from([
            Store::Namespaces,
            Store::ConfigMaps,
            Store::Secrets,
            Store::CopyratorRules,
            Store::DigestKey,
        ]);
        stores.extend(Store::needed(&copy_kinds));
        stores.extend(self.namespaces.is_empty().then_some(Store::CopyratorTemplates));
        let limits =
            SpreadLimits { max_bytes: self.max_bytes, max_copies: self.max_copies, ..Default::default() };
        let mut world = World::new(Settings {
            stores,
            copy_kinds,
            template_kinds,
            system_namespaces: self.system_namespaces.clone(),
            default_grace: self.grace,
            spread_limits: limits,
            own_namespace: self.namespace.clone(),
            annotations: self.annotations,
            ..Settings::default()
        });
        // The reconciler itself checks that.
        world.set_stamps_guarded(true);
        world
    }
}
