//! What having us installed costs who has nothing to do with us: a bare client's six kinds of write of Secrets, on an API
//! server before the chart and on one with it, in turns; with no rule, with rules elsewhere, and with policies.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use devcluster::{Component, DevCluster, Options};
use kube::Client;
use serde_json::{Value, json};
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

/// Where the bare client writes, and where our rules are.
const PLACE: &str = "bystander";
const POLICIES: &str = "/apis/copyrator.dev/v1alpha1/configpolicies";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const BARE_HOOK: &str = "bare-bystander";
/// What is there beside the writes: how it is called, how many policies with `failurePolicy: Fail`, and the names that they
/// speak of.
const SIDES: [(&str, usize, &str); 7] = [
    ("no rules", 0, ""),
    ("rules elsewhere", 0, ""),
    ("a bare webhook", 0, ""),
    ("one policy", 1, "*"),
    ("eight policies", 8, "*"),
    ("a hundred policies", 100, "*"),
    ("eight policies of others", 8, "other-*"),
];

/// What the writes took.
#[derive(Clone, Copy, Debug)]
struct Measured {
    server: Duration,
    half: f64,
}

impl Measured {
    /// Of two runs: the processor of both, the middle of their medians.
    fn both(one: Self, other: Self) -> Self {
        Self { server: one.server + other.server, half: f64::midpoint(one.half, other.half) }
    }
}

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let before = DevCluster::start(Options::default().audit(true))?;
    let bare = connect(before.admin_kubeconfig()).await?;
    let bare_server = before.component(Component::ApiServer).pid().ok_or("the API server does not run")?;
    let mut arena = Arena::start(&program.for_any_peer(), sizes).await?;
    let server = arena.component(Component::ApiServer)?;
    let client = arena.admin.clone();
    let webhook = BareWebhook::start()?;
    for client in [&bare, &client] {
        writes::send_all(client, vec![create("/api/v1/namespaces", &namespace(PLACE, &[]))?], 1).await?;
    }
    arena.create("/api/v1/namespaces", [namespace("copies", &["copies"])]).await?;
    let mut figures = Figures::default();
    for _ in 0..sizes.rounds {
        let mut ratios: Vec<(f64, f64)> = Vec::new();
        for (side, count, names) in SIDES {
            let (is_elsewhere, is_bare) = (side == "rules elsewhere", side == "a bare webhook");
            if is_bare {
                arena.create(HOOKS, [webhook.hook(BARE_HOOK)]).await?;
            }
            if is_elsewhere {
                arena.create_source(source("elsewhere", "1")).await?;
                let target = json!({"namespaceSelector": {"matchLabels": {"copies": "yes"}}});
                arena.create_rule(rule("elsewhere", "elsewhere", target)).await?;
            }
            arena.create(POLICIES, (0..count).map(|number| policy(number, names))).await?;
            arena.settle().await?;
            // The first writes of a side are of no interest: the API server has just read its hooks anew. The other does the
            // same, so that neither is the warmer one.
            write(&client, server, sizes.writes / 4).await?;
            write(&bare, bare_server, sizes.writes / 4).await?;
            // A B B A: what drifts meanwhile weighs on both.
            let first = write(&client, server, sizes.writes).await?;
            let theirs = Measured::both(
                write(&bare, bare_server, sizes.writes).await?,
                write(&bare, bare_server, sizes.writes).await?,
            );
            let ours = Measured::both(first, write(&client, server, sizes.writes).await?);
            let ratio = (
                ours.server.as_secs_f64() / theirs.server.as_secs_f64().max(f64::EPSILON),
                ours.half / theirs.half,
            );
            let free = if count == 0 && !is_bare { Budget::median(1.03) } else { None };
            figures.add_with(format!("{side} ÷ before: processor"), "×", free, ratio.0);
            figures.add_with(format!("{side} ÷ before: p50"), "×", free, ratio.1);
            figures.add(format!("{side}: p50"), "ms", ours.half);
            figures.add("before: p50", "ms", theirs.half);
            ratios.push(ratio);
            let gone = (0..count).map(|number| remove(&format!("{POLICIES}/bystander-{number}")));
            writes::send_all(&client, gone.collect::<Outcome<Vec<Prepared>>>()?, IN_FLIGHT).await?;
            if is_bare {
                writes::send_all(&client, vec![remove(&format!("{HOOKS}/{BARE_HOOK}"))?], 1).await?;
            }
            if is_elsewhere {
                let rule = format!("/apis/copyrator.dev/v1alpha1/namespaces/{HOME}/copyratorrules/elsewhere");
                writes::send_all(&client, vec![remove(&rule)?], 1).await?;
                writes::send_all(&client, vec![remove(&path(HOME, "secrets", "elsewhere"))?], 1).await?;
            }
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
            let what = format!("{} ÷ {}", SIDES[above].0, SIDES[below].0);
            figures.add_with(format!("{what}: processor"), "×", budget, ratios[above].0 / ratios[below].0);
            figures.add(format!("{what}: p50"), "×", ratios[above].1 / ratios[below].1);
        }
    }
    Ok(figures)
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
async fn write(client: &Client, server: u32, count: usize) -> Outcome<Measured> {
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
    let (mut times, used) = (Vec::new(), cpu(server)?);
    for requests in all {
        times.extend(timed(client, requests).await?);
    }
    Ok(Measured { server: cpu(server)? - used, half: percentile(&times, 50.0) })
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
