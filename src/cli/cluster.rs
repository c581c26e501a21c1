//! Which cluster, as whom, and where in it: kubectl's own flags, the same for every command that asks a cluster.

use std::{path::PathBuf, sync::Arc, time::Duration};

use kube::Client;
use secrecy::SecretString;

use super::serve::{UsageError, duration};
use crate::run::{
    client::{ClientError, client},
    target::{Identity, Impersonated, Target, Trust},
};

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
    /// A cluster of the kubeconfig; else the context's.
    #[arg(long = "cluster", value_name = "NAME", hide_short_help = true)]
    cluster_entry: Option<String>,
    /// A user of the kubeconfig; else the context's.
    #[arg(long = "user", value_name = "NAME", hide_short_help = true)]
    user_entry: Option<String>,
    /// The API server's address; no kubeconfig is needed then.
    #[arg(short, long, value_name = "URL", value_parser = address, hide_short_help = true)]
    server: Option<http::Uri>,
    /// A PEM file of the CAs that the API server's certificate may be of.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    certificate_authority: Option<PathBuf>,
    /// The name that must be in the API server's certificate; else the address's.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    tls_server_name: Option<String>,
    /// Do not check the API server's certificate: whoever answers gets your credentials.
    #[arg(long, conflicts_with = "certificate_authority", hide_short_help = true)]
    insecure_skip_tls_verify: bool,
    /// A bearer token, shown in place of the kubeconfig's credentials, all of them.
    #[arg(long, value_name = "TOKEN", conflicts_with = "user_entry", hide_short_help = true)]
    token: Option<SecretString>,
    /// A PEM file of a client certificate, shown in place of the kubeconfig's credentials.
    #[arg(long, value_name = "FILE", requires = "client_key", conflicts_with_all = ["token", "user_entry"], hide_short_help = true)]
    client_certificate: Option<PathBuf>,
    /// The PEM file of its key.
    #[arg(long, value_name = "FILE", requires = "client_certificate", hide_short_help = true)]
    client_key: Option<PathBuf>,
    /// Ask as this user, or ServiceAccount (system:serviceaccount:NS:NAME).
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,
    /// With --as: as a member of this group, too. May be given again.
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
    /// With --as: with this UID.
    #[arg(long = "as-uid", value_name = "UID", requires = "user", hide_short_help = true)]
    uid: Option<String>,
    /// How long one request may take before the cluster counts as unreachable: 5s, 2m; 0: for ever [default: 30s].
    #[arg(long, value_name = "DURATION")]
    request_timeout: Option<String>,
}

impl ClusterArgs {
    /// The same, checked.
    pub(super) fn check(self) -> Result<Target, UsageError> {
        let request_timeout = self.request_timeout.as_deref().map(patience).transpose()?;
        let identity = match (self.token, self.client_certificate, self.client_key) {
            (Some(token), _, _) => Some(Identity::Token(token)),
            (None, Some(certificate), Some(key)) => Some(Identity::Certificate { certificate, key }),
            _ => None,
        };
        let (uid, groups) = (self.uid, self.groups);
        Ok(Target {
            kubeconfig: self.kubeconfig,
            context: self.context,
            cluster: self.cluster_entry,
            credentials: self.user_entry,
            server: self.server,
            trust: Trust {
                authority: self.certificate_authority,
                server_name: self.tls_server_name,
                is_blind: self.insecure_skip_tls_verify,
            },
            identity,
            impersonated: self.user.map(|user| Impersonated { user, uid, groups }),
            request_timeout,
        })
    }
}

/// Kubectl takes an address without a scheme for http's, which shows the credentials to all on the way: a scheme is asked for.
fn address(text: &str) -> Result<http::Uri, String> {
    let uri: http::Uri = text.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("https" | "http"), Some(_)) => Ok(uri),
        _ => Err("write it as https://HOST:PORT".to_owned()),
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
