//! The webhook configurations, written only after a canary has shown that calls reach the webhook: a hook
//! without an answer and with `failurePolicy: Fail` is an outage (kubevela PR 6919, cert-manager#2908).

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        rbac::v1::ClusterRole,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::ClusterResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{
    certificates::{CaError, CaKeeper},
    writer::{WriteError, Writer},
};
use crate::{
    api::ConfigPolicySpec,
    config::Config,
    connect::WRITE_TIMEOUT,
    dry_run::canary::{self, Canary, Echo},
    hooks::{AUTHOR_HOOK, Endpoint, Frame, NAME, STAMPING, Stamper, WarningScope, render, says},
    marks::{HANDS_OFF, HOOKS_MANAGER},
    observe::hooks::{LiveHooksError, live_hooks},
    serve::Condition,
};

/// The readiness remark if a hook stamps authors.
const STAMPED_BY_HOOK: &str = "the hook author.copyrator.dev records the authors of rules and monitors, because the API server does not \
 record them (from Kubernetes 1.36, the MutatingAdmissionPolicy copyrator-author does): while no webhook answers, the API server refuses \
 writes of rules and monitors";
/// The hook that the canary passes.
const OWN_KINDS: &str = "own-kinds.copyrator.dev";

/// Why the webhook configurations could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    /// No CA exists that the hooks could trust.
    #[error(transparent)]
    Ca(#[from] CaError),
    /// The current configurations could not be read.
    #[error(transparent)]
    Live(#[from] LiveHooksError),
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
    /// The canary did not reach the webhook, for this reason.
    #[error(
        "the API server cannot call the webhook yet, so no hook is in force ({0}): check that a webhook pod runs and that the API server \
         can reach it"
    )]
    Unreached(String),
    /// A different replica may be the leader: nothing was written.
    #[error("not leading")]
    NotLeading,
}

/// A webhook configuration, validating or mutating.
trait Configuration:
    Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
}

impl Configuration for ValidatingWebhookConfiguration {}
impl Configuration for MutatingWebhookConfiguration {}

/// Maintains the webhook configurations. Clones share the writer's memory.
#[derive(Clone)]
pub(crate) struct HookWriter {
    client: Client,
    writer: Writer,
    endpoint: Endpoint,
    own_namespace: String,
    annotations: bool,
    timeout: Option<i32>,
    owner_cluster_role: Option<String>,
    ca: CaKeeper,
    condition: Condition,
    stamps: Condition,
    /// When a write last passed without a verdict of the policies, in seconds, as far as canaries show: a
    /// failing webhook let the write pass, or no hooks existed.
    unjudged: Arc<AtomicI64>,
}

impl HookWriter {
    /// Creates a writer that reads and makes dry runs through `client`, and writes through `writer`. The
    /// writer reports the state to `condition`, to `stamps` if a hook must stamp authors, and to `ca` if the
    /// CA has a problem.
    pub(crate) fn new(
        client: Client,
        writer: Writer,
        config: &Config,
        condition: Condition,
        stamps: Condition,
        ca: Condition,
    ) -> Self {
        // A process that does not lead has no hooks to maintain.
        condition.holds();
        Self {
            ca: CaKeeper::new(client.clone(), writer.clone(), config, ca),
            client,
            writer,
            endpoint: config.endpoint.clone(),
            own_namespace: config.namespace.clone(),
            annotations: config.annotations,
            timeout: config.hook_timeout,
            owner_cluster_role: config.owner_cluster_role.clone(),
            condition,
            stamps,
            unjudged: Arc::default(),
        }
    }

    /// Returns when a write last passed without a verdict of the policies, in seconds since 1970; 0: never.
    pub(crate) fn unjudged(&self) -> i64 {
        self.unjudged.load(Ordering::Relaxed)
    }

    /// Stops reporting: a different replica maintains CA and hooks now.
    pub(crate) fn rest(&self) {
        self.condition.holds();
        self.stamps.holds();
        self.ca.rest();
    }

    /// Returns the delay until the next check if no error occurs; a rotation of the CA can shorten the delay.
    pub(crate) fn again(&self) -> Duration {
        self.ca.again()
    }

    /// Brings CA and hooks up to date.
    ///
    /// # Errors
    /// Returns an error if CA or hooks are not up to date, or if calls do not reach the webhook; the caller
    /// tries again.
    pub(crate) async fn keep(
        &self,
        policies: &[(Arc<str>, ConfigPolicySpec)],
        warned: &WarningScope,
        now: SystemTime,
    ) -> Result<(), HookError> {
        let kept = self.try_keep(policies, warned, now).await;
        match &kept {
            Err(HookError::NotLeading | HookError::Ca(CaError::NotLeading)) => self.condition.holds(),
            Err(error) => self.condition.missing(error.to_string()),
            Ok(()) => self.condition.holds(),
        };
        kept
    }

    async fn try_keep(
        &self,
        policies: &[(Arc<str>, ConfigPolicySpec)],
        warned: &WarningScope,
        now: SystemTime,
    ) -> Result<(), HookError> {
        self.still_leads()?;
        let bundle = self.ca.keep(now).await?;
        let owner = self.owner().await?;
        let mut live = live_hooks(&self.client).await?;
        if hands_off(live.validating.as_ref()) || hands_off(live.mutating.as_ref()) {
            // Existing hooks are usable only if a webhook answers them.
            if live.validating.as_ref().is_some_and(has_canary) {
                self.canary(now).await?;
            }
            tracing::warn!(
                annotation = HANDS_OFF,
                "Copyrator does not update the webhook configurations {NAME} until you remove the annotation from both"
            );
            return Ok(());
        }
        let stamper = self.stamper(live.mutating.as_ref(), now).await?;
        let policies = policies.iter().map(|(name, policy)| (&**name, policy));
        let frame = Frame { owner, ..self.frame(stamper, &bundle) };
        let (validating, mutating) = render(policies, warned, &frame);
        if live.validating.as_ref().is_none_or(is_trial) {
            // No write depends on the hooks yet, so a trial with `failurePolicy: Ignore` does no harm.
            self.apply(&trial(&validating)).await?;
            if stamper == Stamper::Hook {
                self.apply(&trial_of_stamps(&mutating)).await?;
            }
            self.canary(now).await?;
            // Without hooks, every write passed without a verdict.
            self.unjudged.fetch_max(unix_seconds(now), Ordering::Relaxed);
            live = live_hooks(&self.client).await?;
        }
        // An existing configuration is written only in the version that was read. If a user deletes the
        // configurations meanwhile to switch the webhook off, a write must not create them again before a
        // call has reached the webhook. If a user has just set the hands-off annotation, a write must not
        // change the hooks once more.
        //
        // Defaults come before requirements, so that no requirement refuses a write for lack of a value that
        // a default adds.
        self.keep_one(&mutating, live.mutating).await?;
        self.keep_one(&validating, live.validating).await?;
        self.canary(now).await
    }

    /// Writes a configuration if the existing configuration differs.
    async fn keep_one<K: Configuration>(&self, wanted: &K, live: Option<K>) -> Result<(), HookError> {
        let as_json = |configuration: &K| serde_json::to_value(configuration).unwrap_or_default();
        let wanted_json = as_json(wanted);
        if live.as_ref().is_some_and(|live| says(&as_json(live), &wanted_json)) {
            return Ok(());
        }
        // With a UID, an apply creates no object: the API server answers 409 if that object is gone, or has
        // changed.
        let mut same = wanted.clone();
        let (uid, version) = live.map(|live| (live.uid(), live.resource_version())).unwrap_or_default();
        (same.meta_mut().uid, same.meta_mut().resource_version) = (uid, version);
        let written = self.apply(&same).await?;
        if says(&as_json(&written), &wanted_json) {
            return Ok(());
        }
        // An apply would keep hooks and fields that other writers added, which may exempt writes. The whole
        // list of hooks is ours.
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": written.resource_version() },
            "webhooks": wanted_json["webhooks"],
        }));
        self.patch(
            wanted,
            &PatchParams { field_manager: Some(HOOKS_MANAGER.into()), ..PatchParams::default() },
            &patch,
        )
        .await
        .map(drop)
    }

    /// Checks by a canary whether calls reach the webhook.
    async fn canary(&self, now: SystemTime) -> Result<(), HookError> {
        arrives(|| self.echo(Canary::Arrives, now)).await
    }

    /// Returns the configurations for these policies, without the CA bundle and the owner, which policies do
    /// not affect.
    pub(crate) fn wanted(
        &self,
        policies: &[(Arc<str>, ConfigPolicySpec)],
    ) -> (ValidatingWebhookConfiguration, MutatingWebhookConfiguration) {
        let policies = policies.iter().map(|(name, policy)| (&**name, policy));
        render(policies, &WarningScope::default(), &self.frame(Stamper::ApiServer, ""))
    }

    /// Returns the settings that do not depend on policies, without an owner.
    fn frame<'a>(&'a self, stamper: Stamper, ca_bundle_pem: &'a str) -> Frame<'a> {
        Frame {
            stamper,
            endpoint: &self.endpoint,
            ca_bundle_pem,
            owner: None,
            own_namespace: &self.own_namespace,
            annotations: self.annotations,
            timeout: self.timeout,
        }
    }

    /// Decides whether the API server or a hook stamps authors: the API server, if it stamps them without a
    /// hook of ours. If the probe gives no answer, the current stamper stays.
    async fn stamper(
        &self,
        live: Option<&MutatingWebhookConfiguration>,
        now: SystemTime,
    ) -> Result<Stamper, HookError> {
        let hooks = live.and_then(|live| live.webhooks.as_ref()).into_iter().flatten();
        let so_far = match hooks.into_iter().any(|hook| hook.name == AUTHOR_HOOK) {
            true => Stamper::Hook,
            false => Stamper::ApiServer,
        };
        let stamper = match self.echo(Canary::Probes, now).await?.stamped {
            Some(true) => Stamper::ApiServer,
            Some(false) => Stamper::Hook,
            None => so_far,
        };
        if stamper != so_far {
            tracing::info!(
                ?stamper,
                "the authors of rules and monitors are now recorded by a different component"
            );
        }
        match stamper {
            Stamper::ApiServer => self.stamps.holds(),
            Stamper::Hook => self.stamps.missing(STAMPED_BY_HOOK),
        };
        Ok(stamper)
    }

    async fn echo(&self, which: Canary, now: SystemTime) -> Result<Echo, HookError> {
        self.still_leads()?;
        let token = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos().to_string();
        let echo = canary::send(&self.client, &self.own_namespace, which, &token).await;
        // Any of several webhook replicas answers, and each knows only its own time.
        self.unjudged.fetch_max(echo.unjudged.unwrap_or_default(), Ordering::Relaxed);
        Ok(echo)
    }

    async fn owner(&self) -> Result<Option<OwnerReference>, HookError> {
        let Some(name) = &self.owner_cluster_role else { return Ok(None) };
        let api: Api<ClusterRole> = Api::all(self.client.clone());
        let role = api
            .get(name)
            .await
            .map_err(failed(format!("read ClusterRole {name}, the owner of the hooks")))?;
        Ok(role.owner_ref(&()))
    }

    async fn apply<K: Configuration>(&self, configuration: &K) -> Result<K, HookError> {
        let params = PatchParams::apply(HOOKS_MANAGER).force();
        self.patch(configuration, &params, &Patch::Apply(configuration)).await
    }

    async fn patch<K: Configuration>(
        &self,
        configuration: &K,
        params: &PatchParams,
        patch: &Patch<impl Serialize + Debug>,
    ) -> Result<K, HookError> {
        let name = &configuration.name_any();
        let written =
            self.writer.send(|client| async move { Api::all(client).patch(name, params, patch).await });
        let attempt = || format!("write {} {name}", K::kind(&()));
        written.await.map_err(|error| match error {
            WriteError::NotLeading => HookError::NotLeading,
            WriteError::Timeout => HookError::Timeout { attempt: attempt() },
            WriteError::Api(source) => HookError::Api { attempt: attempt(), source },
        })
    }

    fn still_leads(&self) -> Result<(), HookError> {
        if self.writer.is_leader() { Ok(()) } else { Err(HookError::NotLeading) }
    }
}

/// Pause before a canary is tried again: the API server needs about a second to use a new hook.
pub(crate) const CANARY_AGAIN: Duration = Duration::from_millis(500);

/// Sends up to two canaries: the first call may be refused for load (429), which shows nothing about other
/// calls.
async fn arrives<F: Future<Output = Result<Echo, HookError>>>(send: impl Fn() -> F) -> Result<(), HookError> {
    if send().await?.heard.is_ok() {
        return Ok(());
    }
    tokio::time::sleep(CANARY_AGAIN).await;
    send().await?.heard.map_err(HookError::Unreached)
}

fn unix_seconds(time: SystemTime) -> i64 {
    Timestamp::try_from(time).map(Timestamp::as_second).unwrap_or_default()
}

fn failed(attempt: String) -> impl FnOnce(kube::Error) -> HookError {
    move |source| HookError::Api { attempt, source: Box::new(source) }
}

/// Whether a user has taken over a configuration by annotation. The annotation on one configuration is
/// enough: in a hurry, people annotate the configuration they see.
fn hands_off<K: Configuration>(live: Option<&K>) -> bool {
    live.is_some_and(|live| live.annotations().contains_key(HANDS_OFF))
}

/// Whether the configuration has a hook for the canary.
fn has_canary(live: &ValidatingWebhookConfiguration) -> bool {
    live.webhooks.iter().flatten().any(|hook| hook.name == OWN_KINDS)
}

/// Returns the configuration with only the canary's hook, and with `failurePolicy: Ignore`.
fn trial(validating: &ValidatingWebhookConfiguration) -> ValidatingWebhookConfiguration {
    let mut trial = validating.clone();
    let hooks = trial.webhooks.get_or_insert_default();
    hooks.retain(|hook| hook.name == OWN_KINDS);
    for hook in hooks {
        hook.failure_policy = Some("Ignore".into());
    }
    trial
}

/// Returns the configuration with `failurePolicy: Ignore` for the hooks that stamp authors.
fn trial_of_stamps(mutating: &MutatingWebhookConfiguration) -> MutatingWebhookConfiguration {
    let mut trial = mutating.clone();
    for hook in trial.webhooks.iter_mut().flatten().filter(|hook| STAMPING.contains(&hook.name.as_str())) {
        hook.failure_policy = Some("Ignore".into());
    }
    trial
}

/// Whether the existing configuration is a trial that no webhook has answered yet.
fn is_trial(live: &ValidatingWebhookConfiguration) -> bool {
    let harmless = |policy: &Option<String>| policy.as_deref() == Some("Ignore");
    live.webhooks.iter().flatten().all(|hook| hook.name == OWN_KINDS && harmless(&hook.failure_policy))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A webhook that refuses one call under load answers the others. Otherwise policies would report that
    /// they are not in force, and then again that they are.
    #[tokio::test(start_paused = true)]
    async fn one_canary_that_is_lost_says_nothing() {
        for (answers, arrived, left) in
            [(vec![true, false], true, 1), (vec![false, true], true, 0), (vec![false, false, true], false, 1)]
        {
            let rest = RefCell::new(answers.clone());
            let send = || {
                let heard = if rest.borrow_mut().remove(0) { Ok(()) } else { Err("429".to_owned()) };
                async { Ok(Echo { heard, stamped: None, unjudged: None }) }
            };
            let seen = arrives(send).await;
            assert_eq!((seen.is_ok(), rest.borrow().len()), (arrived, left), "{answers:?}: {seen:?}");
        }
    }
}
