//! `copyrator serve`: the flags of the webhook, the reconciler and the console.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::Duration};

use copyrator_certs::Times;
use copyrator_cli::{
    arguments::{
        CopyKinds, InstallNamespace, TemplateKinds, UsageError, duration, endpoint, namespaces, non_empty,
        trusted_writers,
    },
    terminal::{Exit, Threads, block_on, fail},
};
use copyrator_cluster::{config::Config, connect::Target};
use copyrator_console::{ConsoleArgs, ConsoleError, serve_in_cluster};
use copyrator_core::{
    model::{Bytes, SpreadLimits},
    names::GrantedKinds,
};
use copyrator_operator::OperatorError;

use crate::logging::{LogFormat, start_logging};

/// A role of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Role {
    /// Answer admission reviews.
    Webhook,
    /// Copy, restart, write statuses and hooks, while holding the lease.
    Reconciler,
    /// Show the copies and restarts in browsers, with the rights of each user's token; a separate process
    /// without rights of its own.
    Console,
}

/// Run the webhook, the reconciler, or both; or the console.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An environment variable can set every flag except --context: the variable named above, or KUBECONFIG.\n\nExamples:\n  \
     copyrator serve --roles reconciler --namespace copyrator-system\n  copyrator serve --kubeconfig ~/.kube/config --webhook-addr \
     127.0.0.1:8443 --webhook-url https://127.0.0.1:8443\n\nExit codes: 0 drained and ended on SIGTERM; 1 a task failed; 2 usage; 3 no \
     kubeconfig found."
)]
pub(crate) struct Args {
    /// The roles of this process.
    #[arg(long, env = "COPYRATOR_ROLES", value_delimiter = ',', default_value = "webhook,reconciler")]
    roles: Vec<Role>,
    #[command(flatten)]
    console: ConsoleArgs,
    #[command(flatten)]
    home: InstallNamespace,
    /// Read only these namespaces, with rights in each of them and none over the cluster: without hooks and
    /// policies, so only with --roles reconciler.
    #[arg(long, env = "COPYRATOR_NAMESPACES", value_delimiter = ',', value_name = "NS,…")]
    namespaces: Vec<String>,
    /// Copy only this rule of --namespace; another process must manage hooks and monitors.
    #[arg(long, env = "COPYRATOR_RULE_NAME", value_name = "NAME")]
    rule_name: Option<String>,
    /// Its name in the environment of the first Copyrator.
    #[arg(long, env = "RULE_NAME", hide = true)]
    seed_rule_name: Option<String>,
    /// The address that the webhook listens on.
    #[arg(long, env = "COPYRATOR_WEBHOOK_ADDR", default_value = "0.0.0.0:8443", value_name = "ADDR")]
    webhook_addr: SocketAddr,
    /// The address for /livez, /readyz and /metrics, in plain HTTP.
    #[arg(long, env = "COPYRATOR_ADMIN_ADDR", default_value = "0.0.0.0:8080", value_name = "ADDR")]
    admin_addr: SocketAddr,
    /// The Service, in --namespace, by which the API server reaches the webhook.
    #[arg(
        long,
        env = "COPYRATOR_WEBHOOK_SERVICE",
        default_value = "copyrator-webhook:443",
        value_name = "NAME:PORT"
    )]
    webhook_service: String,
    /// A URL by which the API server reaches the webhook, instead of a Service.
    #[arg(long, env = "COPYRATOR_WEBHOOK_URL", value_name = "URL")]
    webhook_url: Option<String>,
    /// A directory with tls.crt, tls.key and ca.crt that another tool maintains, such as a mounted Secret:
    /// the webhook serves this certificate, the reconciler adds its CA to the hooks, and Copyrator makes no
    /// CA. The console needs a separate Secret with tls.crt and tls.key.
    #[arg(long, env = "COPYRATOR_TLS_DIR", value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// The lifetime of Copyrator's serving certificates; Copyrator renews them after two thirds. For drills
    /// and tests.
    #[arg(
        long,
        env = "COPYRATOR_LEAF_LIFETIME",
        default_value = "24h",
        value_name = "DURATION",
        hide = true
    )]
    leaf_lifetime: String,
    /// The time after which Copyrator renews its serving certificates; 0s: after two thirds of the lifetime.
    /// For drills and tests.
    #[arg(long, env = "COPYRATOR_LEAF_RENEWAL", default_value = "0s", value_name = "DURATION", hide = true)]
    leaf_renewal: String,
    /// The lifetime of Copyrator's CA; Copyrator rotates the CA after two thirds. For drills and tests.
    #[arg(
        long,
        env = "COPYRATOR_CA_LIFETIME",
        default_value = "8760h",
        value_name = "DURATION",
        hide = true
    )]
    ca_lifetime: String,
    /// The longest time that API servers may need to load a changed CA. For drills and tests.
    #[arg(
        long,
        env = "COPYRATOR_CA_PROPAGATION",
        default_value = "60s",
        value_name = "DURATION",
        hide = true
    )]
    ca_propagation: String,
    /// The timeout of each hook in seconds; 0: the default of each hook. For drills and tests.
    #[arg(
        long,
        env = "COPYRATOR_HOOK_TIMEOUT",
        default_value_t = 0,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(i32).range(0..=30),
        hide = true
    )]
    hook_timeout: i32,
    /// The maximum number of admission reviews at once; the webhook refuses more.
    #[arg(long, env = "COPYRATOR_MAX_IN_FLIGHT", default_value_t = 64, value_name = "N")]
    max_in_flight: usize,
    /// Require client certificates that chain to this PEM bundle; the process reads the file again when it
    /// changes.
    #[arg(long, env = "COPYRATOR_CLIENT_CA", value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Accept only client certificates with one of these names as common name or as DNS, URI or mail SAN.
    #[arg(long, env = "COPYRATOR_CLIENT_NAMES", value_delimiter = ',', value_name = "NAME,…")]
    client_names: Vec<String>,
    /// Requests per second from one address, with bursts of twice as many; more are refused with 429. 0: no
    /// limit.
    #[arg(long, env = "COPYRATOR_PEER_RATE", default_value_t = 0, value_name = "N")]
    peer_rate: u32,
    /// The minimum time between two updates of all copies of one source; it doubles, up to 5m, while the
    /// source keeps changing.
    #[arg(long, env = "COPYRATOR_MIN_SPREAD_INTERVAL", default_value = "5s", value_name = "DURATION")]
    min_spread_interval: String,
    /// The maximum bytes of one source times its targets; above it, Copyrator writes no copies, and the
    /// rule's status reports it.
    #[arg(long, env = "COPYRATOR_MAX_SPREAD_BYTES", default_value = "1Gi", value_name = "BYTES")]
    max_spread_bytes: Bytes,
    /// The maximum number of copies of one rule; above it, the rule makes no new copies, and its status
    /// reports it. 0: no limit.
    #[arg(long, env = "COPYRATOR_MAX_COPIES_PER_RULE", default_value_t = 100_000, value_name = "N")]
    max_copies_per_rule: usize,
    /// The maximum number of the reconciler's requests at once, 1 to 32; fewer while the API server is busy.
    /// New namespaces may use 8 more.
    #[arg(long, env = "COPYRATOR_MAX_WRITES_IN_FLIGHT", default_value_t = 16, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=32))]
    max_writes_in_flight: u8,
    /// The maximum number of restarts in progress in the whole cluster; one namespace may use half of it. A
    /// restart counts until its rollout is complete or stuck, at most ten minutes. 0: no limit.
    #[arg(long, env = "COPYRATOR_MAX_ROLLOUTS", default_value_t = 200, value_name = "N")]
    max_rollouts: usize,
    /// The interval at which Copyrator lists everything again and compares every copy with its source.
    #[arg(long, env = "COPYRATOR_SWEEP_INTERVAL", default_value = "1h", value_name = "DURATION")]
    sweep_interval: String,
    /// The time before Copyrator deletes an orphaned copy, for rules without deletionGrace.
    #[arg(long, env = "COPYRATOR_DELETION_GRACE", default_value = "5m", value_name = "DURATION")]
    deletion_grace: String,
    /// Namespaces that never get copies, in addition to kube-system, kube-public, kube-node-lease and
    /// --namespace.
    #[arg(long, env = "COPYRATOR_SYSTEM_NAMESPACES", value_delimiter = ',', value_name = "NS,…")]
    system_namespaces: Vec<String>,
    /// ServiceAccounts of other namespaces that may write specs with their own rights: USER or
    /// USER@NAMESPACE.
    #[arg(long, env = "COPYRATOR_TRUSTED_WRITERS", value_delimiter = ',', value_name = "WRITER,…")]
    trusted_writers: Vec<String>,
    /// The reconciler's ServiceAccount in --namespace: policies let its writes of copies pass, because the
    /// reconciler has checked them.
    #[arg(
        long,
        env = "COPYRATOR_RECONCILER_ACCOUNT",
        default_value = "copyrator-reconciler",
        value_name = "NAME"
    )]
    reconciler_account: String,
    /// With --namespaces: whether Copyrator may read the CustomResourceDefinitions of its own kinds, which
    /// needs a ClusterRole. It then keeps the copies if a definition was created again without its rules, as
    /// it always does without --namespaces.
    #[arg(long, env = "COPYRATOR_READ_DEFINITIONS", default_value_t = false, action = clap::ArgAction::Set, value_name = "BOOL")]
    read_definitions: bool,
    /// Whether copyrator.dev/ annotations on workloads, ConfigMaps and Secrets have an effect.
    #[arg(long, env = "COPYRATOR_ANNOTATIONS", default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    annotations: bool,
    #[command(flatten)]
    copies: CopyKinds,
    #[command(flatten)]
    templates: TemplateKinds,
    /// The ClusterRole that owns the webhook configurations, so that they are deleted with it.
    #[arg(long, env = "COPYRATOR_OWNER_CLUSTER_ROLE", value_name = "NAME")]
    owner_cluster_role: Option<String>,
    /// The time for which the process accepts connections after SIGTERM.
    #[arg(long, env = "COPYRATOR_DRAIN_DELAY", default_value = "10s", value_name = "DURATION")]
    drain_delay: String,
    /// The name of this process in the lease and in Events. Default: the host's name.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,
    /// The format of log lines.
    #[arg(long, env = "COPYRATOR_LOG", value_enum, default_value_t)]
    log: LogFormat,
    /// Which log lines to write: a level, or target=level,…
    #[arg(long, env = "RUST_LOG", default_value = "info", value_name = "FILTER")]
    log_filter: String,
    /// A kubeconfig file; else $KUBECONFIG, ~/.kube/config, or the pod's own account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Args {
    pub(super) fn run(self) -> Exit {
        start_logging(self.log, &self.log_filter);
        let (config, console) = match self.config() {
            Ok(checked) => checked,
            Err(error) => return fail(&error, Exit::Usage),
        };
        block_on(Threads::Many, async {
            match console {
                Some(console) => match serve_in_cluster(console, config).await {
                    Ok(()) => Exit::Done,
                    Err(error @ ConsoleError::Client(_)) => fail(&error, Exit::Unreachable),
                    Err(error) => fail(&error, Exit::Findings),
                },
                None => match copyrator_operator::operate(config).await {
                    Ok(()) => Exit::Done,
                    Err(error @ OperatorError::Client(_)) => fail(&error, Exit::Unreachable),
                    Err(error) => fail(&error, Exit::Findings),
                },
            }
        })
    }

    /// The configuration, and the console's flags if the role is the console.
    fn config(self) -> Result<(Config, Option<ConsoleArgs>), UsageError> {
        alone(&self.roles)?;
        let console = self.roles.contains(&Role::Console).then_some(self.console);
        let namespace = self.home.namespace();
        let endpoint = endpoint(self.webhook_url, &self.webhook_service, &namespace)?;
        let client_ca = self.client_ca.filter(|file| !file.as_os_str().is_empty());
        let client_names: Vec<String> = non_empty(self.client_names).collect();
        if client_ca.is_none() && !client_names.is_empty() {
            let message =
                "--client-names needs --client-ca, the authorities that issue the client certificates".into();
            return Err(UsageError::Value { flag: "client-names", message });
        }
        let system_namespaces = namespaces("system-namespaces", self.system_namespaces)?;
        let namespaces = namespaces("namespaces", self.namespaces)?;
        let rule_name = self.rule_name.or(self.seed_rule_name).filter(|name| !name.is_empty());
        some_namespaces(&namespaces, &self.roles, rule_name.as_deref())?;
        // A process that serves some namespaces or one rule serves no templates, and no kind that is known
        // only at run time.
        let serves_rules_only = !namespaces.is_empty() || rule_name.is_some();
        let template_kinds = self.templates.kinds(&GrantedKinds::default())?;
        let template_kinds = if serves_rules_only { BTreeSet::new() } else { template_kinds };
        let host = || std::fs::read_to_string("/etc/hostname").unwrap_or_default().trim().to_owned();
        let config = Config {
            cluster: Target { kubeconfig: self.kubeconfig, context: self.context, ..Target::default() },
            webhook: self.roles.contains(&Role::Webhook),
            reconciler: self.roles.contains(&Role::Reconciler),
            namespace,
            namespaces,
            rule_name,
            webhook_addr: self.webhook_addr,
            admin_addr: self.admin_addr,
            endpoint,
            hook_timeout: Some(self.hook_timeout).filter(|seconds| *seconds > 0),
            tls_dir: self.tls_dir.filter(|dir| !dir.as_os_str().is_empty()),
            certificate_times: Times {
                leaf_lifetime: lasting("leaf-lifetime", &self.leaf_lifetime)?,
                ca_lifetime: lasting("ca-lifetime", &self.ca_lifetime)?,
                propagation: lasting("ca-propagation", &self.ca_propagation)?,
            },
            leaf_renewal: Some(duration("leaf-renewal", &self.leaf_renewal)?)
                .filter(|after| !after.is_zero()),
            max_in_flight: self.max_in_flight,
            client_ca,
            client_names,
            peer_rate: self.peer_rate,
            spread_limits: SpreadLimits {
                min_interval: duration("min-spread-interval", &self.min_spread_interval)?,
                max_bytes: self.max_spread_bytes,
                max_copies: self.max_copies_per_rule,
                ..SpreadLimits::default()
            },
            max_writes_in_flight: self.max_writes_in_flight.into(),
            max_rollouts: self.max_rollouts,
            sweep_interval: sweep_interval(&self.sweep_interval)?,
            deletion_grace: duration("deletion-grace", &self.deletion_grace)?,
            system_namespaces,
            trusted_writers: trusted_writers(self.trusted_writers)?,
            reconciler_account: self.reconciler_account,
            read_definitions: self.read_definitions,
            annotations: self.annotations,
            copy_kinds: self
                .copies
                .kinds()?
                .into_iter()
                .chain(template_kinds.iter().filter_map(|kind| kind.rendered))
                .filter(|kind| kind.is_copied() || !serves_rules_only)
                .collect(),
            template_kinds,
            owner_cluster_role: self.owner_cluster_role.filter(|name| !name.is_empty()),
            drain_delay: duration("drain-delay", &self.drain_delay)?,
            host: self.pod_name.filter(|name| !name.is_empty()).unwrap_or_else(host),
        };
        Ok((config, console))
    }
}

/// Checks that the console, if it is a role of this process, is the only role.
fn alone(roles: &[Role]) -> Result<(), UsageError> {
    if !roles.contains(&Role::Console) || roles.iter().all(|role| *role == Role::Console) {
        return Ok(());
    }
    let message = "the console must run without the rights of the other roles: run it as a separate process with its own ServiceAccount, \
     with --roles console";
    Err(UsageError::Value { flag: "roles", message: message.into() })
}

/// Checks that these roles and flags work in some namespaces only.
fn some_namespaces(
    namespaces: &BTreeSet<String>,
    roles: &[Role],
    rule: Option<&str>,
) -> Result<(), UsageError> {
    let refused = |message: String| Err(UsageError::Value { flag: "namespaces", message });
    if namespaces.is_empty() {
        return Ok(());
    }
    if roles.contains(&Role::Webhook) {
        let message = "the API server calls a webhook for the whole cluster: set --roles reconciler, or remove --namespaces";
        return refused(message.into());
    }
    match rule {
        Some(rule) => refused(format!(
            "--rule-name {rule} copies one rule to all namespaces: remove --rule-name or --namespaces"
        )),
        None => Ok(()),
    }
}

/// A duration of at least a second.
fn lasting(flag: &'static str, text: &str) -> Result<Duration, UsageError> {
    let span = duration(flag, text)?;
    if span < Duration::from_secs(1) {
        let message = format!("{text:?} is less than a second");
        return Err(UsageError::Value { flag, message });
    }
    Ok(span)
}

fn sweep_interval(text: &str) -> Result<Duration, UsageError> {
    let flag = "sweep-interval";
    let interval = duration(flag, text)?;
    if interval < Duration::from_secs(1) {
        let message =
            format!("{text:?} is less than a second, so each list would interrupt the previous one");
        return Err(UsageError::Value { flag, message });
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_a_process_by_itself() {
        for roles in [&[Role::Console][..], &[Role::Webhook, Role::Reconciler], &[Role::Webhook], &[]] {
            assert!(alone(roles).is_ok(), "{roles:?}");
        }
        for other in [Role::Webhook, Role::Reconciler] {
            let said = alone(&[Role::Console, other]).unwrap_err().to_string();
            assert!(said.starts_with("--roles: the console must run without the rights"), "{said}");
        }
    }
}
