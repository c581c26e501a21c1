//! The webhook's leaf certificate: issued in memory from the CA, or mounted. The wall clock decides about the
//! leaf's age: a sleep over the leaf's lifetime would stop while the machine is suspended (cert-manager PR
//! 8464).

mod source;
mod trust;

pub(super) use source::{Carriers, LeafSource, carriers, find};

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use copyrator_certs::{CaSecret, Times, Validity, service_names, validity::rfc3339};
use tokio_util::sync::CancellationToken;

use self::trust::Trust;
use crate::{
    config::Config,
    hooks::Endpoint,
    serve::{Condition, ServingCert, mounted::Mounted},
};

/// How often the keeper checks CA and leaf once a leaf exists.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How often the keeper looks for CA and leaf before a leaf exists.
const LOOK_FOR: Duration = Duration::from_millis(500);
/// How often the keeper reads mounted files, which costs the API server nothing.
const LOOK_AT_FILES: Duration = Duration::from_secs(2);
/// How often the keeper compares the clock with its deadlines.
const TICK: Duration = Duration::from_millis(500);

/// Keeps a valid leaf in use. The last good leaf stays in use until a new leaf exists.
pub(super) struct LeafKeeper {
    serving: Arc<ServingCert>,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    times: Times,
    /// Age at which the keeper replaces a leaf; `None`: two thirds of its life.
    renewal: Option<Duration>,
    /// Whether a leaf is valid now.
    certificate: Condition,
    /// Problems that do not affect the valid leaf in use.
    amiss: Condition,
    /// Fingerprint of the CA that signed the leaf.
    signed_by: Option<String>,
    /// The CAs that callers trust, if the leaf is mounted.
    trust: Trust,
    /// Whether callers trust the leaf in use. Callers keep trusting the leaf, since the hooks keep a CA
    /// longer than the CA is mounted.
    trusted: bool,
}

/// The inputs of the keeper.
pub(super) struct Sources<F, C, R, T> {
    /// Finds a CA or a mounted leaf.
    pub(super) find: F,
    /// Reads the CA bundles of the hooks. Called only while it is unclear whether callers trust the mounted
    /// leaf.
    pub(super) carriers: C,
    /// Counts how often callers have refused the certificate: the callers may already trust only a newer CA.
    pub(super) refusals: R,
    /// The wall clock, except in tests.
    pub(super) clock: T,
}

/// Checks the leaf until `stop`: when a check is due, when the clock shows that the leaf has expired (the
/// machine may have slept) or was set back, and when a caller refuses the leaf. Any client can refuse the
/// leaf, so refusals cause at most two checks per second.
pub(super) async fn keep_leaf<
    F: Future<Output = Result<LeafSource, String>>,
    C: Future<Output = Carriers>,
>(
    mut keeper: LeafKeeper,
    sources: Sources<impl Fn() -> F, impl Fn() -> C, impl Fn() -> u64, impl Fn() -> SystemTime>,
    stop: CancellationToken,
) {
    let Sources { find, carriers, refusals, clock } = sources;
    loop {
        let refused = refusals();
        let all = async {
            let mut found = find().await;
            if let Ok(LeafSource::Mounted(mounted, asked)) = &mut found
                && keeper.asks(mounted, clock())
            {
                *asked = carriers().await;
            }
            found
        };
        let found = tokio::select! {
            () = stop.cancelled() => return,
            found = all => found,
        };
        let looked = clock();
        let due = looked + keeper.look(found, looked);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(TICK) => {}
            }
            let now = clock();
            if due <= now || now < looked || !keeper.is_valid(now) || refusals() != refused {
                break;
            }
        }
    }
}

impl LeafKeeper {
    /// Creates a keeper that keeps `serving` up to date. The keeper reports to `certificate` whether a valid
    /// leaf exists, and other problems to `amiss`.
    pub(super) fn new(
        config: &Config,
        serving: Arc<ServingCert>,
        certificate: Condition,
        amiss: Condition,
    ) -> Self {
        let (names, addresses) = subjects(&config.endpoint);
        let name = names.first().cloned().or(addresses.first().map(IpAddr::to_string)).unwrap_or_default();
        Self {
            trust: Trust::new(name, config.certificate_times.propagation, config.reconciler),
            trusted: false,
            serving,
            names,
            addresses,
            times: config.certificate_times,
            renewal: config.leaf_renewal,
            certificate,
            amiss,
            signed_by: None,
        }
    }

    /// Installs the leaf that was found at `now` if it is better than the leaf in use. Returns the delay
    /// until the next check. Logs every fault once.
    pub(super) fn look(&mut self, found: Result<LeafSource, String>, now: SystemTime) -> Duration {
        let by_files = matches!(found, Ok(LeafSource::Mounted(..)));
        let used = found.and_then(|found| match found {
            LeafSource::Ca(ca) => self.mint(&ca, now),
            LeafSource::Mounted(mounted, carriers) => self.load(&mounted, &carriers, now),
        });
        let in_use = self.serving.leaf().map(|leaf| leaf.validity()).filter(|leaf| leaf.contains(now));
        match (used, in_use) {
            (Ok(()), Some(_)) => {
                if self.certificate.holds() | self.amiss.holds() {
                    tracing::info!("the serving certificate is valid");
                }
            }
            (Err(why), Some(leaf)) if self.trusted => {
                self.certificate.holds();
                let ends = rfc3339(leaf.not_after());
                let text =
                    format!("{why}; the process keeps the last valid serving certificate, until {ends}");
                if self.amiss.missing(text.as_str()) {
                    tracing::warn!("{text}");
                }
            }
            (used, _) => {
                self.amiss.holds();
                let why = used.err().unwrap_or_else(|| "the serving certificate is not valid now".into());
                if self.certificate.missing(why.as_str()) {
                    tracing::warn!("there is no serving certificate that callers trust: {why}");
                }
            }
        }
        match in_use {
            None => LOOK_FOR,
            Some(_) if by_files => LOOK_AT_FILES,
            // After two thirds of its life, the leaf is due; at least two checks fit into the last third.
            Some(_) => LOOK_EVERY
                .min(self.times.leaf_lifetime / 8)
                .min(self.renewal.map_or(LOOK_EVERY, |after| after / 2)),
        }
    }

    /// Whether the leaf in use is valid at `now`.
    fn is_valid(&self, now: SystemTime) -> bool {
        self.serving.leaf().is_some_and(|leaf| leaf.validity().contains(now))
    }

    fn mint(&mut self, ca: &CaSecret, now: SystemTime) -> Result<(), String> {
        let fingerprint = ca.current.fingerprint();
        let is_fresh = self
            .serving
            .leaf()
            .is_some_and(|leaf| leaf.validity().contains(now) && now < self.renewal_at(leaf.validity()));
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
        // Callers trust this CA: each step of a CA rotation waits until the hooks have the CA.
        self.trusted = true;
        Ok(())
    }

    /// Returns when to replace a leaf that we issued.
    fn renewal_at(&self, leaf: Validity) -> SystemTime {
        let early = self.renewal.and_then(|after| (leaf.not_after() - leaf.lifetime()).checked_add(after));
        early.map_or(leaf.renewal_at(), |early| early.min(leaf.renewal_at()))
    }

    /// Whether the keeper needs the CA bundles of the hooks to judge this leaf.
    fn asks(&self, mounted: &Mounted, now: SystemTime) -> bool {
        let is_valid = mounted.chain.first().is_some_and(|leaf| leaf.validity().contains(now));
        is_valid && !self.trust.is_settled(mounted, now)
    }

    fn load(&mut self, mounted: &Mounted, carriers: &Carriers, now: SystemTime) -> Result<(), String> {
        let Some(leaf) = mounted.chain.first() else { return Err("tls.crt has no certificate".into()) };
        let (subject, validity) = (leaf.subject(), leaf.validity());
        if !validity.contains(now) {
            let (from, to) = (rfc3339(validity.not_before()), rfc3339(validity.not_after()));
            return Err(format!("the mounted certificate of `{subject}` is valid only from {from} to {to}"));
        }
        let trusted = self.trust.judge(mounted, carriers, now);
        let in_use = self.serving.leaf();
        if in_use.as_ref() != Some(leaf) {
            // A trusted leaf stays until it expires, or until callers trust the next leaf. Without a trusted
            // leaf, any leaf is better than none, but the webhook is not ready with an untrusted leaf.
            let lasts = in_use.is_some_and(|leaf| leaf.validity().contains(now + LOOK_AT_FILES));
            if lasts && self.trusted && trusted.is_err() {
                return trusted;
            }
            self.serving.install(&mounted.chain_pem, &mounted.key).map_err(|error| error.to_string())?;
            tracing::info!(leaf = leaf.fingerprint(), "a new serving certificate is in use");
            self.trusted = false;
        }
        self.trusted |= trusted.is_ok();
        trusted
    }
}

/// Returns the names and addresses that the API server expects in the certificate.
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

#[cfg(test)]
mod tests;
