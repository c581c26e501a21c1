//! Sources of the leaf: the CA in the Secret or a mounted leaf, and the CA bundles of the hooks.

use copyrator_certs::{CaSecret, Carried, Certificate};
use kube::Client;

use crate::{
    config::Config,
    observe::hooks::live_hooks,
    read::ca::read_ca,
    run::causes::with_all_causes,
    serve::mounted::{self, Mounted},
};

/// A CA, or a mounted leaf.
pub(in crate::run) enum LeafSource {
    /// A CA to issue a leaf with.
    Ca(Box<CaSecret>),
    /// A mounted leaf, and the CA bundles of the hooks if they were needed.
    Mounted(Box<Mounted>, Carriers),
}

/// The CA bundles of the hooks.
#[derive(Clone, Debug)]
pub(in crate::run) enum Carriers {
    /// The bundles have not been read, for this reason.
    Unread(String),
    /// This process may not read the bundles, or a hook has no bundle.
    Unknowable,
    /// The bundles by hook; empty without any hook.
    Hooks(Vec<Carrier>),
}

/// A hook with its CA bundle.
#[derive(Clone, Debug)]
pub(in crate::run) struct Carrier {
    /// Name of the hook.
    pub(super) hook: String,
    /// The certificates in the hook's `caBundle`.
    pub(super) bundle: Vec<Certificate>,
}

/// Reads the mounted leaf if the configuration names a directory, or else the CA in the Secret.
///
/// # Errors
/// Returns the reason why neither is usable.
pub(in crate::run) async fn find(client: &Client, config: &Config) -> Result<LeafSource, String> {
    if let Some(dir) = &config.tls_dir {
        return mounted::pair(dir)
            .map(|pair| LeafSource::Mounted(Box::new(pair), Carriers::not_needed()))
            .map_err(|error| error.to_string());
    }
    let ca = read_ca(client, &config.namespace).await.map_err(|error| with_all_causes(&error))?;
    ca.map(|ca| LeafSource::Ca(Box::new(ca))).ok_or_else(|| "the reconciler has not created a CA yet".into())
}

/// Reads the CA bundles of the hooks.
pub(in crate::run) async fn carriers(client: &Client) -> Carriers {
    match live_hooks(client).await {
        Ok(hooks) => Carriers::of(hooks.carried()),
        Err(error) if error.is_forbidden() => Carriers::Unknowable,
        Err(error) => Carriers::Unread(with_all_causes(&error)),
    }
}

impl Carriers {
    /// Stands for the bundles while the keeper does not need them.
    pub(super) fn not_needed() -> Self {
        Self::Unread("the process has not read the webhook configurations yet".into())
    }

    /// Collects the bundles. A bundle that cannot be decoded accepts no leaf. For a hook without a bundle,
    /// the API server's own trust store decides.
    fn of(carried: Vec<Carried>) -> Self {
        if carried.iter().any(|it| it.bundle.is_empty()) {
            return Self::Unknowable;
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
        assert_eq!(counted(&[&pem, ""]), Err("Unknowable".into()));
    }
}
