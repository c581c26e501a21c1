//! Keeps what the hooks' callers trust: the CA of our own, in a Secret, one step of its rotation after the
//! other; or the one that others mount for us.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use copyrator_certs::{Authority, CaSecretError, Carried, CertError, Certificate, Rotation, Step, Times};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::PostParams};

use super::{
    ca_secret::{decode, encode, update},
    lead::WRITE_TIMEOUT,
    writer::{WriteError, Writer},
};
use crate::{
    config::Config,
    marks::CA_SECRET,
    observe::{
        hooks::{LiveHooksError, live_hooks},
        mounted::{self, MountError},
    },
    serve::Condition,
};

/// For so many propagation times a Secret without a usable CA is left to people before it is replaced.
const TORN_FOR: u32 = 10;
/// For so many propagation times a CA stays trusted that is no longer mounted.
const UNMOUNTED_FOR: u32 = 10;
/// How soon to look again after a step.
const NEXT_STEP: Duration = Duration::from_secs(1);
/// How often a mounted CA is looked at.
const MOUNTED: Duration = Duration::from_secs(15);

/// Why there is no CA.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// The API server refused or could not be reached.
    #[error("cannot {attempt}")]
    Api {
        /// What was attempted on which object.
        attempt: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// No answer in time.
    #[error("cannot {attempt}: no answer in {WRITE_TIMEOUT:?}")]
    Timeout {
        /// What was attempted on which object.
        attempt: String,
    },
    /// The Secret does not hold a CA.
    #[error(
        "Secret {namespace}/{CA_SECRET} holds no usable CA: restore it, or delete it and a new one is made"
    )]
    Torn {
        /// Our namespace.
        namespace: String,
        /// What is wrong with it.
        #[source]
        source: CaSecretError,
    },
    /// No certificate could be issued.
    #[error("cannot issue the webhook's CA")]
    Issue(#[source] CertError),
    /// What the hooks carry is not known.
    #[error(transparent)]
    Hooks(#[from] LiveHooksError),
    /// What is mounted is no CA.
    #[error(transparent)]
    Mounted(#[from] MountError),
    /// We do not lead.
    #[error("not leading")]
    NotLeading,
}

/// Reads the CA; `None` where there is none yet.
///
/// # Errors
/// The Secret cannot be read, or holds no CA.
pub async fn read_ca(client: &Client, namespace: &str) -> Result<Option<copyrator_certs::CaSecret>, CaError> {
    Ok(read_rotation(client, namespace).await?.map(|rotation| rotation.secret))
}

/// Reads the CA with what its Secret says of a rotation; `None` where there is none yet.
///
/// # Errors
/// The Secret cannot be read, or holds no CA.
pub async fn read_rotation(client: &Client, namespace: &str) -> Result<Option<Rotation>, CaError> {
    let found = read(client, namespace).await?;
    let torn = |source| CaError::Torn { namespace: namespace.to_owned(), source };
    found.map(|secret| decode(&secret).map_err(torn)).transpose()
}

/// Keeps the CA while we lead. Clones share what they remember.
#[derive(Clone)]
pub struct CaKeeper {
    writer: Writer,
    namespace: String,
    times: Times,
    tls_dir: Option<PathBuf>,
    told: Condition,
    memory: Arc<Mutex<Memory>>,
}

/// What is only of the moment: a new leader finds out anew.
#[derive(Default)]
struct Memory {
    /// The last one that was read or written.
    good: Option<Rotation>,
    /// Since when the Secret holds none.
    torn: Option<SystemTime>,
    /// What was mounted, and when last.
    mounted: Vec<(Certificate, SystemTime)>,
    again: Duration,
}

impl CaKeeper {
    /// Writes through `writer`; `told` hears of what is amiss although there is a CA.
    pub fn new(writer: Writer, config: &Config, told: Condition) -> Self {
        Self {
            writer,
            namespace: config.namespace.clone(),
            times: config.certificate_times,
            tls_dir: config.tls_dir.clone(),
            told,
            memory: Arc::default(),
        }
    }

    /// Leaves the CA to another: what was amiss is not ours to report any more.
    pub fn rest(&self) {
        self.told.holds();
    }

    /// When to look again.
    pub fn again(&self) -> Duration {
        self.memory().again
    }

    /// Takes the step of the rotation that is due, if any: the PEM of all that the hooks are to have trusted
    /// after it. Where the CA cannot be read it is the last good one.
    ///
    /// # Errors
    /// There is no CA, or what the hooks carry cannot be seen.
    pub async fn keep(&self, now: SystemTime) -> Result<String, CaError> {
        if let Some(dir) = &self.tls_dir {
            self.memory().again = MOUNTED.min(self.times.propagation);
            if self.memory().mounted.is_empty() {
                self.take_over(now).await?;
            }
            return self.remember_mounted(mounted::authorities(dir), now);
        }
        self.memory().again = self.times.propagation;
        let Some(secret) = read(self.writer.reader(), &self.namespace).await? else {
            // Deleted while we run: somebody wants the CA gone, so the one we remember is not put back.
            return self.write(Secret::default(), self.fresh(now)?, now).await;
        };
        match decode(&secret) {
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
                    "the rotation of the CA waits: its next CA is not in the caBundle of {hooks}; is copyrator.dev/hands-off on \
                     a webhook configuration, or does another tool write it?"
                ));
            }
            let bundle = rotation.secret.trust_bundle(now);
            let mut memory = self.memory();
            memory.again = memory.again.min(after.max(NEXT_STEP));
            memory.good = Some(rotation);
            return Ok(bundle);
        }
        let next = rotation.take(&step, &self.times, now).map_err(CaError::Issue)?;
        tracing::info!(?step, ca = next.secret.current.fingerprint(), "a step in the rotation of the CA");
        self.write(secret, next, now).await
    }

    /// A Secret that cannot be read is left as it is for a while: somebody may be at work on it. Then it is
    /// replaced, for no new replica could start, and in the end none could answer.
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
                "Secret {}/{CA_SECRET} held no usable CA, and is replaced by {}",
                self.namespace,
                if good.is_some() { "the last good one" } else { "a new one" }
            );
            let replacement = good.map_or_else(|| self.fresh(now), Ok)?;
            return self.write(secret, replacement, now).await;
        }
        let replacement = if good.is_some() { "the last good one, which is in use" } else { "a new one" };
        self.tell(format!(
            "Secret {}/{CA_SECRET} holds no usable CA ({source}): restore it, or delete it and a new one is made; at {} it is \
             replaced by {replacement}",
            self.namespace,
            jiff::Timestamp::try_from(due).map_or_else(|_| "?".to_owned(), |due| format!("{due:.0}")),
        ));
        match good {
            Some(good) => Ok(good.secret.trust_bundle(now)),
            None => Err(CaError::Torn { namespace: self.namespace.clone(), source }),
        }
    }

    /// Writes the Secret on the version it was read at, or makes it; where another process was faster, its
    /// Secret counts.
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
                let secret = read(self.writer.reader(), &self.namespace).await?;
                let torn = |source| CaError::Torn { namespace: self.namespace.clone(), source };
                decode(&secret.unwrap_or_default()).map_err(torn)?
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

    /// What both configurations carry, as the API server has them now.
    async fn carried(&self) -> Result<Vec<Carried>, CaError> {
        Ok(live_hooks(self.writer.reader()).await?.carried())
    }

    /// The leader before may have had other CAs trusted, and their leaves are still served: they count as
    /// mounted until now.
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

    /// What is mounted, and what was until a while ago: replicas see a new volume one after the other.
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
            Err(error) => self.tell(format!("{error}; the last good CA stays trusted")),
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
            tracing::info!("the CA is in order again");
        }
    }

    fn name(&self) -> String {
        format!("Secret {}/{CA_SECRET}, which holds the webhook's CA", self.namespace)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Whole at any moment, so a panic elsewhere cannot have torn it.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(client: &Client, namespace: &str) -> Result<Option<Secret>, CaError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let attempt = format!("read Secret {namespace}/{CA_SECRET}, which holds the webhook's CA");
    bounded(attempt, api.get_opt(CA_SECRET)).await
}

async fn bounded<T>(
    attempt: String,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CaError> {
    match tokio::time::timeout(WRITE_TIMEOUT, call).await {
        Ok(result) => result.map_err(|source| CaError::Api { attempt, source: Box::new(source) }),
        Err(_) => Err(CaError::Timeout { attempt }),
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
