//! Which cluster to ask, with which identity, and about which namespace: kubectl's own flags, the same for
//! every command that asks a cluster.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use clap::{
    ArgAction,
    builder::{NonEmptyStringValueParser, TypedValueParser as _},
};
use kube::Client;
use secrecy::SecretString;

use super::usage::{UsageError, duration};
use crate::connect::{ClientError, Identity, Impersonated, Target, Trust, client};

/// Which cluster to ask, with which identity and timeout.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Which cluster, as in kubectl")]
pub struct ClusterArgs {
    /// A kubeconfig file; else $KUBECONFIG, ~/.kube/config, or the pod's own account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; else its current one.
    #[arg(long, value_name = "NAME", value_parser = something())]
    context: Option<String>,
    /// A cluster of the kubeconfig; else the context's.
    #[arg(long = "cluster", value_name = "NAME", value_parser = something(), hide_short_help = true)]
    cluster_entry: Option<String>,
    /// A user of the kubeconfig; else the context's.
    #[arg(long = "user", value_name = "NAME", value_parser = something(), hide_short_help = true)]
    user_entry: Option<String>,
    /// The API server's address; no kubeconfig is needed then.
    #[arg(short, long, value_name = "URL", value_parser = address, hide_short_help = true)]
    server: Option<http::Uri>,
    /// A PEM file of the CAs that may have issued the API server's certificate.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    certificate_authority: Option<PathBuf>,
    /// The name that the API server's certificate must have; else the host of its address.
    #[arg(long, value_name = "NAME", value_parser = something(), hide_short_help = true)]
    tls_server_name: Option<String>,
    /// Do not check the API server's certificate: an impostor would get your credentials.
    #[arg(long, conflicts_with = "certificate_authority", hide_short_help = true, value_name = "true|false",
        num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set,
        hide_default_value = true, hide_possible_values = true)]
    insecure_skip_tls_verify: bool,
    /// A bearer token, used instead of all credentials of the kubeconfig.
    #[arg(long, value_name = "TOKEN", value_parser = something().map(SecretString::from), conflicts_with = "user_entry", hide_short_help = true)]
    token: Option<SecretString>,
    /// A PEM file of a client certificate, used instead of the kubeconfig's credentials.
    #[arg(long, value_name = "FILE", requires = "client_key", conflicts_with_all = ["token", "user_entry"], hide_short_help = true)]
    client_certificate: Option<PathBuf>,
    /// The PEM file of the certificate's key.
    #[arg(long, value_name = "FILE", requires = "client_certificate", hide_short_help = true)]
    client_key: Option<PathBuf>,
    /// Ask as this user, or ServiceAccount (system:serviceaccount:NS:NAME).
    #[arg(long = "as", value_name = "USER", value_parser = something())]
    user: Option<String>,
    /// With --as: as a member of this group, too. May be given again.
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
    /// With --as: with this UID.
    #[arg(long = "as-uid", value_name = "UID", value_parser = something(), requires = "user", hide_short_help = true)]
    uid: Option<String>,
    /// With --as: with this extra attribute, as KEY=VALUE. May be given again.
    #[arg(long = "as-user-extra", value_name = "KEY=VALUE", requires = "user", value_parser = pair, hide_short_help = true)]
    extra: Vec<(String, String)>,
    /// How long one request may take before the cluster counts as unreachable: 5s, 2m; 0: for ever [default: 30s].
    #[arg(long, value_name = "DURATION")]
    request_timeout: Option<String>,
}

impl ClusterArgs {
    /// The checked target of a client.
    pub fn check(self) -> Result<Target, UsageError> {
        let request_timeout = self.request_timeout.as_deref().map(patience).transpose()?;
        let identity = match (self.token, self.client_certificate, self.client_key) {
            (Some(token), _, _) => Some(Identity::Token(token)),
            (None, Some(certificate), Some(key)) => Some(Identity::Certificate { certificate, key }),
            _ => None,
        };
        let (uid, groups) = (self.uid, self.groups);
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        self.extra.into_iter().for_each(|(key, value)| extra.entry(key).or_default().push(value));
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
            impersonated: self.user.map(|user| Impersonated { user, uid, groups, extra }),
            request_timeout,
        })
    }
}

/// Refuses an empty value, which mostly comes from a variable that somebody forgot to set: kubectl ignores an
/// empty value, and sends requests with other rights than intended.
fn something() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

/// Refuses an address without a scheme. kubectl reads such an address as http, which shows the credentials to
/// everybody on the network path.
fn address(text: &str) -> Result<http::Uri, String> {
    let uri: http::Uri = text.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("https" | "http"), Some(_)) => Ok(uri),
        _ => Err("write it as https://HOST:PORT".to_owned()),
    }
}

/// A timeout as in kubectl: a number alone is seconds, and 0 is no limit.
fn patience(text: &str) -> Result<Duration, UsageError> {
    let span = seconds("request-timeout", text)?;
    Ok(if span.is_zero() { Duration::MAX } else { span })
}

/// A duration, in which a number alone is seconds.
pub fn seconds(flag: &'static str, text: &str) -> Result<Duration, UsageError> {
    text.parse().map(Duration::from_secs).or_else(|_| duration(flag, text))
}

/// A client for a command, which sends few requests and so is not throttled.
pub async fn connect(target: &Target) -> Result<Client, ClientError> {
    client(target, &Arc::default()).await
}

/// The namespace that a command is about. Another flag names the namespace of Copyrator's own objects.
#[derive(Clone, Debug, clap::Args)]
pub struct Scope {
    /// The namespace to show; default: all.
    #[arg(short, long, value_name = "NS")]
    pub namespace: Option<String>,
    /// All namespaces, which is the default.
    #[arg(short = 'A', long, conflicts_with = "namespace", value_name = "true|false", num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", action = ArgAction::Set, hide_default_value = true, hide_possible_values = true)]
    all_namespaces: bool,
}

impl Scope {
    /// The namespace, if the command is about one namespace.
    pub(crate) fn one(&self) -> Option<&str> {
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
