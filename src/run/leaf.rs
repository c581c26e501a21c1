//! The webhook's own leaf certificate: minted in memory from the CA, or mounted; looked at by the wall clock (a sleep over
//! the leaf's lifetime would stand still while the machine is suspended: cert-manager PR 8464).

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use copyrator_certs::{CaSecret, Certificate, Times, service_names, validity::rfc3339};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::{
    act::certificates::read_ca,
    config::Config,
    hooks::Endpoint,
    observe::mounted::{self, Mounted},
    serve::{Condition, ServingCert},
};

/// How often CA and leaf are looked at once there is one.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How often they are looked for before.
const LOOK_FOR: Duration = Duration::from_millis(500);
/// How often mounted files are looked at: reading them asks nobody.
const LOOK_AT_FILES: Duration = Duration::from_secs(2);
/// How often the clock is looked at.
const TICK: Duration = Duration::from_millis(500);
/// So many propagation times a mounted leaf waits of a CA that the hooks do not carry yet: the reconciler's volume may
/// change some minutes after ours.
const SETTLE: u32 = 3;

/// What there is to serve with.
pub(super) enum Found {
    /// A CA to mint with.
    Ca(Box<CaSecret>),
    /// A leaf as it is.
    Mounted(Box<Mounted>),
}

/// Keeps a good leaf in use; the last good one stays when a look finds none.
pub(super) struct LeafKeeper {
    serving: Arc<ServingCert>,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    times: Times,
    /// There is a leaf that is valid now.
    certificate: Condition,
    /// What is amiss although there is one.
    amiss: Condition,
    /// Fingerprint of the CA that signed the leaf.
    signed_by: Option<String>,
    /// The mounted authorities that hooks carry by now.
    settled: Vec<Certificate>,
    /// Those that come after them, and since when.
    coming: Option<(Vec<Certificate>, SystemTime)>,
}

/// Looks until told to stop, by a clock that is the wall's but in tests: also as soon as it shows that the machine has slept
/// past the leaf's end, or has gone back.
pub(super) async fn keep_leaf<F: Future<Output = Result<Found, String>>>(
    mut keeper: LeafKeeper,
    find: impl Fn() -> F,
    clock: impl Fn() -> SystemTime,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let found = find().await;
        let looked = clock();
        let due = looked + keeper.look(found, looked);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(TICK) => {}
            }
            let now = clock();
            if due <= now || now < looked || !keeper.is_valid(now) {
                break;
            }
        }
    }
}

/// What there is now: mounted, or in the Secret.
pub(super) async fn find(client: &Client, config: &Config) -> Result<Found, String> {
    if let Some(dir) = &config.tls_dir {
        return mounted::pair(dir)
            .map(|pair| Found::Mounted(Box::new(pair)))
            .map_err(|error| error.to_string());
    }
    let ca = read_ca(client, &config.namespace).await.map_err(|error| with_causes(&error))?;
    ca.map(|ca| Found::Ca(Box::new(ca))).ok_or_else(|| "the reconciler has not made a CA yet".into())
}

impl LeafKeeper {
    /// Keeps `serving` and tells both conditions how it stands: `certificate`, whether there is a valid leaf; `amiss`,
    /// what should be better all the same.
    pub(super) fn new(
        config: &Config,
        serving: Arc<ServingCert>,
        certificate: Condition,
        amiss: Condition,
    ) -> Self {
        let (names, addresses) = subjects(&config.endpoint);
        Self {
            serving,
            names,
            addresses,
            times: config.certificate_times,
            certificate,
            amiss,
            signed_by: None,
            settled: Vec::new(),
            coming: None,
        }
    }

    /// One look, at `now`: uses what was found where that is better than what is in use. When to look again. Every fault is
    /// logged once.
    pub(super) fn look(&mut self, found: Result<Found, String>, now: SystemTime) -> Duration {
        let by_files = matches!(found, Ok(Found::Mounted(_)));
        let used = found.and_then(|found| match found {
            Found::Ca(ca) => self.mint(&ca, now),
            Found::Mounted(mounted) => self.load(&mounted, now),
        });
        let in_use = self.serving.leaf().map(|leaf| leaf.validity()).filter(|leaf| leaf.contains(now));
        match (used, in_use) {
            (Ok(()), Some(_)) => {
                if self.certificate.holds() | self.amiss.holds() {
                    tracing::info!("the serving certificate is in order");
                }
            }
            (Err(why), Some(leaf)) => {
                self.certificate.holds();
                let ends = rfc3339(leaf.not_after());
                let text = format!("{why}; the last good serving certificate is kept, until {ends}");
                if self.amiss.missing(text.as_str()) {
                    tracing::warn!("{text}");
                }
            }
            (used, None) => {
                self.amiss.holds();
                let why = used.err().unwrap_or_else(|| "the serving certificate is not valid now".into());
                if self.certificate.missing(why.as_str()) {
                    tracing::warn!("no serving certificate: {why}");
                }
            }
        }
        match in_use {
            None => LOOK_FOR,
            Some(_) if by_files => LOOK_AT_FILES,
            // Between two thirds of its life, when it is due, and its end there are always two looks.
            Some(_) => LOOK_EVERY.min(self.times.leaf_lifetime / 8),
        }
    }

    /// Whether what is served is valid at `now`.
    fn is_valid(&self, now: SystemTime) -> bool {
        self.serving.leaf().is_some_and(|leaf| leaf.validity().contains(now))
    }

    fn mint(&mut self, ca: &CaSecret, now: SystemTime) -> Result<(), String> {
        let fingerprint = ca.current.fingerprint();
        let is_fresh = self
            .serving
            .leaf()
            .is_some_and(|leaf| leaf.validity().contains(now) && now < leaf.validity().renewal_at());
        if is_fresh && self.signed_by.as_deref() == Some(&fingerprint) {
            return Ok(());
        }
        let leaf = ca
            .current
            .issue_leaf(&self.names, &self.addresses, now, self.times.leaf_lifetime)
            .map_err(|error| format!("cannot issue a serving certificate: {error}"))?;
        self.serving.install(&leaf.chain_pem, &leaf.key_pem).map_err(|error| error.to_string())?;
        tracing::info!(ca = fingerprint, "a new serving certificate is in use");
        self.signed_by = Some(fingerprint);
        Ok(())
    }

    fn load(&mut self, mounted: &Mounted, now: SystemTime) -> Result<(), String> {
        self.settle(&mounted.authorities, now);
        let in_use = self.serving.leaf();
        let Some(leaf) = mounted.chain.first() else { return Err("tls.crt holds no certificate".into()) };
        let (subject, validity) = (leaf.subject(), leaf.validity());
        if !validity.contains(now) {
            let (from, to) = (rfc3339(validity.not_before()), rfc3339(validity.not_after()));
            return Err(format!("the mounted certificate of `{subject}` is valid from {from} to {to} only"));
        }
        if in_use.as_ref() == Some(leaf) {
            return self.trusted(mounted, now);
        }
        let trusted = self.trusted(mounted, now);
        // What is in use is better than what nobody may trust; what nobody may trust is better than nothing.
        if in_use.is_some_and(|leaf| leaf.validity().contains(now + self.settle_time())) {
            trusted.clone()?;
        }
        self.serving.install(&mounted.chain_pem, &mounted.key).map_err(|error| error.to_string())?;
        tracing::info!(leaf = leaf.fingerprint(), "a new serving certificate is in use");
        trusted
    }

    fn trusted(&self, mounted: &Mounted, now: SystemTime) -> Result<(), String> {
        let address = self.addresses.first().map(IpAddr::to_string);
        let name = self.names.first().cloned().or(address).unwrap_or_default();
        mounted::accepts(&self.settled, &mounted.chain, &name, now).map_err(|why| match &self.coming {
            None => format!(
                "the mounted tls.crt is not one that the mounted ca.crt vouches for, as `{name}`: {why}"
            ),
            Some((_, since)) => format!(
                "the mounted tls.crt is of a CA that hooks may not carry before {}",
                rfc3339(*since + self.settle_time())
            ),
        })
    }

    /// Authorities count once the reconciler has had the time to see them and the API servers to take them up. The first
    /// count at once: there is no better.
    fn settle(&mut self, mounted: &[Certificate], now: SystemTime) {
        if self.settled.is_empty() || self.settled == mounted {
            (self.settled, self.coming) = (mounted.to_vec(), None);
            return;
        }
        let since = match self.coming.take() {
            Some((coming, since)) if coming == mounted && since <= now => since,
            _ => now,
        };
        if since + self.settle_time() <= now {
            self.settled = mounted.to_vec();
        } else {
            self.coming = Some((mounted.to_vec(), since));
        }
    }

    fn settle_time(&self) -> Duration {
        self.times.propagation * SETTLE
    }
}

/// What the API server will look for in the certificate.
fn subjects(endpoint: &Endpoint) -> (Vec<String>, Vec<IpAddr>) {
    match endpoint {
        Endpoint::Service { name, namespace, .. } => (service_names(name, namespace).to_vec(), Vec::new()),
        Endpoint::Url(url) => {
            let host = url
                .parse::<http::Uri>()
                .ok()
                .and_then(|uri| uri.host().map(str::to_owned))
                .unwrap_or_default();
            match host.trim_matches(['[', ']']).parse() {
                Ok(address) => (Vec::new(), vec![address]),
                Err(_) => (vec![host], Vec::new()),
            }
        }
    }
}

/// An error with what caused it, in one line.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests;
