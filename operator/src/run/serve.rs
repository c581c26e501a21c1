//! `copyrator serve`: creates and connects everything, once.

use std::{
    convert::Infallible,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use kube::Client;
use prometheus_client::{metrics::counter::Counter, registry::Registry};
use tokio_util::sync::CancellationToken;

use super::{
    client_ca::keep_client_ca,
    error::OperatorError,
    leading,
    leaf::{LeafKeeper, Sources, carriers, find, keep_leaf},
    lease::{Elector, Leader, LeaseTimings},
    namespace_scope::report_unreadable,
    watches,
};
use crate::{
    access::{Authorizer, LocalAuthorizer, ReviewAuthorizer},
    act::{
        hooks::HookWriter,
        keys::{KeyKeeper, digest_key},
        report::Reporter,
        writer::Writer,
    },
    admit::Parties,
    config::Config,
    connect::{Throttle, WriteClient, clients},
    marks::write_time,
    model::{Settings, Store, World},
    names::Declarer,
    observe::{
        observer::{Observer, Requests},
        reads::Reads,
        served::older_definitions,
    },
    read::crds::Definitions,
    reconcile::{Context, Handles, Queue, Reconciler},
    run::causes::with_all_causes,
    serve::{
        Callers, ClientTrust, ConnectionMetrics, Drain, Limits, PeerRate, Readiness, ServeError, ServingCert,
        administer::{administer, listen},
        serve_https,
        tasks::{Tasks, signals},
    },
    webhook::{self, AdmitState, Shedding},
};

/// Name of the Lease of the reconciler.
const LEASE: &str = "copyrator-reconciler";
/// Pause before the process tries again to read the key of digests.
const RETRY: Duration = Duration::from_secs(1);
/// Pauses between comparisons of the definitions with this build: while the definitions are older, and
/// afterwards.
const LOOK_SOON: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_secs(600);
/// How often, after the start, the process looks for lists that decisions wait for.
const LOOK_AT_LISTS: Duration = Duration::from_secs(1);

/// Serves until a signal arrives or a task fails.
///
/// # Errors
/// Returns an error if nothing can be served, or a task failed or ended too early.
pub async fn serve(config: Config) -> Result<(), OperatorError> {
    let signals = signals().map_err(ServeError::Signals)?;
    let throttle = Arc::new(Throttle::new(config.max_writes_in_flight));
    let (client, writes) = clients(&config.cluster, &throttle).await?;
    let stop = CancellationToken::new();
    let mut tasks = Tasks::new(stop.clone());
    let readiness = Readiness::new(stop.clone());
    let mut metrics = Registry::with_prefix("copyrator");
    let world = Arc::new(RwLock::new(world(&config)));
    let context = Context::new(world.clone(), Arc::new(Queue::new(throttle)));
    let requests: Arc<dyn Requests> = Arc::new(context.clone());
    let observer = Observer {
        world: world.clone(),
        requests: requests.clone(),
        events: Counter::default(),
        templates: Arc::default(),
    };
    metrics.register("watch_events", "Events received from watches", observer.events.clone());

    metrics.register_collector(Box::new(Reads(world.clone())));

    watches::start(&mut tasks, &client, &config, &observer, context.widened());
    if let Some(places) = watches::namespace_scope(&config) {
        tracing::info!(
            "this Copyrator reads only {}: ConfigPolicies have no effect, and Copyrator writes no webhook \
         configurations",
            places.said()
        );
        report_unreadable(&mut tasks, &world, &readiness);
    }
    tell_completeness(&mut tasks, &world, &readiness);
    tell_older_definitions(&mut tasks, &client, &readiness);
    if config.reconciler {
        let parts = Reconciling { client: &client, writes: &writes, config: &config, world: &world, context };
        reconcile(&mut tasks, parts, &readiness, &mut metrics)?;
        load_digest_key(&mut tasks, &writes, &config, &world, requests);
    }
    if config.webhook {
        answer(&mut tasks, &client, &config, &world, &readiness, &mut metrics).await?;
    }
    administer(&mut tasks, config.admin_addr, config.drain_delay, readiness, metrics).await?;
    tracing::info!(webhook = config.webhook, reconciler = config.reconciler, "serving");
    let grace = config.drain_delay + Duration::from_secs(15);
    tasks.run(signals, grace).await.map_err(ServeError::Tasks)?;
    Ok(())
}

fn world(config: &Config) -> World {
    let only = |name: &String| Declarer::rule(config.namespace.as_str(), name.as_str());
    let mut world = World::new(Settings {
        stores: watches::stores(config).into_iter().collect(),
        max_rollouts: config.max_rollouts,
        system_namespaces: config.system_namespaces(),
        default_grace: config.deletion_grace,
        spread_limits: config.spread_limits,
        own_namespace: config.namespace.clone(),
        only_rule: config.rule_name.as_ref().map(only),
        reads_definitions: config.reconciler && (config.namespaces.is_empty() || config.read_definitions),
        annotations: config.annotations,
        copy_kinds: config.copy_kinds.clone(),
        template_kinds: config.template_kinds.clone(),
    });
    world.set_namespace_scope(watches::namespace_scope(config));
    world.set_data_scope(watches::data_scope(config));
    world
}

/// Returns the Lease's name. A process that serves only one rule has its own Lease: it shares no work with
/// other processes.
fn lease(config: &Config) -> String {
    config.rule_name.as_ref().map_or_else(|| LEASE.to_owned(), |rule| format!("{LEASE}-{rule}"))
}

struct Reconciling<'a> {
    client: &'a Client,
    writes: &'a WriteClient,
    config: &'a Config,
    world: &'a Arc<RwLock<World>>,
    context: Context,
}

fn reconcile(
    tasks: &mut Tasks,
    parts: Reconciling<'_>,
    readiness: &Readiness,
    metrics: &mut Registry,
) -> Result<(), OperatorError> {
    let Reconciling { client, writes, config, world, context } = parts;
    let (elector, leader): (Elector, Leader) =
        Elector::new(writes, &config.namespace, &lease(config), &config.host, LeaseTimings::default())?;
    let writer = Writer::new(writes.clone(), Arc::new(leader.clone()));
    let reporter = Reporter::new(writes, &config.host, world.clone());
    // A process with the two roles of reconciler and webhook gets calls only once it is ready, so its
    // readiness must not depend on the hooks.
    let hooks = if config.webhook { readiness.remark("hooks") } else { readiness.require("hooks") };
    reporter.register(metrics);
    // Without cluster-wide rights, the process can only create LocalSubjectAccessReviews.
    let authorizer: Arc<dyn Authorizer> = match config.namespaces.is_empty() {
        true => Arc::new(ReviewAuthorizer::new(client.clone())),
        false => Arc::new(LocalAuthorizer::new(client.clone())),
    };
    let definitions = match config.namespaces.is_empty() || config.read_definitions {
        true => Definitions::new(client.clone()),
        false => Definitions::published(client.clone()),
    };
    let handles = Handles {
        client: client.clone(),
        hooks: HookWriter::new(
            client.clone(),
            writer.clone(),
            config,
            hooks,
            readiness.remark("authors"),
            readiness.remark("ca"),
        ),
        digest_key: KeyKeeper::new(
            client.clone(),
            writer.clone(),
            &config.namespace,
            readiness.remark("digestKey"),
        ),
        writer,
        account: reconciler_user(config),
        definitions,
        authorizer,
        trusted_writers: config.trusted_writers.iter().collect(),
        reporter,
    };
    let reconciler = Arc::new(Reconciler::new(context, handles));
    reconciler.register(metrics);
    // Cancelled only when no worker writes any more.
    let release = CancellationToken::new();
    tasks.spawn(
        "workers",
        leading::work(reconciler.clone(), config.max_writes_in_flight, tasks.shutdown(), release.clone()),
    );
    tasks.spawn("leading", leading::lead(reconciler, leader, config.sweep_interval, tasks.shutdown()));
    tasks.spawn("lease", async move {
        elector.run(release).await;
        Ok::<(), Infallible>(())
    });
    Ok(())
}

/// Reads or creates the key of digests. The process makes no decision before the key is known.
fn load_digest_key(
    tasks: &mut Tasks,
    client: &WriteClient,
    config: &Config,
    world: &Arc<RwLock<World>>,
    requests: Arc<dyn Requests>,
) {
    let (client, namespace, world, stop) =
        (client.clone(), config.namespace.clone(), world.clone(), tasks.shutdown());
    tasks.spawn("digest key", async move {
        while !stop.is_cancelled() {
            match digest_key(&client, &namespace).await {
                Ok(key) => {
                    let completed = {
                        let mut world = world.write().unwrap_or_else(PoisonError::into_inner);
                        world.set_key(key);
                        world.set_listed(Store::DigestKey) && world.is_complete()
                    };
                    if completed {
                        requests.complete(None);
                    }
                    stop.cancelled().await;
                }
                Err(error) => tracing::warn!(error = with_all_causes(&error), "no digest key yet"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        Ok::<(), Infallible>(())
    });
}

/// Reports incomplete stores in the condition `stores`; once all were complete, reports the lists that
/// decisions wait for in a remark.
fn tell_completeness(tasks: &mut Tasks, world: &Arc<RwLock<World>>, readiness: &Readiness) {
    let (world, condition, stop) = (world.clone(), readiness.require("stores"), tasks.shutdown());
    let later = readiness.remark("lists");
    tasks.spawn("completeness", async move {
        let mut look = tokio::time::interval(Duration::from_millis(50));
        let mut was_complete = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok::<(), Infallible>(()),
                _ = look.tick() => {}
            }
            let (missing, failing): (Vec<String>, Vec<String>) = {
                let world = world.read().unwrap_or_else(PoisonError::into_inner);
                let stores = world.unlisted().map(|store| format!("{store:?}"));
                let places = world.namespace_scope().into_iter().flat_map(|places| places.unsettled());
                let data = world.data_scope().into_iter().flat_map(|scope| scope.unlisted());
                // One namespace that cannot be listed must not keep the process from being ready.
                let data = data.filter(|_| was_complete).map(|watch| format!("{watch:?}"));
                let missing = stores.chain(places.map(|name| format!("namespace {name}"))).chain(data);
                let failing = world.failing_lists();
                let failing = failing.map(|(list, failing)| {
                    format!("cannot read {list} since {}: {}", write_time(failing.since), failing.why)
                });
                (missing.collect(), failing.collect())
            };
            let told = if was_complete { &later } else { &condition };
            let is_complete = missing.is_empty();
            let unlisted = (!is_complete).then(|| format!("not listed yet: {}", missing.join(", ")));
            let said: Vec<String> = unlisted.into_iter().chain(failing).collect();
            if said.is_empty() || (is_complete && !was_complete) {
                told.holds();
            } else {
                told.missing(said.join("; "));
            }
            if !is_complete {
                continue;
            }
            if !was_complete {
                was_complete = true;
                look = tokio::time::interval(LOOK_AT_LISTS);
            }
        }
    });
}

/// Reports CustomResourceDefinitions that are older than this build, in a remark. Older definitions do not
/// affect readiness: we serve the fields of the earlier build, and without a ready pod, hooks with
/// `failurePolicy: Fail` would get no answer.
fn tell_older_definitions(tasks: &mut Tasks, client: &Client, readiness: &Readiness) {
    let (client, condition, stop) = (client.clone(), readiness.remark("definitions"), tasks.shutdown());
    tasks.spawn("definitions", async move {
        while !stop.is_cancelled() {
            let older = older_definitions(&client).await;
            let pause = if matches!(older, Ok(None)) { LOOK_AGAIN } else { LOOK_SOON };
            condition.set(
                older.map_err(|error| with_all_causes(&error)).and_then(|older| older.map_or(Ok(()), Err)),
            );
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        Ok::<(), Infallible>(())
    });
}

async fn answer(
    tasks: &mut Tasks,
    client: &Client,
    config: &Config,
    world: &Arc<RwLock<World>>,
    readiness: &Readiness,
    metrics: &mut Registry,
) -> Result<(), OperatorError> {
    let serving = Arc::new(ServingCert::new());
    let trust = trust_clients(tasks, config, readiness);
    let tls = serving.server_config(trust.as_ref()).map_err(ServeError::Tls)?;
    let served = serving.clone();
    readiness.check("certificate", move || served.is_valid_at(SystemTime::now()));
    let connections = ConnectionMetrics::default();
    let registry = metrics.sub_registry_with_prefix("webhook");
    connections.register(registry);
    serving.register(registry);
    let keeper =
        LeafKeeper::new(config, serving, readiness.require("certificate"), readiness.remark("renewal"));
    let stop = tasks.shutdown();
    let (finder, settings, ended) = (client.clone(), config.clone(), stop.clone());
    let refused = connections.certificates_refused.clone();
    tasks.spawn("certificate", async move {
        let sources = Sources {
            find: || find(&finder, &settings),
            carriers: || carriers(&finder),
            refusals: || refused.get(),
            clock: SystemTime::now,
        };
        keep_leaf(keeper, sources, ended).await;
        Ok::<(), Infallible>(())
    });
    let listener = listen(config.webhook_addr, "admission reviews").await?;
    let state = AdmitState {
        world: world.clone(),
        authorizer: Arc::new(ReviewAuthorizer::new(client.clone())),
        parties: Arc::new(Parties {
            own: [reconciler_user(config)].into(),
            trusted: config.trusted_writers.iter().collect(),
            template_kinds: config.template_kinds.clone(),
            default_grace: config.deletion_grace,
            system_namespaces: config.system_namespaces(),
        }),
        shedding: Shedding::new(config.max_in_flight),
        metrics: webhook::Metrics::default(),
    };
    state.metrics.register(metrics);
    let router = webhook::router(state);
    let drain = Drain { propagation_delay: config.drain_delay, ..Drain::on(stop) };
    let callers = Callers { trust, rate: PeerRate::new(config.peer_rate) };
    tasks.spawn("webhook", async move {
        let drained =
            serve_https(listener, tls, callers, router, drain, Limits::default(), connections).await;
        if drained.cut_off > 0 {
            tracing::warn!(connections = drained.cut_off, "connections were cut off");
        }
        Ok::<(), Infallible>(())
    });
    Ok(())
}

/// Returns the user name that writes copies.
fn reconciler_user(config: &Config) -> String {
    format!("system:serviceaccount:{}:{}", config.namespace, config.reconciler_account)
}

/// Demands client certificates if the configuration names a CA bundle.
fn trust_clients(tasks: &mut Tasks, config: &Config, readiness: &Readiness) -> Option<ClientTrust> {
    let file = config.client_ca.clone()?;
    let trust = ClientTrust::new(config.client_names.iter().cloned());
    let keep = keep_client_ca(file, trust.clone(), readiness.require("clientCA"), tasks.shutdown());
    tasks.spawn("client CA", async move {
        keep.await;
        Ok::<(), Infallible>(())
    });
    Some(trust)
}
