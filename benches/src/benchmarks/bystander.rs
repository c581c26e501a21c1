//! What having us installed costs who has nothing to do with us: a bare client's six kinds of write of Secrets, on an API
//! server with the chart, in short turns with another one that never had it; before the chart, with no rule, with rules
//! elsewhere, and with policies.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use devcluster::{Component, DevCluster, Options};
use kube::Client;
use serde_json::{Value, json};
use testbed::Role;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::arena::{Arena, IN_FLIGHT, connect};
use crate::bare_webhook::BareWebhook;
use crate::figures::{Budget, Figures};
use crate::objects::{HOME, collection, namespace, path, rule, source, text};
use crate::processes::cpu;
use crate::program::Program;
use crate::sizes::Sizes;
use crate::statistics::percentile;
use crate::writes::{self, Prepared, apply, create, merge, remove, replace, send};

/// Where the bare client writes.
const PLACE: &str = "bystander";
const POLICIES: &str = "/apis/copyrator.dev/v1alpha1/configpolicies";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const BARE_HOOK: &str = "bare-bystander";
/// The chart taken away: what every side is held against.
const BEFORE: Side = Side { name: "before", policies: 0, names: "", is_free: true };
/// What is there while the client writes, in the order of a round.
const SIDES: [Side; 7] = [
    Side { name: "no rules", policies: 0, names: "", is_free: true },
    Side { name: ELSEWHERE, policies: 0, names: "", is_free: true },
    Side { name: BARE, policies: 0, names: "", is_free: false },
    Side { name: "one policy", policies: 1, names: "*", is_free: false },
    Side { name: "eight policies", policies: 8, names: "*", is_free: false },
    Side { name: "a hundred policies", policies: 100, names: "*", is_free: false },
    Side { name: "eight policies of others", policies: 8, names: "other-*", is_free: false },
];
const ELSEWHERE: &str = "rules elsewhere";
const BARE: &str = "a bare webhook";
/// Turns of a side, for each of the wished pairs.
const TURNS: usize = 30;
const FEWER_TURNS: usize = 6;
/// Secrets of a turn: so few that both API servers see the same machine.
const SHARE: usize = 20;

/// What is there while the client writes.
struct Side {
    name: &'static str,
    /// How many policies there are, with `failurePolicy: Fail`, and the names of Secrets that they speak of.
    policies: usize,
    names: &'static str,
    /// Whether it must cost nothing. What is looked for is then smaller than what a machine's speed drifts by within minutes, so that takes
    /// more turns, and *before* right before and right after it.
    is_free: bool,
}

/// An API server that is written to.
#[derive(Clone)]
struct Server {
    client: Client,
    pid: u32,
}

/// What writes took: the API server's processor, and each of them in milliseconds.
#[derive(Debug, Default)]
struct Took {
    processor: Duration,
    times: Vec<f64>,
}

impl Took {
    fn add(&mut self, other: Took) {
        self.processor += other.processor;
        self.times.extend(other.times);
    }

    fn half(&self) -> f64 {
        percentile(&self.times, 50.0)
    }
}

/// How much more one is than another: of the API server's processor, and of the time that half of the writes took at most.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    processor: f64,
    half: f64,
}

impl Ratio {
    fn of(ours: &Took, other: &Took) -> Ratio {
        Ratio {
            processor: ours.processor.as_secs_f64() / other.processor.as_secs_f64().max(f64::EPSILON),
            half: ours.half() / other.half(),
        }
    }

    fn middle(self, other: Ratio) -> Ratio {
        Ratio {
            processor: f64::midpoint(self.processor, other.processor),
            half: f64::midpoint(self.half, other.half),
        }
    }

    fn over(self, other: Ratio) -> Ratio {
        Ratio { processor: self.processor / other.processor, half: self.half / other.half }
    }

    fn add_to(self, figures: &mut Figures, what: &str, budgets: [Option<Budget>; 2]) {
        figures.add_with(format!("{what}: processor"), "×", budgets[0], self.processor);
        figures.add_with(format!("{what}: p50"), "×", budgets[1], self.half);
    }
}

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let without = DevCluster::start(Options::default().audit(true))?;
    let mut arena = Arena::start(&program.for_any_peer(), sizes).await?;
    let webhook = BareWebhook::start()?;
    let servers = [
        Server { client: arena.admin.clone(), pid: arena.component(Component::ApiServer)? },
        Server {
            client: connect(without.admin_kubeconfig()).await?,
            pid: without.component(Component::ApiServer).pid().ok_or("the API server does not run")?,
        },
    ];
    for Server { client, .. } in &servers {
        writes::send_all(client, vec![create("/api/v1/namespaces", &namespace(PLACE, &[]))?], 1).await?;
    }
    arena.create("/api/v1/namespaces", [namespace("copies", &["copies"])]).await?;
    let mut figures = Figures::default();
    for _ in 0..sizes.rounds {
        let mut ratios: Vec<Ratio> = Vec::new();
        let mut before = measure(&mut arena, &webhook, &servers, &BEFORE, sizes, &mut figures).await?;
        for side in &SIDES {
            let ratio = measure(&mut arena, &webhook, &servers, side, sizes, &mut figures).await?;
            let mut base = before;
            if side.is_free {
                let after = measure(&mut arena, &webhook, &servers, &BEFORE, sizes, &mut figures).await?;
                (base, before) = (before.middle(after), after);
            }
            let free = if side.is_free { Budget::median(1.03) } else { None };
            let ratio = ratio.over(base);
            ratio.add_to(&mut figures, &format!("{} ÷ before", side.name), [free; 2]);
            ratios.push(ratio);
        }
        // What any webhook costs that is asked, the API server alone decides.
        let compared = [
            (2, 0, None),
            (3, 0, Budget::median(1.25)),
            (3, 2, None),
            (4, 3, Budget::median(1.15)),
            (5, 4, Budget::median(1.15)),
            (6, 0, None),
        ];
        for (above, below, budget) in compared {
            let what = format!("{} ÷ {}", SIDES[above].name, SIDES[below].name);
            ratios[above].over(ratios[below]).add_to(&mut figures, &what, [budget, None]);
        }
    }
    Ok(figures)
}

/// What ours takes beside the other API server, on one side.
async fn measure(
    arena: &mut Arena,
    webhook: &BareWebhook,
    servers: &[Server; 2],
    side: &Side,
    sizes: &Sizes,
    figures: &mut Figures,
) -> Outcome<Ratio> {
    set_up(arena, webhook, side).await?;
    let turns = sizes.pairs * if side.is_free { TURNS } else { FEWER_TURNS };
    let [ours, other] = compare(servers, turns, sizes.writes).await?;
    tear_down(arena, side).await?;
    figures.add(format!("{}: p50", side.name), "ms", ours.half());
    let ratio = Ratio::of(&ours, &other);
    if side.name == BEFORE.name {
        ratio.add_to(figures, "before ÷ an API server that never had us", [None; 2]);
    }
    Ok(ratio)
}

async fn set_up(arena: &mut Arena, webhook: &BareWebhook, side: &Side) -> Outcome<()> {
    match side.name {
        name if name == BEFORE.name => {
            arena.leave().await?;
            arena.stop(Role::Webhook)?;
        }
        ELSEWHERE => {
            arena.create_source(source("elsewhere", "1")).await?;
            let target = json!({"namespaceSelector": {"matchLabels": {"copies": "yes"}}});
            arena.create_rule(rule("elsewhere", "elsewhere", target)).await?;
        }
        BARE => arena.create(HOOKS, [webhook.hook(BARE_HOOK)]).await?,
        _ => {}
    }
    arena.create(POLICIES, (0..side.policies).map(|number| policy(number, side.names))).await?;
    arena.settle().await?;
    Ok(())
}

async fn tear_down(arena: &mut Arena, side: &Side) -> Outcome<()> {
    let mut gone: Vec<String> =
        (0..side.policies).map(|number| format!("{POLICIES}/bystander-{number}")).collect();
    match side.name {
        name if name == BEFORE.name => {
            arena.restart(Role::Webhook)?;
            arena.come_back().await?;
        }
        ELSEWHERE => {
            gone.push(format!("/apis/copyrator.dev/v1alpha1/namespaces/{HOME}/copyratorrules/elsewhere"));
            gone.push(path(HOME, "secrets", "elsewhere"));
        }
        BARE => gone.push(format!("{HOOKS}/{BARE_HOOK}")),
        _ => {}
    }
    for path in gone {
        writes::send_all(&arena.admin, vec![remove(&path)?], 1).await?;
    }
    Ok(())
}

/// Writes to both in short turns (A B, B A, A B …), so that a machine that becomes slower or faster weighs on both: what all turns
/// took, of each.
async fn compare(servers: &[Server; 2], turns: usize, writes: usize) -> Outcome<[Took; 2]> {
    // The first writes of a side are of no interest: the API server has just read its hooks anew. The other does the same, so
    // that neither is the warmer one.
    for server in servers {
        write(server, writes / 4).await?;
    }
    let mut took: [Took; 2] = Default::default();
    for turn in 0..turns {
        for index in [turn % 2, (turn + 1) % 2] {
            took[index].add(write(&servers[index], writes / SHARE).await?);
        }
    }
    Ok(took)
}

/// A policy with which all that is written here is well.
fn policy(number: usize, names: &str) -> Value {
    json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": "ConfigPolicy",
        "metadata": {"name": format!("bystander-{number}")},
        "spec": {
            "match": {"kinds": ["Secret"], "names": [names]}, "failurePolicy": "Fail",
            "limits": {"maxBytes": 100_000 + number},
        },
    })
}

fn secret(number: usize, seed: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name(number), "namespace": PLACE},
        "stringData": {"value": text(1024, &format!("{number} {seed}"))},
    })
}

fn name(number: usize) -> String {
    format!("secret-{number:05}")
}

/// Each of so many Secrets is created, replaced, changed in content, annotated, labelled by an apply, and deleted.
async fn write(server: &Server, count: usize) -> Outcome<Took> {
    let place = collection(PLACE, "secrets");
    let at = |number: usize| path(PLACE, "secrets", &name(number));
    let kinds: [&dyn Fn(usize) -> Outcome<Prepared>; 6] = [
        &|number| create(&place, &secret(number, "created")),
        &|number| replace(&at(number), &secret(number, "replaced")),
        &|number| {
            merge(&at(number), &json!({"stringData": {"value": text(1024, &format!("{number} merged"))}}))
        },
        &|number| merge(&at(number), &json!({"metadata": {"annotations": {"example.com/note": "noted"}}})),
        &|number| {
            let label = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name(number), "namespace": PLACE, "labels": {"example.com/team": "blue"}},
            });
            apply(&at(number), "bystander", &label)
        },
        &|number| remove(&at(number)),
    ];
    let mut all = Vec::new();
    for kind in kinds {
        all.push((0..count).map(kind).collect::<Outcome<Vec<_>>>()?);
    }
    let (mut times, used) = (Vec::new(), cpu(server.pid)?);
    for requests in all {
        times.extend(timed(&server.client, requests).await?);
    }
    Ok(Took { processor: cpu(server.pid)? - used, times })
}

/// How long each took, in milliseconds.
async fn timed(client: &Client, requests: Vec<Prepared>) -> Outcome<Vec<f64>> {
    let requests = Arc::new(Mutex::new(requests.into_iter()));
    let mut workers: JoinSet<Outcome<Vec<f64>>> = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (client, requests) = (client.clone(), requests.clone());
        workers.spawn(async move {
            let next = || requests.lock().unwrap_or_else(PoisonError::into_inner).next();
            let mut times = Vec::new();
            while let Some(request) = next() {
                let begun = Instant::now();
                send(&client, request).await?;
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = workers.join_next().await {
        times.extend(ended??);
    }
    Ok(times)
}
