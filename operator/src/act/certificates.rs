//! The CA that the hooks' callers trust: our own CA in a Secret, which this module rotates step by step, or a
//! mounted CA.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use copyrator_certs::{Authority, CaSecretError, Carried, CertError, Certificate, Rotation, Step, Times};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::PostParams};

use super::{
    ca_secret::{encode, update},
    writer::{WriteError, Writer},
};
use crate::{
    config::Config,
    connect::WRITE_TIMEOUT,
    marks::CA_SECRET,
    observe::hooks::{LiveHooksError, live_hooks},
    read::ca::{CaReadError, read_ca_secret, rotation_of},
    serve::{
        Condition,
        mounted::{self, MountError},
    },
};

/// Number of propagation times after which the keeper replaces a Secret without a usable CA. Until the
/// replacement, people can repair the Secret.
const TORN_FOR: u32 = 10;
/// Number of propagation times for which a CA stays trusted after its last mount.
const UNMOUNTED_FOR: u32 = 10;
/// Delay until the keeper checks the CA again after a rotation step.
const NEXT_STEP: Duration = Duration::from_secs(1);
/// How often a mounted CA is read.
const MOUNTED: Duration = Duration::from_secs(15);

/// Why no CA is available.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaError {
    /// The API server refused, or could not be reached.
    #[error("cannot {attempt}")]
    Api {
        /// The attempted request and its object, in words.
        attempt: String,
        /// The error of the API server or the client.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("cannot {attempt}: no answer in {WRITE_TIMEOUT:?}")]
    Timeout {
        /// The attempted request and its object, in words.
        attempt: String,
    },
    /// The Secret cannot be read, or does not hold a CA.
    #[error(transparent)]
    Read(#[from] CaReadError),
    /// No certificate could be issued.
    #[error("cannot issue the webhook's CA")]
    Issue(#[source] CertError),
    /// The CA bundles of the hooks could not be read.
    #[error(transparent)]
    Hooks(#[from] LiveHooksError),
    /// The mounted files contain no usable CA.
    #[error(transparent)]
    Mounted(#[from] MountError),
    /// A different replica may be the leader: nothing was written.
    #[error("not leading")]
    NotLeading,
}

/// Maintains the CA while this process leads. Clones share the keeper's memory.
#[derive(Clone)]
pub(crate) struct CaKeeper {
    client: Client,
    writer: Writer,
    namespace: String,
    times: Times,
    tls_dir: Option<PathBuf>,
    told: Condition,
    memory: Arc<Mutex<Memory>>,
}

/// The keeper's memory of the CA; a new leader starts without it.
#[derive(Default)]
struct Memory {
    /// The last rotation that the keeper read or wrote.
    good: Option<Rotation>,
    /// Since when the Secret contains no CA.
    torn: Option<SystemTime>,
    /// The mounted certificates, and when each was last mounted.
    mounted: Vec<(Certificate, SystemTime)>,
    again: Duration,
}

impl CaKeeper {
    /// Creates a keeper that reads through `client`, writes through `writer`, and reports problems beside a
    /// usable CA to `told`.
    pub(crate) fn new(client: Client, writer: Writer, config: &Config, told: Condition) -> Self {
        Self {
            client,
            writer,
            namespace: config.namespace.clone(),
            times: config.certificate_times,
            tls_dir: config.tls_dir.clone(),
            told,
            memory: Arc::default(),
        }
    }

    /// Stops reporting: a different replica maintains the CA now.
    pub(crate) fn rest(&self) {
        self.told.holds();
    }

    /// Returns the delay until the next check of the CA.
    pub(crate) fn again(&self) -> Duration {
        self.memory().again
    }

    /// Makes the next step of the rotation if one is due. Returns the CA certificates, as PEM, that the hooks
    /// should trust after the step. If the CA cannot be read, returns the last good certificates.
    ///
    /// # Errors
    /// Returns an error if no CA is available, or the CA bundles of the hooks cannot be read.
    pub(crate) async fn keep(&self, now: SystemTime) -> Result<String, CaError> {
        if let Some(dir) = &self.tls_dir {
            self.memory().again = MOUNTED.min(self.times.propagation);
            if self.memory().mounted.is_empty() {
                self.take_over(now).await?;
            }
            return self.remember_mounted(mounted::authorities(dir), now);
        }
        self.memory().again = self.times.propagation;
        let Some(secret) = read_ca_secret(&self.client, &self.namespace).await? else {
            // A user who deletes the Secret while we run wants a new CA, so the keeper does not restore the
            // remembered CA.
            return self.write(Secret::default(), self.fresh(now)?, now).await;
        };
        match rotation_of(&secret) {
            Ok(rotation) => {
                self.memory().torn = None;
                self.rotate(secret, rotation, now).await
            }
            Err(source) => self.mend(secret, source, now).await,
        }
    }

    async fn rotate(&self, secret: Secret, rotation: Rotation, now: SystemTime) -> Result<String, CaError> {
        let step = rotation.step(&self.carried().await?, &self.times, now);
        if let Step::Wait { after, lacking } = step {
            if lacking.is_empty() {
                self.well();
            } else {
                let hooks = lacking.join(", ");
                self.tell(format!(
                    "the rotation of the CA waits, because the caBundle of {hooks} lacks the next CA: check whether a webhook \
                     configuration has the annotation copyrator.dev/hands-off, or another tool writes it"
                ));
            }
            let bundle = rotation.secret.trust_bundle(now);
            let mut memory = self.memory();
            memory.again = memory.again.min(after.max(NEXT_STEP));
            memory.good = Some(rotation);
            return Ok(bundle);
        }
        let next = rotation.take(&step, &self.times, now).map_err(CaError::Issue)?;
        tracing::info!(?step, ca = next.secret.current.fingerprint(), "the rotation of the CA made a step");
        self.write(secret, next, now).await
    }

    /// Waits before replacing an unreadable Secret, since a person may be repairing it. Without a
    /// replacement, no new replica could start, and in the end no replica could answer.
    async fn mend(&self, secret: Secret, source: CaSecretError, now: SystemTime) -> Result<String, CaError> {
        let (since, good) = {
            let mut memory = self.memory();
            let since = memory.torn.filter(|since| *since <= now).unwrap_or(now);
            memory.torn = Some(since);
            (since, memory.good.clone())
        };
        let good = good.filter(|good| good.secret.current.validity().contains(now));
        let due = since + self.times.propagation * TORN_FOR;
        if due <= now {
            tracing::warn!(
                "Secret {}/{CA_SECRET} has no usable CA; Copyrator replaces the CA by {}",
                self.namespace,
                if good.is_some() { "the last valid CA" } else { "a new one" }
            );
            let replacement = good.map_or_else(|| self.fresh(now), Ok)?;
            return self.write(secret, replacement, now).await;
        }
        let replacement = if good.is_some() { "the last valid CA, which is in use" } else { "a new one" };
        self.tell(format!(
            "Secret {}/{CA_SECRET} has no usable CA ({source}): restore the Secret, or delete it, and Copyrator makes a new CA; at {} \
             Copyrator replaces the CA by {replacement}",
            self.namespace,
            jiff::Timestamp::try_from(due).map_or_else(|_| "?".to_owned(), |due| format!("{due:.0}")),
        ));
        match good {
            Some(good) => Ok(good.secret.trust_bundle(now)),
            None => Err(CaReadError::Torn { namespace: self.namespace.clone(), source }.into()),
        }
    }

    /// Writes the Secret over the version that was read, or creates the Secret. If another process writes the
    /// Secret first, the Secret of that process is used.
    async fn write(&self, read_as: Secret, next: Rotation, now: SystemTime) -> Result<String, CaError> {
        let is_new = read_as.metadata.resource_version.is_none();
        let secret = if is_new { encode(&next) } else { update(read_as, &next) };
        let written = self.writer.send(|client| async {
            let api: Api<Secret> = Api::namespaced(client, &self.namespace);
            let params = PostParams::default();
            if is_new {
                api.create(&params, &secret).await
            } else {
                api.replace(CA_SECRET, &params, &secret).await
            }
        });
        let attempt = || format!("{} {}", if is_new { "make" } else { "write" }, self.name());
        let written = written.await.map_err(|error| match error {
            WriteError::NotLeading => CaError::NotLeading,
            WriteError::Timeout => CaError::Timeout { attempt: attempt() },
            WriteError::Api(source) => CaError::Api { attempt: attempt(), source },
        });
        let next = match written {
            Ok(_) => next,
            Err(CaError::Api { source, .. }) if is_conflict(&source) => {
                let secret = read_ca_secret(&self.client, &self.namespace).await?;
                let torn = |source| CaReadError::Torn { namespace: self.namespace.clone(), source };
                rotation_of(&secret.unwrap_or_default()).map_err(torn)?
            }
            Err(error) => return Err(error),
        };
        self.well();
        let bundle = next.secret.trust_bundle(now);
        let mut memory = self.memory();
        (memory.good, memory.torn, memory.again) = (Some(next), None, NEXT_STEP);
        Ok(bundle)
    }

    fn fresh(&self, now: SystemTime) -> Result<Rotation, CaError> {
        let authority = Authority::issue("copyrator webhook CA", now, self.times.ca_lifetime);
        Ok(Rotation::new(authority.map_err(CaError::Issue)?, now))
    }

    /// Returns the CA bundles of the two webhook configurations, as the API server has them now.
    async fn carried(&self) -> Result<Vec<Carried>, CaError> {
        Ok(live_hooks(&self.client).await?.carried())
    }

    /// Takes over from another leader. That leader may have made the hooks trust further CAs, whose leaves
    /// are still served, so the keeper treats these CAs as mounted until now.
    async fn take_over(&self, now: SystemTime) -> Result<(), CaError> {
        let carried = self.carried().await?;
        let mut memory = self.memory();
        for authority in
            carried.iter().flat_map(|hook| Certificate::all_from_pem(&hook.bundle).unwrap_or_default())
        {
            if memory.mounted.iter().all(|(known, _)| *known != authority) {
                memory.mounted.push((authority, now));
            }
        }
        Ok(())
    }

    /// Returns the mounted certificates, and recently mounted certificates: replicas see a new volume one
    /// after the other.
    fn remember_mounted(
        &self,
        read: Result<Vec<Certificate>, MountError>,
        now: SystemTime,
    ) -> Result<String, CaError> {
        let mut memory = self.memory();
        match read {
            Ok(authorities) => {
                let kept = self.times.propagation * UNMOUNTED_FOR;
                memory.mounted.retain(|(old, seen)| {
                    let gone_for = now.duration_since(*seen).unwrap_or_default();
                    !authorities.contains(old) && gone_for < kept && !old.validity().is_expired(now)
                });
                let present = authorities.into_iter().map(|authority| (authority, now));
                memory.mounted.splice(0..0, present);
                self.well();
            }
            Err(error) if memory.mounted.is_empty() => {
                self.tell(error.to_string());
                return Err(error.into());
            }
            Err(error) => self.tell(format!("{error}; Copyrator still trusts the last valid CA")),
        }
        Ok(memory.mounted.iter().map(|(authority, _)| authority.pem()).collect())
    }

    fn tell(&self, text: String) {
        if self.told.missing(text.as_str()) {
            tracing::warn!("{text}");
        }
    }

    fn well(&self) {
        if self.told.holds() {
            tracing::info!("the CA is valid again");
        }
    }

    fn name(&self) -> String {
        format!("Secret {}/{CA_SECRET} with the webhook's CA", self.namespace)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // The value is always whole, so a panic elsewhere cannot have left it half-written.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
