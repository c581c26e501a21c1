//! key → world → plan → act → when to look again. Every file here is glue: what to do is decided in
//! [`crate::plan`], how it is done in [`crate::act`].

mod annotated;
mod announce;
pub(crate) mod authority;
pub(crate) mod deletion;
mod digest_key;
mod fetch;
mod guard;
mod hooks;
mod lag;
mod metrics;
mod monitor;
mod queue;
mod requests;
mod restart;
mod rule;
mod scan;
mod settle;
mod slot;
mod source_index;
mod stage;
mod status;
#[cfg(test)]
mod tests;
mod verify;
mod workload;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use jiff::Timestamp;
use kube::Client;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

pub use authority::{Decided, about_rule};
pub(crate) use lag::Lag;
pub(crate) use metrics::{Snapshot, Tallies};
pub(crate) use queue::{Again, Lane, NEW_NAMESPACE_LANE, Queue};
pub(crate) use requests::Requester;

use crate::{
    access::Authorizer,
    act::{
        copies::CopyWriter,
        hooks::HookWriter,
        keys::KeyKeeper,
        report::Reporter,
        restart::Restarter,
        stamp_guard::{is_guarded, rules_are_guarded},
        writer::Writer,
    },
    authority::TrustedWriters,
    hooks::WarningScope,
    model::{Authority, World},
    names::NamespacedName,
    observe::{content::Contents, crds::Definitions},
    plan::{
        Key,
        copy::{is_calm, is_over},
        everything,
    },
};

/// What every reconciling worker shares.
pub(crate) struct Reconciler {
    /// The cluster.
    pub client: Client,
    /// What is known of it.
    pub world: Arc<RwLock<World>>,
    /// What is to be looked at.
    pub queue: Arc<Queue>,
    /// Content, for fingerprints and for writes.
    pub contents: Arc<Contents>,
    /// Writes statuses and the index of sources.
    pub writer: Writer,
    /// Writes copies.
    pub copies: CopyWriter,
    /// The user name that it writes them with.
    pub account: String,
    /// Writes restarts.
    pub restarter: Restarter,
    /// Writes hooks.
    pub hooks: HookWriter,
    /// Puts the key of digests back.
    pub digest_key: KeyKeeper,
    /// Are our own kinds there to stay?
    pub definitions: Definitions,
    /// Asks whose rights suffice.
    pub authorizer: Arc<dyn Authorizer>,
    /// Writers of other namespaces' ServiceAccounts that count all the same.
    pub trusted_writers: TrustedWriters,
    /// Tells people and metrics.
    pub reporter: Reporter,
    /// How long copies lag behind.
    pub lag: Lag,
    /// Copies in numbers.
    pub tallies: Arc<Tallies>,
    /// Somebody wants what is there held against the policies once more.
    pub scan_wanted: Notify,
    /// When each status was last written.
    pub status_written: Mutex<HashMap<Key, Instant>>,
    /// Which writes the hooks were last to tell the consequences of.
    pub warned: Mutex<Option<WarningScope>>,
}

impl Reconciler {
    /// Looks at keys until told to stop; the one it is at is finished first.
    pub(crate) async fn work(&self, stop: &CancellationToken) {
        loop {
            let key = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                key = self.queue.next() => key,
            };
            let again = self.look_at(&key).await;
            self.queue.done(&key, again);
        }
    }

    /// Looks at everything: at the start of leading, when the stores are complete, and in the sweep.
    pub(crate) fn sweep(&self) {
        let keys = everything(&self.world());
        self.queue.sweep(keys);
    }

    /// Looks whether stamps on annotations are kept honest; where they are from now on, every object that
    /// asks for copies or restarts by annotation is looked at again. Says whether they are, so that there is
    /// no hurry to look again.
    ///
    /// # Errors
    /// Why it cannot be seen.
    pub(crate) async fn look_at_stamps(&self) -> Result<bool, String> {
        let (annotations, unhooked, own_namespace) = {
            let world = self.world();
            (
                world.settings().annotations,
                world.namespace_scope().is_some(),
                world.settings().own_namespace.clone(),
            )
        };
        if !annotations && !unhooked {
            return Ok(true);
        }
        let guarded = (!unhooked || rules_are_guarded(&self.client, &own_namespace).await?)
            && (!annotations || is_guarded(&self.client, &own_namespace).await?);
        let world = &mut *self.world_mut();
        if !world.set_stamps_guarded(guarded) {
            return Ok(guarded);
        }
        if !guarded {
            let on = if unhooked { "rules, monitors and annotations" } else { "annotations" };
            tracing::warn!("stamps on {on} are not guarded: new ones are not believed");
        }
        let counts = |of: &&NamespacedName| unhooked || of.annotated().is_some();
        // What was refused for it is asked at once.
        let is_refused = |known: &Authority| known.answer.is_err();
        for rule in world.rules().keys().filter(counts).cloned().collect::<Vec<_>>() {
            world.forget_rule_authority(&rule, is_refused);
            self.queue.add(Key::Rule(rule), Lane::Change);
        }
        for monitor in world.monitors().keys().filter(counts).cloned().collect::<Vec<_>>() {
            world.forget_monitor_authority(&monitor, is_refused);
            self.queue.add(Key::Monitor(monitor), Lane::Change);
        }
        Ok(guarded)
    }

    /// Drops what nothing under way can be using any more.
    pub(crate) fn expire(&self) {
        self.contents.expire();
        let now = now();
        let world = &mut *self.world_mut();
        world.forget_old_fingerprints();
        world.memory_mut().expire(now, |repairs| is_over(repairs, now), |spread| is_calm(spread, now));
        world.forget_deletions(deletion::KEPT_FOR, now);
    }

    /// Another process decides now, and remembers for itself.
    pub(crate) fn forget_waits(&self) {
        self.world_mut().memory_mut().lose_lease();
    }

    async fn look_at(&self, key: &Key) -> Again {
        if !self.world().is_complete() {
            // Nothing is decided on incomplete knowledge; completion looks at everything.
            return Again::OnChange;
        }
        let is_the_rules = matches!(key, Key::Slot(_) | Key::Rule(_) | Key::RuleStatus(_));
        if self.world().settings().only_rule.is_some() && !is_the_rules {
            // A process that serves one rule leaves the rest to a process that serves everything.
            return Again::OnChange;
        }
        if self.is_out_of_sight(key) {
            return Again::OnChange;
        }
        self.see_warned(key);
        match key {
            Key::Slot(slot) => self.slot(slot).await,
            Key::Rule(rule) => self.rule(rule).await,
            Key::RuleStatus(rule) => match rule.annotated() {
                Some(source) => self.annotated_status(key, rule, &source).await,
                None => self.rule_status(key, rule).await,
            },
            Key::Workload(workload) => self.workload(workload).await,
            Key::Monitor(monitor) => self.monitor(monitor).await,
            Key::MonitorStatus(monitor) => match monitor.annotated() {
                Some(object) => self.annotated_monitor_status(key, monitor, &object).await,
                None => self.monitor_status(key, monitor).await,
            },
            Key::Policy(name) => self.policy_status(key, name).await,
            Key::Misspelt(object) => self.tell_misspelt_annotations(object).await,
            Key::Scan => {
                self.scan_wanted.notify_one();
                Again::OnChange
            }
            Key::SourceIndex => self.publish_sources(key).await,
            Key::Hooks => self.keep_hooks().await,
            Key::DigestKey => self.keep_digest_key().await,
        }
    }

    /// What is not seen is left as it is, until its namespace comes into sight: then everything is looked at.
    /// Hooks, policies and the webhook's index belong to the whole cluster, and are not for a process that
    /// looks at some of it; the key of digests is our own.
    fn is_out_of_sight(&self, key: &Key) -> bool {
        let world = self.world();
        let of_ours = *key == Key::DigestKey;
        world.namespace_scope().is_some()
            && !of_ours
            && key.namespace().is_none_or(|namespace| !world.sees(namespace))
    }

    fn world(&self) -> RwLockReadGuard<'_, World> {
        self.world.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn world_mut(&self) -> RwLockWriteGuard<'_, World> {
        self.world.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wall clock; the only place of this folder that reads it.
fn now() -> Timestamp {
    Timestamp::now()
}
