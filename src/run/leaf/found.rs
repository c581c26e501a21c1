//! What there is to serve with, and whom the hooks have their callers trust.

use copyrator_certs::{CaSecret, Carried, Certificate};
use kube::Client;

use super::with_causes;
use crate::{
    act::certificates::read_ca,
    config::Config,
    observe::{
        hooks::live_hooks,
        mounted::{self, Mounted},
    },
};

/// What there is to serve with.
pub(in crate::run) enum Found {
    /// A CA to mint with.
    Ca(Box<CaSecret>),
    /// A leaf as it is, and whom callers trust, as far as that was asked.
    Mounted(Box<Mounted>, Carriers),
}

/// Whom the hooks' callers trust.
#[derive(Clone, Debug)]
pub(in crate::run) enum Carriers {
    /// There was no need to know.
    NotAsked,
    /// It cannot be known, and why.
    Unread(String),
    /// By each hook; nothing where no hook is there.
    Hooks(Vec<Carrier>),
}

/// A hook.
#[derive(Clone, Debug)]
pub(in crate::run) struct Carrier {
    /// Its name.
    pub(super) hook: String,
    /// Its `caBundle`.
    pub(super) bundle: Vec<Certificate>,
}

/// What there is now: mounted, or in the Secret.
///
/// # Errors
/// Why there is nothing to be used.
pub(in crate::run) async fn find(client: &Client, config: &Config) -> Result<Found, String> {
    if let Some(dir) = &config.tls_dir {
        return mounted::pair(dir)
            .map(|pair| Found::Mounted(Box::new(pair), Carriers::NotAsked))
            .map_err(|error| error.to_string());
    }
    let ca = read_ca(client, &config.namespace).await.map_err(|error| with_causes(&error))?;
    ca.map(|ca| Found::Ca(Box::new(ca))).ok_or_else(|| "the reconciler has not made a CA yet".into())
}

/// Whom the hooks carry now.
pub(in crate::run) async fn carriers(client: &Client) -> Carriers {
    match live_hooks(client).await {
        Ok(hooks) => Carriers::of(hooks.carried()),
        Err(error) => Carriers::Unread(with_causes(&error)),
    }
}

impl Carriers {
    /// A bundle that cannot be decoded vouches for no leaf; without a bundle the API server decides whom it
    /// trusts.
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
