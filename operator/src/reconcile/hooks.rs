//! The webhook's CA and the webhook configurations, checked every minute. The check repairs drift, and makes
//! sure that no policy is reported as in force while the API server does not call the webhook.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use kube::Client;

use super::{Again, Lane, context::Context, scan::Scanner};
use crate::{
    act::{
        certificates::CaError,
        hooks::{CANARY_AGAIN, HookError, HookWriter},
    },
    api::ConfigPolicySpec,
    hooks::{WarningScope, off},
    model::HookCoverage,
    observe::hooks::{LiveHooks, live_hooks},
    plan::Key,
    read::ca::CaReadError,
};

const LOOK_EVERY: Duration = Duration::from_secs(60);

/// A valid policy, for which hooks are maintained.
struct Wanted {
    name: Arc<str>,
    uid: Box<str>,
    generation: i64,
    spec: ConfigPolicySpec,
}

/// Reconciles the webhook configurations, and the world's knowledge of them.
pub(super) struct HooksHandler {
    context: Context,
    client: Client,
    hooks: HookWriter,
    /// The writes for which the hooks were last asked to warn of consequences.
    warned: Mutex<Option<WarningScope>>,
    /// Whether calls have failed to arrive since the hooks were last in order: writes passed policies with
    /// `failurePolicy: Ignore`.
    unheard: AtomicBool,
}

impl HooksHandler {
    pub(super) fn new(context: Context, client: Client, hooks: HookWriter) -> Self {
        Self { context, client, hooks, warned: Mutex::default(), unheard: AtomicBool::default() }
    }

    /// Stops reporting: a different process maintains the hooks now.
    pub(super) fn rest(&self) {
        self.hooks.rest();
    }

    pub(super) async fn handle(&self, scanner: &Scanner) -> Again {
        let (wanted, warned) = {
            let world = self.context.world();
            let valid = world.policies().iter().filter(|(_, facts)| facts.compiled.is_ok());
            let wanted = valid.map(|(name, facts)| Wanted {
                name: name.clone(),
                uid: facts.uid.clone(),
                generation: facts.generation,
                spec: facts.spec.clone(),
            });
            (wanted.collect::<Vec<_>>(), WarningScope::of(&world))
        };
        *self.warned() = Some(warned.clone());
        let policies: Vec<_> = wanted.iter().map(|it| (it.name.clone(), it.spec.clone())).collect();
        let unjudged = self.hooks.unjudged();
        let kept = self.hooks.keep(&policies, &warned, SystemTime::now()).await;
        // Once calls arrive again, scan the objects that were written without a verdict.
        let is_heard_again = match &kept {
            Ok(()) => self.unheard.swap(false, Ordering::Relaxed),
            Err(HookError::Unreached(_)) => {
                self.unheard.store(true, Ordering::Relaxed);
                false
            }
            // Any other error is no evidence about calls: a scan for an earlier outage is still due.
            Err(_) => false,
        };
        if is_heard_again || self.hooks.unjudged() > unjudged {
            scanner.request_for_unjudged();
        }
        if !matches!(kept, Err(HookError::NotLeading | HookError::Ca(CaError::NotLeading))) {
            self.see_hooks(&wanted, &policies, kept.as_ref().err()).await;
        }
        match kept {
            Ok(()) => Again::After(LOOK_EVERY.min(self.hooks.again())),
            Err(HookError::NotLeading | HookError::Ca(CaError::NotLeading)) => Again::OnChange,
            // The CA keeper has reported this error already.
            Err(HookError::Ca(CaError::Read(CaReadError::Torn { .. }) | CaError::Mounted(_))) => {
                Again::Backoff(None)
            }
            Err(error @ HookError::Unreached(_)) => {
                tracing::info!(%error, "waiting for the webhook");
                Again::After(CANARY_AGAIN)
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the webhook configurations are not correct"
                );
                Again::Backoff(None)
            }
        }
    }

    /// Queues the check of the hooks if the hooks do not cover every write that has consequences because of
    /// this rule, monitor or workload. Hooks that cover too much wait for the next regular check.
    pub(super) fn see_warned(&self, key: &Key) {
        if !matches!(key, Key::Rule(_) | Key::Monitor(_) | Key::Workload(_)) {
            return;
        }
        let one = WarningScope::of_one(&self.context.world(), key);
        if self.warned().as_ref().is_some_and(|warned| !warned.covers(&one)) {
            self.context.queue().add(Key::Hooks, Lane::Change);
        }
    }

    fn warned(&self) -> MutexGuard<'_, Option<WarningScope>> {
        self.warned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads which policies are in force, whether or not our own write succeeded: the existing configurations
    /// decide, and whether calls reach the webhook.
    async fn see_hooks(
        &self,
        wanted: &[Wanted],
        policies: &[(Arc<str>, ConfigPolicySpec)],
        error: Option<&HookError>,
    ) {
        if wanted.is_empty() {
            return;
        }
        let unreached =
            error.filter(|error| matches!(error, HookError::Unreached(_))).map(ToString::to_string);
        let live = match unreached {
            Some(why) => Err(why),
            None => match live_hooks(&self.client).await {
                Ok(live) => Ok(live),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot check whether the policies are in force");
                    return;
                }
            },
        };
        let hooks = self.hooks.wanted(policies);
        let world = &mut *self.context.world_mut();
        for Wanted { name, uid, generation, spec } in wanted {
            let off = match &live {
                Ok(LiveHooks { validating, mutating }) => {
                    off(spec, validating.as_ref(), mutating.as_ref(), &hooks)
                }
                Err(why) => Some(why.clone()),
            };
            let seen = HookCoverage { uid: uid.clone(), generation: *generation, off };
            if world.set_hooked(name, seen) {
                self.context.queue().add(Key::Policy(name.clone()), Lane::Change);
            }
        }
    }
}
