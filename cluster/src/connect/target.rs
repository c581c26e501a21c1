//! The target of a connection: API server and identity, from a kubeconfig and flags that override it as
//! kubectl's do.

use std::{collections::BTreeMap, fs, io, path::PathBuf, time::Duration};

use kube::{
    Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use secrecy::SecretString;

use super::error::ClientError;

/// API server, identity and timeout of a connection. The kubeconfig supplies values that are not set in this
/// struct.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// A kubeconfig file; else `KUBECONFIG`, `~/.kube/config`, or the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; else the current context.
    pub context: Option<String>,
    /// A cluster of the kubeconfig; else the cluster of the context.
    pub cluster: Option<String>,
    /// A user of the kubeconfig, whose credentials are used; else the user of the context.
    pub credentials: Option<String>,
    /// The API server's address; with it, the connection needs no kubeconfig.
    pub server: Option<http::Uri>,
    /// How to check the API server's certificate.
    pub trust: Trust,
    /// Credentials that replace all credentials of the kubeconfig.
    pub identity: Option<Identity>,
    /// The user to impersonate, if any.
    pub impersonated: Option<Impersonated>,
    /// How long any request may wait for the head of its answer; else 30 seconds.
    pub request_timeout: Option<Duration>,
}

/// How to check the API server's certificate.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// A PEM file with the trusted CAs; else the CAs of the kubeconfig.
    pub authority: Option<PathBuf>,
    /// The name that the certificate must have; else the host of the address.
    pub server_name: Option<String>,
    /// Whether to accept any certificate (`--insecure-skip-tls-verify`).
    pub is_blind: bool,
}

/// The credentials of a client. `Debug` shows no token.
#[derive(Clone, Debug)]
pub enum Identity {
    /// A bearer token, kept secret.
    Token(SecretString),
    /// A client certificate, in PEM files.
    Certificate {
        /// Path of the certificate.
        certificate: PathBuf,
        /// Path of its private key.
        key: PathBuf,
    },
}

/// The user to impersonate, as in kubectl's `--as` flags.
#[derive(Clone, Debug)]
pub struct Impersonated {
    /// The user name (`--as`).
    pub user: String,
    /// The UID (`--as-uid`), where one is given.
    pub uid: Option<String>,
    /// The groups (`--as-group`), which replace the groups of the user name.
    pub groups: Vec<String>,
    /// Further attributes (`--as-user-extra`), by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Target {
    /// Returns the client configuration.
    ///
    /// # Errors
    /// Returns an error if no configuration names the cluster, or the chosen one is unusable.
    pub async fn config(&self) -> Result<Config, ClientError> {
        let mut config = self.found().await?;
        if let Some(server) = &self.server {
            config.cluster_url = server.clone();
            // The TLS server name belongs to the kubeconfig's address (client-go's overrides drop the name,
            // too).
            config.tls_server_name = None;
        }
        self.trust.put(&mut config)?;
        match &self.identity {
            Some(Identity::Token(token)) => {
                config.auth_info = AuthInfo { token: Some(token.clone()), ..AuthInfo::default() };
            }
            Some(Identity::Certificate { certificate, key }) => {
                let shown = |path: &PathBuf| Some(path.to_string_lossy().into_owned());
                let (client_certificate, client_key) = (shown(certificate), shown(key));
                config.auth_info = AuthInfo { client_certificate, client_key, ..AuthInfo::default() };
            }
            None => {}
        }
        if let Some(other) = &self.impersonated {
            config.auth_info.impersonate = Some(other.user.clone());
            config.auth_info.impersonate_uid.clone_from(&other.uid);
            config.auth_info.impersonate_groups = Some(other.groups.clone());
            config.auth_info.impersonate_user_extra = Some(other.extra.clone().into_iter().collect());
        }
        Ok(config)
    }

    /// Names the cluster for people: the given address, or the context of the kubeconfig.
    pub fn in_words(&self) -> String {
        let read = || match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let named = || read().ok().and_then(|found| found.current_context);
        match (&self.server, &self.context) {
            (Some(server), _) => server.to_string(),
            (None, Some(context)) => format!("context {context}"),
            (None, None) => {
                named().map_or_else(|| "the pod's own cluster".to_owned(), |name| format!("context {name}"))
            }
        }
    }

    /// Returns the configuration from files and environment, with the chosen context, cluster and user.
    async fn found(&self) -> Result<Config, ClientError> {
        let chosen = (&self.kubeconfig, &self.context, &self.cluster, &self.credentials);
        match (chosen, &self.server) {
            ((None, None, None, None), None) => {
                Config::infer().await.map_err(|error| ClientError::Config(Box::new(error)))
            }
            // Never send the pod's own account to another server.
            ((None, None, None, None), Some(server)) => match self.written().await {
                Err(ClientError::Kubeconfig { source, .. }) if is_missing(&source) => {
                    Ok(Config::new(server.clone()))
                }
                written => written,
            },
            _ => self.written().await,
        }
    }

    async fn written(&self) -> Result<Config, ClientError> {
        let failed =
            |source| ClientError::Kubeconfig { context: self.context.clone(), source: Box::new(source) };
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let kubeconfig = kubeconfig.map_err(failed)?;
        let is_there = |name: &String| kubeconfig.auth_infos.iter().any(|one| one.name == *name);
        // Without this check, kube would continue as an anonymous user.
        if let Some(name) = self.credentials.as_ref().filter(|name| !is_there(name)) {
            return Err(ClientError::NoSuchUser { name: name.clone() });
        }
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.credentials.clone(),
        };
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(failed)
    }
}

fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::ReadConfig(source, _) => source.kind() == io::ErrorKind::NotFound,
        other => matches!(other, KubeconfigError::FindPath | KubeconfigError::CurrentContextNotSet),
    }
}

impl Trust {
    fn put(&self, config: &mut Config) -> Result<(), ClientError> {
        if let Some(path) = &self.authority {
            let unreadable = |source: io::Error| ClientError::Authority { path: path.clone(), source };
            let text = fs::read(path).map_err(unreadable)?;
            let read = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
            let read = read.map_err(|error| unreadable(io::Error::other(error)))?;
            let certificates: Vec<_> = read.into_iter().map(|one| one.to_vec()).collect();
            if certificates.is_empty() {
                return Err(unreadable(io::Error::other("the file has no certificate")));
            }
            config.root_cert = Some(certificates);
            config.root_cert_file = None;
            config.accept_invalid_certs = false;
        }
        if self.server_name.is_some() {
            config.tls_server_name.clone_from(&self.server_name);
        }
        if self.is_blind {
            config.accept_invalid_certs = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{error::Error, io::Write as _};

    use secrecy::ExposeSecret as _;

    use super::*;

    const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: home
clusters:
- {name: home, cluster: {server: "https://home:6443", tls-server-name: kubernetes}}
- {name: far, cluster: {server: "https://far:6443"}}
contexts:
- {name: home, context: {cluster: home, user: me}}
users:
- {name: me, user: {token: mine, tokenFile: /nonexistent}}
- {name: guest, user: {token: guests}}
"#;

    fn config(change: impl FnOnce(&mut Target)) -> Result<Config, Box<dyn Error>> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(KUBECONFIG.as_bytes())?;
        let mut target = Target { kubeconfig: Some(file.path().to_owned()), ..Target::default() };
        change(&mut target);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(runtime.block_on(target.config())?)
    }

    fn token(config: &Config) -> Option<String> {
        config.auth_info.token.as_ref().map(|token| token.expose_secret().to_owned())
    }

    #[test]
    fn what_is_said_replaces_what_is_written() {
        let as_written = config(|_| {}).unwrap();
        assert_eq!(as_written.cluster_url, "https://home:6443");
        assert_eq!(as_written.tls_server_name.as_deref(), Some("kubernetes"));
        assert_eq!(token(&as_written).as_deref(), Some("mine"));
        let elsewhere = config(|target| target.server = Some("https://other:1".parse().unwrap())).unwrap();
        assert_eq!(
            (elsewhere.cluster_url, elsewhere.tls_server_name),
            ("https://other:1".parse().unwrap(), None)
        );
        let far = config(|target| target.cluster = Some("far".into())).unwrap();
        assert_eq!(
            (far.cluster_url.clone(), token(&far).as_deref()),
            ("https://far:6443".parse().unwrap(), Some("mine"))
        );
        let guest = config(|target| target.credentials = Some("guest".into())).unwrap();
        assert_eq!(token(&guest).as_deref(), Some("guests"));
    }

    #[test]
    fn credentials_that_are_said_count_alone() {
        let by_token = config(|target| target.identity = Some(Identity::Token("said".into()))).unwrap();
        assert_eq!((token(&by_token).as_deref(), by_token.auth_info.token_file), (Some("said"), None));
        let (certificate, key) = (PathBuf::from("c.pem"), PathBuf::from("k.pem"));
        let by_certificate =
            config(|target| target.identity = Some(Identity::Certificate { certificate, key })).unwrap();
        assert_eq!(token(&by_certificate), None);
        assert_eq!(by_certificate.auth_info.client_certificate.as_deref(), Some("c.pem"));
        assert_eq!(by_certificate.auth_info.client_key.as_deref(), Some("k.pem"));
        let groups = vec!["people".to_owned()];
        let impersonated =
            Impersonated { user: "alice".into(), uid: Some("7".into()), groups, extra: BTreeMap::default() };
        let other = config(|target| target.impersonated = Some(impersonated)).unwrap().auth_info;
        assert_eq!(
            (other.impersonate.as_deref(), other.impersonate_uid.as_deref()),
            (Some("alice"), Some("7"))
        );
        assert_eq!(other.impersonate_groups.as_deref(), Some(&["people".to_owned()][..]));
    }

    /// Kube treats a missing user as none, and sends requests without credentials.
    #[test]
    fn a_user_that_is_not_in_the_kubeconfig_is_named() {
        let error = config(|target| target.credentials = Some("other".into())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the kubeconfig has no user other: kubectl config get-users lists them"
        );
    }

    #[test]
    fn no_formatter_shows_a_token() {
        let target = Target { identity: Some(Identity::Token("said".into())), ..Target::default() };
        assert!(!format!("{target:?}").contains("said"), "{target:?}");
    }

    #[test]
    fn authorities_come_from_a_file_or_it_is_said_which_has_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let error = config(|target| target.trust.authority = Some(path)).unwrap_err();
        assert!(error.to_string().starts_with("cannot read CA certificates from /"), "{error}");
    }
}
