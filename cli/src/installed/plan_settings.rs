//! The settings of the operator in the cluster, as far as its plans depend on them: a command needs the same
//! settings.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{install::Install, serve_settings::ServeSettings};
use crate::{
    arguments::{CopyKinds, TemplateKinds, UsageError, duration, namespaces, trusted_writers},
    authority::TrustedWriters,
    config::{Config, system_namespaces},
    model::{Bytes, Settings, SpreadLimits, Store, World},
    names::{GrantedKinds, Kind, TemplateKind},
};

/// The default of serve's `--deletion-grace`.
const DEFAULT_GRACE: Duration = Duration::from_secs(300);

/// The settings of the operator in the cluster. The flags and their environment variables are those of
/// `copyrator serve`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Where Copyrator is")]
pub struct InstalledArgs {
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
    // The flags below are for users who may not read the Deployment, which has the same values.
    #[arg(long, env = "COPYRATOR_DELETION_GRACE", hide = true)]
    deletion_grace: Option<String>,
    #[arg(long, env = "COPYRATOR_SYSTEM_NAMESPACES", value_delimiter = ',', hide = true)]
    system_namespaces: Vec<String>,
    #[arg(long, env = "COPYRATOR_MAX_SPREAD_BYTES", hide = true)]
    max_spread_bytes: Option<Bytes>,
    #[arg(long, env = "COPYRATOR_MAX_COPIES_PER_RULE", hide = true)]
    max_copies_per_rule: Option<usize>,
    #[arg(long, env = "COPYRATOR_TRUSTED_WRITERS", value_delimiter = ',', hide = true)]
    trusted_writers: Vec<String>,
    #[arg(long, env = "COPYRATOR_RECONCILER_ACCOUNT", hide = true)]
    reconciler_account: Option<String>,
    #[arg(long, env = "COPYRATOR_ANNOTATIONS", hide = true)]
    annotations: Option<bool>,
    #[arg(long, env = "COPYRATOR_COPY_KINDS", value_delimiter = ',', hide = true)]
    copy_kinds: Vec<String>,
    #[arg(long, env = "COPYRATOR_TEMPLATE_KINDS", value_delimiter = ',', hide = true)]
    template_kinds: Vec<String>,
}

/// The kinds that the operator works with.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// The kinds that are copied beside ConfigMaps and Secrets.
    pub(crate) copied: BTreeSet<Kind>,
    /// The kinds whose objects templates are rendered for.
    pub(crate) templates: BTreeSet<TemplateKind>,
}

impl Kinds {
    /// Returns these kinds without custom resources and templates, for a Copyrator that reads only some
    /// namespaces.
    pub(super) fn of_rules_in_some_namespaces(mut self) -> Self {
        self.copied.retain(|kind| kind.is_copied() && !matches!(kind, Kind::Granted(_)));
        Self { templates: BTreeSet::new(), ..self }
    }
}

/// How Copyrator is installed.
#[derive(Clone)]
pub struct Installed {
    /// Where Copyrator's own objects live.
    pub namespace: String,
    /// The namespaces of `--namespaces`; empty without the flag.
    pub namespaces: BTreeSet<Arc<str>>,
    settings: ServeSettings,
    /// The kinds of `--copy-kinds`; empty without the flag.
    pub(super) copy_kinds: BTreeSet<Kind>,
    /// The kinds of `--template-kinds`; empty without the flag.
    pub(super) template_kinds: BTreeSet<TemplateKind>,
    /// The kinds that are known at run time only.
    pub granted: GrantedKinds,
}

impl InstalledArgs {
    /// Checks the values of the flags.
    ///
    /// # Errors
    /// The flag, and what is wrong with its value.
    pub fn check(self) -> Result<Installed, UsageError> {
        let granted = GrantedKinds::default();
        let given = |entries: Vec<String>| Some(entries).filter(|entries| !entries.is_empty());
        let system = given(self.system_namespaces).map(|entries| namespaces("system-namespaces", entries));
        let trusted = given(self.trusted_writers).map(trusted_writers).transpose()?;
        let settings = ServeSettings {
            grace: self.deletion_grace.map(|text| duration("deletion-grace", &text)).transpose()?,
            max_bytes: self.max_spread_bytes,
            max_copies: self.max_copies_per_rule,
            annotations: self.annotations,
            trusted: trusted.map(|writers| writers.into_iter().collect()),
            system_namespaces: system.transpose()?,
            account: self.reconciler_account,
        };
        Ok(Installed {
            namespace: self.copyrator_namespace,
            namespaces: namespaces("namespaces", self.namespaces)?.into_iter().map(Arc::from).collect(),
            settings,
            copy_kinds: CopyKinds::of(self.copy_kinds).kinds()?,
            template_kinds: TemplateKinds::of(self.template_kinds).kinds(&granted)?,
            granted,
        })
    }
}

impl Installed {
    /// The install as described by the settings of a serving process.
    pub fn of(config: &Config) -> Self {
        let settings = ServeSettings {
            grace: Some(config.deletion_grace),
            max_bytes: Some(config.spread_limits.max_bytes),
            max_copies: Some(config.spread_limits.max_copies),
            annotations: Some(config.annotations),
            trusted: Some(config.trusted_writers.iter().collect()),
            system_namespaces: Some(config.system_namespaces()),
            account: Some(config.reconciler_account.clone()),
        };
        Self {
            namespace: config.namespace.clone(),
            namespaces: config.namespaces.iter().map(|name| name.as_str().into()).collect(),
            settings,
            copy_kinds: config.copy_kinds.clone(),
            template_kinds: config.template_kinds.clone(),
            granted: GrantedKinds::default(),
        }
    }

    /// Returns these settings, completed by the Deployment's settings where the command line has no value.
    pub(super) fn with(&self, install: &Install<'_>) -> Self {
        Self { settings: self.settings.clone().or(install.settings()), ..self.clone() }
    }

    /// The trusted accounts of other namespaces, which may write objects with their own rights.
    pub(crate) fn trusted(&self) -> TrustedWriters {
        self.settings.trusted.clone().unwrap_or_default()
    }

    /// The user that the reconciler writes as.
    pub(crate) fn account(&self) -> String {
        let account = self.settings.account.as_deref().unwrap_or("copyrator-reconciler");
        format!("system:serviceaccount:{}:{account}", self.namespace)
    }

    /// An empty world with these settings, with the kinds that are copied beside ConfigMaps and Secrets, and
    /// the kinds for whose objects templates are rendered.
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
        let (settings, defaults) = (&self.settings, SpreadLimits::default());
        let limits = SpreadLimits {
            max_bytes: settings.max_bytes.unwrap_or(defaults.max_bytes),
            max_copies: settings.max_copies.unwrap_or(defaults.max_copies),
            ..defaults
        };
        let more = settings.system_namespaces.clone().unwrap_or_default();
        let mut world = World::new(Settings {
            stores,
            copy_kinds,
            template_kinds,
            system_namespaces: system_namespaces(&self.namespace, &more),
            default_grace: settings.grace.unwrap_or(DEFAULT_GRACE),
            spread_limits: limits,
            own_namespace: self.namespace.clone(),
            annotations: settings.annotations.unwrap_or(true),
            ..Settings::default()
        });
        // The reconciler itself checks whether stamps are guarded.
        world.set_stamps_guarded(true);
        world
    }
}
