//! Finds what to serve with, and which CAs the hooks make their callers trust.

use copyrator_certs::{CaSecret, Carried, Certificate};
use kube::Client;

use crate::{
    act::certificates::read_ca,
    config::Config,
    observe::{
        hooks::live_hooks,
        mounted::{self, Mounted},
    },
    run::logging::with_all_causes,
};

/// What the webhook's certificate is made from.
pub(in crate::run) enum LeafSource {
    /// A CA to issue a leaf with.
    Ca(Box<CaSecret>),
    /// A mounted leaf, and which CAs callers trust, if that was asked.
    Mounted(Box<Mounted>, Carriers),
}

/// The CA bundles of the hooks.
#[derive(Clone, Debug)]
pub(in crate::run) enum Carriers {
    /// They were not needed.
    NotAsked,
    /// They cannot be read, for this reason.
    Unread(String),
    /// By hook; empty where there is no hook.
    Hooks(Vec<Carrier>),
}

/// A hook with its CA bundle.
#[derive(Clone, Debug)]
pub(in crate::run) struct Carrier {
    /// Name of the hook.
    pub(super) hook: String,
    /// The certificates in its `caBundle`.
    pub(super) bundle: Vec<Certificate>,
}

/// What there is now: mounted, or in the Secret.
///
/// # Errors
/// Why there is nothing usable.
pub(in crate::run) async fn find(client: &Client, config: &Config) -> Result<LeafSource, String> {
    if let Some(dir) = &config.tls_dir {
        return mounted::pair(dir)
            .map(|pair| LeafSource::Mounted(Box::new(pair), Carriers::NotAsked))
            .map_err(|error| error.to_string());
    }
    let ca = read_ca(client, &config.namespace).await.map_err(|error| with_all_causes(&error))?;
    ca.map(|ca| LeafSource::Ca(Box::new(ca))).ok_or_else(|| "the reconciler has not made a CA yet".into())
}

/// Reads the CA bundles of the hooks.
pub(in crate::run) async fn carriers(client: &Client) -> Carriers {
    match live_hooks(client).await {
        Ok(hooks) => Carriers::of(hooks.carried()),
        Err(error) => Carriers::Unread(with_all_causes(&error)),
    }
}

impl Carriers {
    /// A bundle that cannot be decoded vouches for no leaf. Without a bundle, the API server's own trust
    /// store decides.
    fn of(carried: Vec<Carried>) -> Self {
        if let Some(without) = carried.iter().find(|it| it.bundle.is_empty()) {
            let hook = &without.hook;
            return Self::Unread(format!(
                "hook {hook} carries no caBundle, so that its callers trust others"
            ));
        }
        let carrier = |it: Carried| Carrier {
            bundle: Certificate::all_from_pem(&it.bundle).unwrap_or_default(),
            hook: it.hook,
        };
        Self::Hooks(carried.into_iter().map(carrier).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use copyrator_certs::Authority;

    use super::*;

    #[test]
    fn a_hook_without_a_bundle_says_nothing_of_whom_its_callers_trust() {
        let pem = Authority::issue("ca", SystemTime::now(), Duration::from_secs(60)).unwrap().cert_pem();
        let carried = |bundles: &[&str]| -> Vec<Carried> {
            bundles.iter().map(|it| Carried { hook: "h".into(), bundle: (*it).to_owned() }).collect()
        };
        let counted = |bundles: &[&str]| match Carriers::of(carried(bundles)) {
            Carriers::Hooks(hooks) => Ok(hooks.iter().map(|it| it.bundle.len()).collect::<Vec<_>>()),
            other => Err(format!("{other:?}")),
        };
        assert_eq!(counted(&[]), Ok(vec![]));
        assert_eq!(counted(&[&pem, "torn", &(pem.clone() + &pem)]), Ok(vec![1, 0, 2]));
        assert!(counted(&[&pem, ""]).unwrap_err().contains("hook h carries no caBundle"));
    }
}
