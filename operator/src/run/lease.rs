//! Leader election with a `coordination.k8s.io` Lease.
//!
//! [`decide`] decides when a candidate may lead, [`leadership`] is the resulting right, and the loop in this
//! file calls the API server. Every write replaces the version that it is based on, so only one of two
//! candidates succeeds; the election never patches.

pub(crate) mod decide;
pub(crate) mod leadership;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, watcher::Config};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::connect::WriteClient;

pub(crate) use decide::{LeaseTimings, ObservedLease, State, Step, holder};
pub(crate) use leadership::{Leader, Leadership};

/// Timeout of the Lease's watch, in seconds. After the timeout, the elector notices a dead connection.
const WATCH_SECONDS: u32 = 60;

/// The longest wait before a candidate takes a released Lease, in milliseconds. Each candidate waits
/// differently.
const JITTER_MS: u32 = 500;

/// Why an election could not be set up. No error ends a running election.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The operating system gives no random bytes.
    #[error("cannot make an identity for the Lease `{name}`: no random bytes")]
    Random {
        /// Name of the Lease object.
        name: String,
    },
}

/// A candidate. Dropping a candidate ends the candidacy without releasing the Lease: other candidates wait
/// until the Lease expires.
pub(crate) struct Elector {
    api: Api<Lease>,
    name: String,
    identity: String,
    terms: LeaseTimings,
    jitter: Duration,
    state: State,
    seen: ObservedLease,
    leadership: watch::Sender<Option<Leadership>>,
    /// The term of the latest token.
    term: u64,
}

impl Elector {
    /// Creates a candidate for the Lease `name` in `namespace`. The candidate's identity is `host` (the pod's
    /// name) with a random suffix: a restarted container must not be mistaken for the previous container.
    ///
    /// # Errors
    /// [`LeaseError::Random`].
    pub(crate) fn new(
        client: &WriteClient,
        namespace: &str,
        name: &str,
        host: &str,
        terms: LeaseTimings,
    ) -> Result<(Self, Leader), LeaseError> {
        let mut random = [0; 8];
        SystemRandom::new().fill(&mut random).map_err(|_| LeaseError::Random { name: name.to_owned() })?;
        let [a, b, c, d, suffix @ ..] = random;
        let (leadership, leader) = Leader::channel();
        let elector = Self {
            api: Api::namespaced(client.client(), namespace),
            name: name.to_owned(),
            identity: format!("{host}_{:08x}", u32::from_be_bytes(suffix)),
            terms,
            jitter: Duration::from_millis((u32::from_be_bytes([a, b, c, d]) % JITTER_MS).into()),
            state: State { renewed: None, not_before: Instant::now(), stale: true },
            seen: ObservedLease::Absent(None),
            leadership,
            term: 0,
        };
        Ok((elector, leader))
    }

    /// Runs for election until `release` is cancelled, and releases the Lease afterwards. Cancel `release`
    /// only when this process writes no more: another replica may write from that moment on.
    pub(crate) async fn run(mut self, release: CancellationToken) {
        // A watch notices a change of the Lease at once, so a clean hand-over takes milliseconds.
        let config = Config::default().fields(&format!("metadata.name={}", self.name)).timeout(WATCH_SECONDS);
        let mut events = watcher(self.api.clone(), config).default_backoff().boxed();
        let mut listed = false;
        while !release.is_cancelled() {
            let now = Instant::now();
            match decide::next(&self.identity, &self.terms, self.jitter, self.state, &self.seen, now) {
                Step::Resign => self.step_down(),
                Step::Read => self.look().await,
                Step::Create | Step::Take => self.take(now).await,
                Step::Wait(until) => tokio::select! {
                    () = release.cancelled() => {}
                    () = tokio::time::sleep_until(until) => {}
                    Some(event) = events.next() => self.observe(event, &mut listed),
                },
            }
        }
        self.release().await;
    }

    fn step_down(&mut self) {
        warn!(lease = self.name, "not the leader any more");
        self.leadership.send_replace(None);
        self.state.renewed = None;
    }

    async fn look(&mut self) {
        match self.call(self.api.get_opt(&self.name)).await {
            Ok(read) => {
                self.seen = self.seen.after(read, Instant::now());
                self.state.stale = false;
            }
            Err(failure) => self.failed("read", &failure),
        }
    }

    /// Writes this candidate as the holder. If the write succeeds, the right to lead begins at `begun`.
    async fn take(&mut self, begun: Instant) {
        let params = PostParams::default();
        let written = match &self.seen {
            ObservedLease::Absent(_) => {
                let mut fresh = Lease { spec: Some(self.claim(None)), ..Lease::default() };
                fresh.metadata.name = Some(self.name.clone());
                self.call(self.api.create(&params, &fresh)).await
            }
            // Keeps the rest of the object, above all the resource version that the write is based on.
            ObservedLease::Present(lease, _) => {
                let mut ours = Lease::clone(lease);
                ours.spec = Some(self.claim(ours.spec.as_ref()));
                self.call(self.api.replace(&self.name, &params, &ours)).await
            }
        };
        match written {
            Ok(lease) => {
                self.seen = self.seen.after(Some(lease), Instant::now());
                if self.state.renewed.replace(begun).is_none() {
                    info!(lease = self.name, identity = self.identity, "leading");
                }
                self.lead_until(begun + self.terms.give_up);
            }
            // Another candidate wrote the Lease first, which is no error, but our knowledge is outdated.
            Err(CallError::Api(kube::Error::Api(status)))
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
            {
                self.state.stale = true;
            }
            Err(failure) => self.failed("write", &failure),
        }
    }

    /// Extends the right to lead. If the right had expired, writes were refused in between, so a new term
    /// begins.
    fn lead_until(&mut self, valid_until: Instant) {
        let term = &mut self.term;
        // `send_modify` locks the token, so no reader sees the old token after this closure reads the clock.
        self.leadership.send_modify(|token| {
            if !token.is_some_and(|token| token.is_valid(Instant::now())) {
                *term += 1;
            }
            *token = Some(Leadership { term: *term, valid_until });
        });
    }

    /// Returns the Lease's spec with this candidate as holder. The times in the spec are for people; our
    /// candidates do not read them.
    fn claim(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let before = before.cloned().unwrap_or_default();
        let kept = before.holder_identity.as_deref() == Some(&self.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(
                i32::try_from(self.terms.lease.as_secs()).unwrap_or(i32::MAX).max(1),
            ),
            acquire_time: before.acquire_time.filter(|_| kept).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if kept { transitions } else { transitions.saturating_add(1) }),
            ..before
        }
    }

    fn observe(&mut self, event: Result<Event<Lease>, watcher::Error>, listed: &mut bool) {
        let now = Instant::now();
        match event {
            Ok(Event::Apply(lease) | Event::InitApply(lease)) => {
                *listed = true;
                if !self.seen.is_newer_than(&lease) {
                    self.seen = self.seen.after(Some(lease), now);
                }
            }
            Ok(Event::Delete(lease)) if !self.seen.is_newer_than(&lease) => {
                self.seen = self.seen.after(None, now);
            }
            Ok(Event::Init) => *listed = false,
            // The list may be older than a Lease that we have created since, so the elector reads the Lease.
            Ok(Event::InitDone) => self.state.stale |= !*listed,
            Ok(Event::Delete(_)) => {}
            // Without the watch, the elector learns of a release later; the stream recovers by itself.
            Err(failure) => debug!(lease = self.name, error = %failure, "cannot watch the Lease"),
        }
    }

    /// Releases the Lease if this candidate holds it. The right to lead ends first, whatever the API server
    /// answers.
    async fn release(mut self) {
        self.leadership.send_replace(None);
        for _ in 0..2 {
            if self.state.stale {
                self.look().await;
            }
            let ObservedLease::Present(lease, _) = &self.seen else { return };
            if holder(lease) != Some(&self.identity) {
                return;
            }
            let mut free = Lease::clone(lease);
            if let Some(spec) = &mut free.spec {
                spec.holder_identity = None;
                spec.renew_time = Some(MicroTime(Timestamp::now()));
            }
            match self.call(self.api.replace(&self.name, &PostParams::default(), &free)).await {
                Ok(_) => return info!(lease = self.name, "released"),
                Err(failure) => self.failed("release", &failure),
            }
            self.state.stale = true;
        }
    }

    async fn call<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
        Ok(tokio::time::timeout(self.terms.call, call).await.map_err(|_| CallError::TooSlow)??)
    }

    fn failed(&mut self, attempt: &'static str, failure: &CallError) {
        warn!(lease = self.name, attempt, error = %failure, "call for the Lease failed");
        self.state.not_before = Instant::now() + self.terms.retry;
    }
}

#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("no answer in time")]
    TooSlow,
    #[error("{}", brief(.0))]
    Api(#[from] kube::Error),
}

/// Formats the API server's answer without its message, which kube would print twice.
fn brief(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.reason),
        other => other.to_string(),
    }
}
