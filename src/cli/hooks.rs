//! `copyrator hooks`

use super::{Exit, Home, fail, print};
use crate::hooks::{Stamper, render};

/// Show the webhook configurations that the reconciler applies, in their widest form: the cluster has what its
/// policies need of them, a CA, and the hook author.copyrator.dev only where the API server does not stamp authors.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  copyrator hooks --print\n  copyrator hooks --print --webhook-service copyrator-webhook:443\n\n\
    To switch every hook off: kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration copyrator"
)]
pub struct Args {
    /// Print them as YAML.
    #[arg(long, required = true)]
    print: bool,
    #[command(flatten)]
    home: Home,
    /// The Service by which the API server reaches the webhook.
    #[arg(
        long,
        env = "COPYRATOR_WEBHOOK_SERVICE",
        default_value = "copyrator-webhook:443",
        value_name = "NAME:PORT"
    )]
    webhook_service: String,
}

impl Args {
    pub(super) fn run(self) -> Exit {
        let namespace = self.home.namespace();
        let endpoint = match super::serve::service(&self.webhook_service, &namespace) {
            Ok(endpoint) => endpoint,
            Err(error) => return fail(&error, Exit::Usage),
        };
        // Every kind of policy there could be, so that every hook is shown.
        let policies = every_policy();
        let policies = policies.iter().map(|(name, policy)| (*name, policy));
        let (validating, mutating) = render(policies, Stamper::Hook, &endpoint, "", None, &namespace, true);
        match (serde_saphyr::to_string(&validating), serde_saphyr::to_string(&mutating)) {
            (Ok(validating), Ok(mutating)) => print(&format!("{validating}---\n{mutating}")),
            (Err(error), _) | (_, Err(error)) => fail(&error, Exit::Findings),
        }
    }
}

fn every_policy() -> [(&'static str, crate::api::ConfigPolicySpec); 2] {
    use crate::api::{ConfigPolicySpec, Defaults, FailurePolicy, Limits, PolicyKind, PolicyMatch};
    let policy = |failure_policy| ConfigPolicySpec {
        match_: PolicyMatch {
            kinds: vec![PolicyKind::ConfigMap, PolicyKind::Secret, PolicyKind::Namespace],
            ..PolicyMatch::default()
        },
        limits: Some(Limits { max_bytes: Some(0) }),
        defaults: Some(Defaults { labels: [("a".to_owned(), "b".to_owned())].into(), ..Defaults::default() }),
        failure_policy,
        ..ConfigPolicySpec::default()
    };
    // A policy with Fail has entries of its own, named after it.
    [("policy", policy(FailurePolicy::Ignore)), ("policy", policy(FailurePolicy::Fail))]
}
