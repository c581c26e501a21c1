//! Which cluster, as whom, and where in it: kubectl's own flags, the same for every command that asks a cluster.

use std::{path::PathBuf, sync::Arc, time::Duration};

use kube::Client;

use super::serve::{UsageError, duration};
use crate::run::client::{ClientError, Target, client};

/// Which cluster, as whom, and how patiently.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Which cluster, as kubectl has it")]
pub struct ClusterArgs {
    /// A kubeconfig file; else $KUBECONFIG, ~/.kube/config, or the pod's own account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; else its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Ask as this user, or ServiceAccount (system:serviceaccount:NS:NAME).
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,
    /// With --as: as a member of this group, too. May be given again.
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
    /// How long one request may take before the cluster counts as unreachable: 5s, 2m; 0: for ever [default: 30s].
    #[arg(long, value_name = "DURATION")]
    request_timeout: Option<String>,
}

impl ClusterArgs {
    /// The same, checked.
    pub(super) fn check(self) -> Result<Target, UsageError> {
        let request_timeout = self.request_timeout.as_deref().map(patience).transpose()?;
        let Self { kubeconfig, context, user, groups, .. } = self;
        Ok(Target { kubeconfig, context, user, groups, request_timeout })
    }
}

/// As kubectl takes it: a number alone is seconds, and 0 is no limit.
fn patience(text: &str) -> Result<Duration, UsageError> {
    let span = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => duration("request-timeout", text)?,
    };
    Ok(if span.is_zero() { Duration::MAX } else { span })
}

/// A client for a command: what it asks for is little, and waits for nobody.
pub(super) async fn connect(target: &Target) -> Result<Client, ClientError> {
    client(target, &Arc::default()).await
}

/// The namespace asked about. Where Copyrator's own objects live is another one, and has another flag.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Scope {
    /// The namespace asked about; without it, all.
    #[arg(short, long, value_name = "NS")]
    pub namespace: Option<String>,
    /// All namespaces, which is the default.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
}

impl Scope {
    /// The namespace, where one is asked about.
    pub(super) fn one(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_seconds_and_nothing_is_for_ever() {
        for (text, expected) in [
            ("5", Some(Duration::from_secs(5))),
            ("5s", Some(Duration::from_secs(5))),
            ("2m", Some(Duration::from_secs(120))),
            ("0", Some(Duration::MAX)),
            ("0s", Some(Duration::MAX)),
            ("soon", None),
            ("-1", None),
        ] {
            assert_eq!(patience(text).ok(), expected, "{text}");
        }
        let said = patience("soon").unwrap_err().to_string();
        assert!(said.starts_with("--request-timeout: "), "{said}");
    }
}
