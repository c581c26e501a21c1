//! The reconciler: key → world → plan → fetch what the plan lacks → act → remember → when to look again. Each
//! kind of key has its own handler. Every file in this module is glue: [`crate::plan`] decides what to do,
//! and [`crate::act`] does it.

mod annotated;
mod announce;
mod asker;
mod context;
mod digest_key;
mod drift;
mod fetch;
mod guard;
mod hooks;
mod instance_events;
mod lag;
mod large_spreads;
mod metrics;
mod monitor;
mod pace;
mod planner;
mod queue;
pub(crate) mod rendering;
mod restart_attempt;
mod rule;
mod scan;
mod selected_pods;
mod slot;
mod source_index;
mod stamps;
mod status;
#[cfg(test)]
mod tests;
mod trial;
mod verify;
mod workload;

use std::{convert::Infallible, sync::Arc};

use jiff::SignedDuration;
use kube::Client;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

pub(crate) use context::Context;
pub(crate) use queue::{Again, Lane, NEW_NAMESPACE_LANE, Queue};

use self::{
    annotated::AnnotatedHandler,
    announce::Announcer,
    asker::Asker,
    context::now,
    digest_key::DigestKeyHandler,
    drift::Examiner,
    fetch::Fetcher,
    guard::CopyGuard,
    hooks::HooksHandler,
    instance_events::InstanceEvents,
    lag::Lag,
    large_spreads::LargeSpreads,
    metrics::{Snapshot, Tallies},
    monitor::MonitorHandler,
    pace::{STATUS_AFTER, StatusPace},
    planner::Planner,
    rendering::RenderingHandler,
    rule::RuleHandler,
    scan::Scanner,
    selected_pods::SelectedPods,
    slot::SlotHandler,
    source_index::SourceIndexHandler,
    stamps::StampCheck,
    status::StatusHandler,
    trial::TemplateTrial,
    verify::Verifier,
    workload::WorkloadHandler,
};
use crate::{
    access::{Authorizer, Budget, right::KEPT_FOR},
    act::{
        copies::CopyWriter, hooks::HookWriter, keys::KeyKeeper, report::Reporter, restart::Restarter,
        writer::Writer,
    },
    authority::TrustedWriters,
    names::Declarer,
    plan::{
        Key,
        copy::{is_calm, is_over},
    },
    read::{content::Contents, crds::Definitions},
};

/// Age at which old fingerprints are forgotten: changed content must be fetched within this time, so that the
/// changed keys can still be named.
const FETCHED_WITHIN: SignedDuration = SignedDuration::from_mins(1);

/// The parts that handlers work with; the process creates the parts.
pub(crate) struct Handles {
    /// The client that reads, and that refuses to write.
    pub client: Client,
    /// Writes while this process leads.
    pub writer: Writer,
    /// The user name of the writer.
    pub account: String,
    /// Writes the webhook configurations.
    pub hooks: HookWriter,
    /// Restores the Secret with the key of digests.
    pub digest_key: KeyKeeper,
    /// Checks that our CustomResourceDefinitions exist and are not being deleted.
    pub definitions: Definitions,
    /// Asks the API server whether identities have rights.
    pub authorizer: Arc<dyn Authorizer>,
    /// Trusted ServiceAccounts of other namespaces, which may write objects with their own rights.
    pub trusted_writers: TrustedWriters,
    /// Reports to users, and counts in metrics.
    pub reporter: Reporter,
}

/// Gives each key to its handler. Workers share the reconciler.
pub(crate) struct Reconciler {
    context: Context,
    contents: Arc<Contents>,
    slots: SlotHandler,
    rules: RuleHandler,
    renderings: RenderingHandler,
    workloads: WorkloadHandler,
    monitors: MonitorHandler,
    statuses: StatusHandler,
    annotated: AnnotatedHandler,
    instance_events: InstanceEvents,
    source_index: SourceIndexHandler,
    hooks: HooksHandler,
    digest_key: DigestKeyHandler,
    announcer: Announcer,
    scanner: Scanner,
    verifier: Verifier,
    stamps: StampCheck,
    pace: Arc<StatusPace>,
    lag: Arc<Lag>,
    tallies: Arc<Tallies>,
    large_spreads: Arc<LargeSpreads>,
}

impl Reconciler {
    /// Creates a reconciler of the keys in `context`, with these handles.
    pub(crate) fn new(context: Context, handles: Handles) -> Self {
        let Handles {
            client,
            writer,
            account,
            hooks,
            digest_key,
            definitions,
            authorizer,
            trusted_writers,
            reporter,
        } = handles;
        let shared = || context.clone();
        let contents = Arc::new(Contents::new(client.clone()));
        let refusals = Budget::default();
        let asker = Arc::new(Asker { context: shared(), authorizer, trusted_writers, refusals });
        let fetcher = Fetcher {
            context: shared(),
            client: client.clone(),
            contents: contents.clone(),
            asker: asker.clone(),
            examiner: Examiner { context: shared(), client: client.clone(), contents: contents.clone() },
        };
        let planner = Arc::new(Planner { context: shared(), fetcher });
        let pace = Arc::new(StatusPace::new(shared()));
        let (lag, tallies) = (Arc::new(Lag::default()), Arc::new(Tallies::default()));
        let large_spreads = Arc::new(LargeSpreads::default());
        let announcer = Announcer { context: shared(), reporter: reporter.clone() };
        let copies = CopyWriter::new(writer.clone(), contents.clone());
        let restarter = Restarter::new(writer.clone());
        let guard = CopyGuard { context: shared(), contents: contents.clone() };
        let trial = TemplateTrial { context: shared(), client: client.clone(), contents: contents.clone() };
        let pods = SelectedPods {
            context: shared(),
            planner: planner.clone(),
            restarter: restarter.clone(),
            copies: copies.clone(),
            writer: writer.clone(),
            announcer: announcer.clone(),
            reporter: reporter.clone(),
        };
        Self {
            slots: SlotHandler {
                context: shared(),
                planner: planner.clone(),
                account,
                guard,
                trial,
                copies: copies.clone(),
                definitions,
                reporter: reporter.clone(),
                lag: lag.clone(),
            },
            rules: RuleHandler { context: shared(), asker: asker.clone() },
            renderings: RenderingHandler {
                context: shared(),
                client: client.clone(),
                writer: writer.clone(),
                looked: Default::default(),
                processor: Default::default(),
            },
            workloads: WorkloadHandler {
                context: shared(),
                planner,
                restarter,
                announcer: announcer.clone(),
                reporter: reporter.clone(),
            },
            monitors: MonitorHandler { context: shared(), asker, pods },
            statuses: StatusHandler {
                context: shared(),
                pace: pace.clone(),
                writer: writer.clone(),
                announcer: announcer.clone(),
                reporter: reporter.clone(),
                tallies: tallies.clone(),
                large_spreads: large_spreads.clone(),
            },
            instance_events: InstanceEvents { context: shared(), reporter: reporter.clone() },
            annotated: AnnotatedHandler {
                context: shared(),
                pace: pace.clone(),
                copies,
                reporter,
                tallies: tallies.clone(),
                large_spreads: large_spreads.clone(),
            },
            source_index: SourceIndexHandler {
                context: shared(),
                pace: pace.clone(),
                contents: contents.clone(),
                writer,
            },
            hooks: HooksHandler::new(shared(), client.clone(), hooks),
            digest_key: DigestKeyHandler { context: shared(), keeper: digest_key },
            announcer,
            scanner: Scanner::new(shared(), client.clone()),
            verifier: Verifier { context: shared(), client: client.clone() },
            stamps: StampCheck { context: shared(), client },
            pace,
            lag,
            tallies,
            large_spreads,
            contents,
            context,
        }
    }

    /// Adds the metrics of keys, copies and restarts to a registry.
    pub(crate) fn register(&self, metrics: &mut Registry) {
        self.lag.register(metrics);
        let snapshot = Snapshot { context: self.context.clone(), tallies: self.tallies.clone() };
        metrics.register_collector(Box::new(snapshot));
    }

    /// Handles keys until `stop` is cancelled; the current key is finished first.
    pub(crate) async fn work(&self, stop: &CancellationToken) {
        let queue = self.context.queue();
        loop {
            let key = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                key = queue.next() => key,
            };
            let again = self.look_at(&key).await;
            queue.done(&key, again);
        }
    }

    /// Lets workers handle keys: this process leads. Memory is cleared at the beginning of the term, not when
    /// the lease was lost: workers still wrote to the memory after the loss. A worker that is still busy may
    /// write an old result; the sweep replaces such a result.
    pub(crate) fn begin_term(&self) {
        {
            let world = &mut *self.context.world_mut();
            world.memory_mut().begin_term(now());
            if world.settings().annotations {
                world.begin_recall();
            }
        }
        self.context.queue().open();
    }

    /// Keeps workers from taking further keys.
    pub(crate) fn close(&self) {
        self.context.queue().close();
    }

    /// Closes the queue and forgets past reports: a different process leads, and makes its own reports.
    pub(crate) fn lose_lease(&self) {
        self.close();
        self.hooks.rest();
        self.digest_key.rest();
        self.tallies.clear();
        self.large_spreads.clear();
        self.lag.clear();
    }

    /// Queues every key: at the start of leading, and in the sweep.
    pub(crate) fn sweep(&self) {
        self.context.sweep();
    }

    /// Compares every copy with its source by content, and queues the copies that differ.
    pub(crate) async fn verify(&self) {
        self.verifier.verify().await;
    }

    /// Judges existing objects by the policies whenever a scan is requested, until the future is dropped.
    pub(crate) async fn scan(&self) -> Infallible {
        self.scanner.run().await
    }

    /// Tests whether author stamps are protected, and returns the result.
    ///
    /// # Errors
    /// The reason why the protection cannot be tested now.
    pub(crate) async fn look_at_stamps(&self) -> Result<bool, String> {
        self.stamps.look().await
    }

    /// Reads which grants of annotations the previous leader has listed.
    pub(crate) async fn recall_grants(&self) {
        self.source_index.recall().await;
    }

    /// Drops expired content, records and answers.
    pub(crate) fn expire(&self) {
        self.contents.expire();
        let now = now();
        let world = &mut *self.context.world_mut();
        world.forget_old_fingerprints(FETCHED_WITHIN, now);
        world.memory_mut().expire(now, |repairs| is_over(repairs, now), |spread| is_calm(spread, now));
        for template in world.memory_mut().within_budget(now) {
            self.context.queue().add_by(Key::RuleStatus(template), STATUS_AFTER);
        }
        world.forget_rights(KEPT_FOR, now);
        world.forget_old_questions();
    }

    /// Handles a key, if the key may be handled now.
    async fn look_at(&self, key: &Key) -> Again {
        if self.is_to_look_at(key) { self.handle(key).await } else { Again::OnChange }
    }

    async fn handle(&self, key: &Key) -> Again {
        self.hooks.see_warned(key);
        if let Some(wait) = self.pace.too_soon(key) {
            return Again::After(wait);
        }
        match key {
            Key::Slot(slot) => {
                let again = self.slots.handle(slot).await;
                self.instance_events.of_slot(slot).await;
                again
            }
            Key::Rule(rule) => self.rules.handle(rule).await,
            Key::Rendering(template, instance) => {
                let again = self.renderings.handle(template, instance).await;
                self.instance_events.of_rendering(template, instance).await;
                again
            }
            Key::RuleStatus(rule) => match rule {
                Declarer::Annotated(source) => self.annotated.rule(key, rule, source).await,
                Declarer::Template(name) => self.statuses.template(key, rule, name).await,
                Declarer::Rule(name) | Declarer::Monitor(name) => self.statuses.rule(key, rule, name).await,
            },
            Key::Workload(workload) => self.workloads.handle(workload).await,
            Key::Monitor(monitor) => self.monitors.handle(monitor).await,
            Key::MonitorStatus(monitor) => match monitor {
                Declarer::Annotated(object) => self.annotated.monitor(key, monitor, object).await,
                Declarer::Rule(name) | Declarer::Template(name) | Declarer::Monitor(name) => {
                    self.statuses.monitor(key, monitor, name).await
                }
            },
            Key::Policy(name) => self.statuses.policy(key, name).await,
            Key::Remark(object) => {
                self.announcer.remark(object).await;
                Again::OnChange
            }
            Key::Scan => {
                self.scanner.request();
                Again::OnChange
            }
            Key::SourceIndex => self.source_index.handle(key).await,
            Key::Hooks => self.hooks.handle(&self.scanner).await,
            Key::DigestKey => self.digest_key.handle().await,
        }
    }

    /// Whether a key may be handled. Until every store is listed, no key is handled, except statuses that
    /// report a failing list; afterwards, everything is handled. A process that serves one rule leaves all
    /// other keys to a process that serves everything. Objects in unreadable namespaces stay unchanged; once
    /// their namespace becomes readable, everything is handled. Hooks and policies belong to the whole
    /// cluster, so a process that reads only some namespaces leaves hooks and policies alone. The key of
    /// digests and the index are our own: the next leader reads in the index which annotations were granted.
    fn is_to_look_at(&self, key: &Key) -> bool {
        let world = self.context.world();
        let is_the_rules = matches!(key, Key::Slot(_) | Key::Rule(_) | Key::RuleStatus(_));
        let is_seen = || match key {
            _ if world.namespace_scope().is_none() => true,
            Key::DigestKey => true,
            Key::SourceIndex => world.settings().annotations,
            _ => key.namespace().is_some_and(|namespace| world.sees(namespace)),
        };
        // Once a list has failed for long, statuses report the failure, even while other facts are unknown.
        let is_status = matches!(key, Key::RuleStatus(_) | Key::MonitorStatus(_));
        let is_known = world.is_complete() || (is_status && world.failing_lists().next().is_some());
        is_known && (is_the_rules || world.settings().only_rule.is_none()) && is_seen()
    }
}
