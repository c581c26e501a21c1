//! The webhook's leaf certificate: issued in memory from the CA, or mounted. Its age is checked by the wall
//! clock (a sleep over the leaf's lifetime would stand still while the machine is suspended: cert-manager PR
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
    observe::mounted::Mounted,
    serve::{Condition, ServingCert},
};

/// How often CA and leaf are checked once there is a leaf.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How often they are looked for before.
const LOOK_FOR: Duration = Duration::from_millis(500);
/// How often mounted files are read, which costs the API server nothing.
const LOOK_AT_FILES: Duration = Duration::from_secs(2);
/// How often the clock is checked.
const TICK: Duration = Duration::from_millis(500);

/// Keeps a good leaf in use. The last good one stays if none can be found.
pub(super) struct LeafKeeper {
    serving: Arc<ServingCert>,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    times: Times,
    /// After how long a leaf is replaced; `None`: after two thirds of its life.
    renewal: Option<Duration>,
    /// Whether there is a leaf that is valid now.
    certificate: Condition,
    /// Problems beside a valid leaf.
    amiss: Condition,
    /// Fingerprint of the CA that signed the leaf.
    signed_by: Option<String>,
    /// Which CAs callers trust, where the leaf is mounted.
    trust: Trust,
    /// Whether callers trust the leaf in use. Once they do, they keep trusting it, since the hooks keep a CA
    /// for longer than it is mounted.
    trusted: bool,
}

/// What the keeper reads.
pub(super) struct Sources<F, C, R, T> {
    /// Finds what to serve with.
    pub(super) find: F,
    /// Reads the CA bundles of the hooks; only called while it is unclear whether callers trust the mounted
    /// leaf.
    pub(super) carriers: C,
    /// How many callers have refused the certificate: they may trust another CA already.
    pub(super) refusals: R,
    /// The wall clock, except in tests.
    pub(super) clock: T,
}

/// Checks the leaf until told to stop. It also does so as soon as the clock shows that the machine has slept
/// past the leaf's end or was set back, and as soon as a caller refuses the leaf. Any client that connects
/// can do that, so it causes two checks per second at most.
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
    /// Keeps `serving` up to date, and reports to both conditions: to `certificate` whether there is a valid
    /// leaf, to `amiss` other problems.
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

    /// Takes what was found at `now` into use if it is better than what is in use. Returns when to look
    /// again. Every fault is logged once.
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
                    tracing::info!("the serving certificate is in order");
                }
            }
            (Err(why), Some(leaf)) if self.trusted => {
                self.certificate.holds();
                let ends = rfc3339(leaf.not_after());
                let text = format!("{why}; the last good serving certificate is kept, until {ends}");
                if self.amiss.missing(text.as_str()) {
                    tracing::warn!("{text}");
                }
            }
            (used, _) => {
                self.amiss.holds();
                let why = used.err().unwrap_or_else(|| "the serving certificate is not valid now".into());
                if self.certificate.missing(why.as_str()) {
                    tracing::warn!("no serving certificate that callers trust: {why}");
                }
            }
        }
        match in_use {
            None => LOOK_FOR,
            Some(_) if by_files => LOOK_AT_FILES,
            // There are always two checks between two thirds of the leaf's life, when it is due, and its end.
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
        // Each step of a rotation has waited for the hooks.
        self.trusted = true;
        Ok(())
    }

    /// When a leaf of ours is due.
    fn renewal_at(&self, leaf: Validity) -> SystemTime {
        let early = self.renewal.and_then(|after| (leaf.not_after() - leaf.lifetime()).checked_add(after));
        early.map_or(leaf.renewal_at(), |early| early.min(leaf.renewal_at()))
    }

    /// Whether judging this leaf needs the CA bundles of the hooks.
    fn asks(&self, mounted: &Mounted, now: SystemTime) -> bool {
        let is_valid = mounted.chain.first().is_some_and(|leaf| leaf.validity().contains(now));
        is_valid && !self.trust.is_settled(mounted, now)
    }

    fn load(&mut self, mounted: &Mounted, carriers: &Carriers, now: SystemTime) -> Result<(), String> {
        let Some(leaf) = mounted.chain.first() else { return Err("tls.crt holds no certificate".into()) };
        let (subject, validity) = (leaf.subject(), leaf.validity());
        if !validity.contains(now) {
            let (from, to) = (rfc3339(validity.not_before()), rfc3339(validity.not_after()));
            return Err(format!("the mounted certificate of `{subject}` is valid from {from} to {to} only"));
        }
        let own = self.trust.own(mounted, now);
        let trusted = self.trust.judge(mounted, carriers, now);
        let in_use = self.serving.leaf();
        if in_use.as_ref() != Some(leaf) {
            // A leaf that callers trust is kept to its end, or until they trust the next one. Any leaf is
            // better than none, though not ready.
            let lasts = in_use.is_some_and(|leaf| leaf.validity().contains(now + LOOK_AT_FILES));
            if lasts && self.trusted {
                own.clone().and_then(|()| trusted.clone())?;
            }
            self.serving.install(&mounted.chain_pem, &mounted.key).map_err(|error| error.to_string())?;
            tracing::info!(leaf = leaf.fingerprint(), "a new serving certificate is in use");
            self.trusted = false;
        }
        self.trusted |= trusted.is_ok();
        if self.trusted { own } else { trusted }
    }
}

/// The names and addresses that the API server looks for in the certificate.
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
