//! What the installation costs clients that do not use Copyrator: a bare client makes six kinds of write of Secrets on an API server with
//! the chart, in short turns with another one that never had it; before the chart, with no rule, with rules elsewhere, and with policies.

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
use crate::statistics::{Summary, percentile};
use crate::writes::{self, Prepared, apply, create, merge, remove, replace, send};

/// Where the bare client writes.
const PLACE: &str = "bystander";
const POLICIES: &str = "/apis/copyrator.dev/v1alpha1/configpolicies";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const BARE_HOOK: &str = "bare-bystander";
/// The chart taken away: what every side is held against.
const BEFORE: Side = Side { name: GONE, policies: 0, names: "" };
/// These must cost nothing. The speed of the machine and of an API server drifts by more than what is looked for within minutes, so each has
/// many short laps, with *before* on both ends of each.
const FREE: [Side; 3] = [
    Side { name: "no rules", policies: 0, names: "" },
    Side { name: ELSEWHERE, policies: 0, names: "" },
    Side { name: EVERYWHERE, policies: 0, names: "" },
];
const LAPS: usize = 6;
/// What else is there while the client writes, in the order of a round.
const ASKED: [Side; 5] = [
    Side { name: BARE, policies: 0, names: "" },
    Side { name: "one policy", policies: 1, names: "*" },
    Side { name: "eight policies", policies: 8, names: "*" },
    Side { name: "a hundred policies", policies: 100, names: "*" },
    Side { name: "eight policies of others", policies: 8, names: "other-*" },
];
const GONE: &str = "before";
const ELSEWHERE: &str = "rules elsewhere";
const EVERYWHERE: &str = "a rule for all namespaces";
/// Namespaces that the rule for all namespaces copies to, beside the namespace where the bare client writes.
const NAMESPACES: usize = 20;
const BARE: &str = "a bare webhook";
/// Turns of either API server in a measurement, for each of the wished pairs.
const TURNS: usize = 2;
/// A turn writes this share of the wished Secrets: so few that both API servers see the same machine.
const SHARE: usize = 10;

/// What is there while the client writes.
struct Side {
    name: &'static str,
    /// How many policies there are, with `failurePolicy: Fail`, and the names of Secrets that they speak of.
    policies: usize,
    names: &'static str,
}

/// An API server that is written to.
#[derive(Clone)]
struct Server {
    client: Client,
    pid: u32,
}

/// What writes took: the processor of the API server, which collects no garbage meanwhile; what it allocated, since the collector's cost grows
/// with that; and each of the writes in milliseconds.
#[derive(Debug, Default)]
struct Took {
    processor: Duration,
    heap: Heap,
    times: Vec<f64>,
}

/// What an API server has allocated so far, in bytes, and how often it has collected its garbage.
#[derive(Clone, Copy, Debug, Default)]
struct Heap {
    allocated: f64,
    collections: f64,
}

impl Took {
    fn add(&mut self, other: Took) {
        self.processor += other.processor;
        self.heap.allocated += other.heap.allocated;
        self.heap.collections += other.heap.collections;
        self.times.extend(other.times);
    }

    fn half(&self) -> f64 {
        percentile(&self.times, 50.0)
    }
}

/// How much more one is than another: of the API server's processor, of what it allocated, and of the time that half of the writes took at
/// most.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    processor: f64,
    allocated: f64,
    half: f64,
}

impl Ratio {
    fn of(ours: &Took, other: &Took) -> Ratio {
        Ratio {
            processor: ours.processor.as_secs_f64() / other.processor.as_secs_f64().max(f64::EPSILON),
            allocated: ours.heap.allocated / other.heap.allocated.max(f64::EPSILON),
            half: ours.half() / other.half(),
        }
    }

    fn middle(self, other: Ratio) -> Ratio {
        Ratio {
            processor: f64::midpoint(self.processor, other.processor),
            allocated: f64::midpoint(self.allocated, other.allocated),
            half: f64::midpoint(self.half, other.half),
        }
    }

    /// The median of each; of no ratios there is none.
    fn median(ratios: &[Ratio]) -> Option<Ratio> {
        let of =
            |part: fn(&Ratio) -> f64| Some(Summary::of(&ratios.iter().map(part).collect::<Vec<_>>())?.median);
        Some(Ratio {
            processor: of(|ratio| ratio.processor)?,
            allocated: of(|ratio| ratio.allocated)?,
            half: of(|ratio| ratio.half)?,
        })
    }

    fn over(self, other: Ratio) -> Ratio {
        Ratio {
            processor: self.processor / other.processor,
            allocated: self.allocated / other.allocated,
            half: self.half / other.half,
        }
    }

    /// With the budget of the processor, and that of the two others.
    fn add_to(self, figures: &mut Figures, what: &str, processor: Option<Budget>, others: Option<Budget>) {
        figures.add_with(format!("{what}: processor"), "×", processor, self.processor);
        figures.add_with(format!("{what}: allocated"), "×", others, self.allocated);
        figures.add_with(format!("{what}: p50"), "×", others, self.half);
    }
}

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut figures = Figures::default();
    for _ in 0..sizes.rounds {
        round(program, sizes, &mut figures).await?;
    }
    Ok(figures)
}

/// One round, with a pair of clusters of its own: each pair has a bias.
async fn round(program: &Program, sizes: &Sizes, figures: &mut Figures) -> Outcome<()> {
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
    let targets = (0..NAMESPACES).map(|number| namespace(&format!("target-{number}"), &[]));
    arena.create("/api/v1/namespaces", targets.chain([namespace("copies", &["copies"])])).await?;
    let mut before = measure(&mut arena, &webhook, &servers, &BEFORE, sizes, figures).await?;
    let (mut all_before, mut none) = (vec![before], Vec::new());
    for number in 0..LAPS {
        let mut lap = Vec::new();
        // Each is as often the first one as the last.
        for at in 0..FREE.len() {
            let side = &FREE[(number + at) % FREE.len()];
            lap.push((side, measure(&mut arena, &webhook, &servers, side, sizes, figures).await?));
        }
        let after = measure(&mut arena, &webhook, &servers, &BEFORE, sizes, figures).await?;
        for (side, ratio) in lap {
            let ratio = ratio.over(before.middle(after));
            ratio.add_to(
                figures,
                &format!("{} ÷ before", side.name),
                Budget::median(if side.name == EVERYWHERE { 1.05 } else { 1.03 }),
                Budget::median(1.03),
            );
            if side.name == FREE[0].name {
                none.push(ratio);
            }
        }
        all_before.push(after);
        before = after;
    }
    let base = Ratio::median(&all_before).ok_or("nothing was measured before")?;
    let mut ratios = vec![(FREE[0].name, Ratio::median(&none).ok_or("there was no lap")?)];
    for side in &ASKED {
        let ratio = measure(&mut arena, &webhook, &servers, side, sizes, figures).await?.over(base);
        ratio.add_to(figures, &format!("{} ÷ before", side.name), None, None);
        ratios.push((side.name, ratio));
    }
    // The bare webhook is between: what its call costs is the API server's, the rest is ours.
    let compared = [
        (1, 0, None),
        (2, 0, Budget::median(1.25)),
        (2, 1, None),
        (3, 2, Budget::median(1.15)),
        (4, 3, Budget::median(1.15)),
        (5, 0, None),
    ];
    for (above, below, budget) in compared {
        let ((above, more), (below, less)) = (ratios[above], ratios[below]);
        more.over(less).add_to(figures, &format!("{above} ÷ {below}"), budget, None);
    }
    Ok(())
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
    let [ours, other] = compare(servers, sizes.pairs * TURNS, sizes.writes).await?;
    tear_down(arena, side).await?;
    figures.add(format!("{}: p50", side.name), "ms", ours.half());
    let collections = ours.heap.collections + other.heap.collections;
    figures.add("collections of garbage in the turns of a measurement, both API servers", "", collections);
    let ratio = Ratio::of(&ours, &other);
    if side.name == GONE {
        ratio.add_to(figures, "before ÷ an API server that never had us", None, None);
    }
    Ok(ratio)
}

async fn set_up(arena: &mut Arena, webhook: &BareWebhook, side: &Side) -> Outcome<()> {
    match side.name {
        GONE => {
            arena.leave().await?;
            arena.stop(Role::Webhook)?;
        }
        ELSEWHERE | EVERYWHERE => {
            arena.create_source(source("elsewhere", "1")).await?;
            let target = match side.name {
                EVERYWHERE => json!({"namespaceSelector": {}}),
                _ => json!({"namespaceSelector": {"matchLabels": {"copies": "yes"}}}),
            };
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
        GONE => {
            arena.restart(Role::Webhook)?;
            arena.come_back().await?;
        }
        ELSEWHERE | EVERYWHERE => {
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
    // The API server reads what it has allocated before it writes the profile: so what a profile takes is known by two of them.
    let first = heap(server, "/debug/pprof/heap?gc=1&debug=1").await?;
    let had = heap(server, "/debug/pprof/heap?debug=1").await?;
    let (mut times, used) = (Vec::new(), cpu(server.pid)?);
    for requests in all {
        times.extend(timed(&server.client, requests).await?);
    }
    let processor = cpu(server.pid)? - used;
    let has = heap(server, "/debug/pprof/heap?debug=1").await?;
    let profile = had.allocated - first.allocated;
    let heap = Heap {
        allocated: has.allocated - had.allocated - profile,
        collections: has.collections - had.collections,
    };
    Ok(Took { processor, heap, times })
}

/// By the API server's profile of its heap. With `gc=1` it collects its garbage first: a turn leaves too little of it for the next
/// collection, which takes as much as a few hundred writes.
async fn heap(server: &Server, path: &str) -> Outcome<Heap> {
    let profile = server.client.request_text(http::Request::get(path).body(Vec::new())?).await?;
    let said = |what: &str| -> Outcome<f64> {
        let value =
            profile.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(what)?.strip_prefix(" = "));
        Ok(value.ok_or_else(|| format!("the profile of the heap does not say {what}"))?.parse()?)
    };
    Ok(Heap { allocated: said("TotalAlloc")?, collections: said("NumGC")? })
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
