//! What a hook costs who writes: ConfigMaps are changed through the API server, without any hook of ours, with that of one
//! policy and the one that warns, and with those of eight policies and that; the API server calls them side by side. The
//! three take turns.

use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use testbed::{RELEASE, Role};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::arena::Arena;
use crate::figures::Figures;
use crate::objects::{collection, namespace, path, text};
use crate::processes::cpu;
use crate::program::Program;
use crate::reviews;
use crate::sizes::Sizes;
use crate::statistics::percentile;
use crate::writes::{self, replace, send};

/// Writers at once; each changes an object of its own.
const WRITERS: usize = 4;
/// How long the API server may take to hear of hooks that come or go.
const PATIENCE: Duration = Duration::from_secs(60);
/// So often in a row a write must go as it should, until nothing of the API server's knowledge is old.
const SURE: u32 = 5;
/// Of each kind of side: its namespace, and how many policies with `failurePolicy: Fail` speak of that.
const SIDES: [(&str, usize); 3] = [("no-hooks", 0), ("one-policy", 1), ("eight-policies", 8)];

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(&program.for_any_peer(), sizes).await?;
    for (side, count) in SIDES {
        arena.create("/api/v1/namespaces", [namespace(side, &[side])]).await?;
        let policies = reviews::policies("Fail").into_iter().take(count).map(|policy| of_side(policy, side));
        arena.create("/apis/copyrator.dev/v1alpha1/configpolicies", policies).await?;
        for writer in 0..WRITERS {
            arena.create(&collection(side, "configmaps"), [object(side, writer, "first")]).await?;
        }
    }
    for (side, count) in SIDES {
        until(&arena, side, count > 0).await?;
    }
    arena.settle().await?;
    // Nobody is there to put the hooks right.
    arena.stop(Role::Reconciler)?;
    let hooks = Hooks::of(&arena).await?;
    let mut figures = Figures::default();
    for pair in 0..sizes.pairs {
        let mut times = Vec::new();
        let mut order: Vec<_> = SIDES.into_iter().enumerate().collect();
        if pair % 2 == 1 {
            order.reverse();
        }
        for (index, (side, count)) in order {
            if count == 0 {
                hooks.remove(&arena).await?;
                until(&arena, SIDES[1].0, false).await?;
            } else {
                until(&arena, side, true).await?;
            }
            let took = write(&arena, side, sizes.writes, &mut figures).await?;
            if count == 0 {
                // All of it, so that the other sides differ in nothing but what their policies bring.
                hooks.restore(&arena).await?;
                until(&arena, SIDES[1].0, true).await?;
            }
            times.push((index, side, took));
        }
        times.sort_by_key(|(index, ..)| *index);
        let [(.., bare), hooked @ ..] = &times[..] else { continue };
        for (_, side, took) in hooked {
            figures.add(format!("{side} ÷ {}: p50", SIDES[0].0), "×", took.0 / bare.0);
            figures.add(format!("{side} ÷ {}: p99", SIDES[0].0), "×", took.1 / bare.1);
        }
    }
    Ok(figures)
}

/// A policy for one side's namespace only.
fn of_side(mut policy: Value, side: &str) -> Value {
    let name = format!("{side}-{}", policy["metadata"]["name"].as_str().unwrap_or_default());
    policy["metadata"]["name"] = json!(name);
    policy["spec"]["match"]["kinds"] = json!(["ConfigMap"]);
    policy["spec"]["match"]["namespaceSelector"] = json!({"matchLabels": {side: "yes"}});
    policy
}

/// A good ConfigMap of a little over 1 KiB, with something for each policy.
fn object(side: &str, writer: usize, seed: &str) -> Value {
    let settings = format!("level: info\nlines: [{}]\n", text(1024, seed));
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("app-{writer}"), "namespace": side},
        "data": {"url": "https://api.example.com", "min": "1", "max": "5", "settings.yaml": settings},
    })
}

/// Changes the objects of a side so often: the times that half and 99 % of the writes took at most, in milliseconds.
async fn write(
    arena: &Arena,
    side: &'static str,
    count: usize,
    figures: &mut Figures,
) -> Outcome<(f64, f64)> {
    let (server, webhook) =
        (arena.component(devcluster::Component::ApiServer)?, arena.process(Role::Webhook)?.pid());
    let used = (cpu(server)?, cpu(webhook)?);
    let mut writers: JoinSet<Outcome<Vec<f64>>> = JoinSet::new();
    for writer in 0..WRITERS {
        let client = arena.admin.clone();
        let mut requests = Vec::new();
        for number in 0..count.div_ceil(WRITERS) {
            let seed = format!("{number} {:?}", Instant::now());
            requests.push(replace(
                &path(side, "configmaps", &format!("app-{writer}")),
                &object(side, writer, &seed),
            )?);
        }
        writers.spawn(async move {
            let mut times = Vec::new();
            for request in requests {
                let begun = Instant::now();
                send(&client, request).await?;
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = writers.join_next().await {
        times.extend(ended??);
    }
    let for_thousand = |used: Duration| used.as_secs_f64() * 1e6 / times.len() as f64;
    let (half, most) = (percentile(&times, 50.0), percentile(&times, 99.0));
    figures.add(format!("{side}: p50"), "ms", half);
    figures.add(format!("{side}: p99"), "ms", most);
    figures.add(
        format!("{side}: CPU for 1,000 writes, API server"),
        "ms",
        for_thousand(cpu(server)? - used.0),
    );
    figures.add(format!("{side}: CPU for 1,000 writes, webhook"), "ms", for_thousand(cpu(webhook)? - used.1));
    Ok((half, most))
}

/// Waits until a bad ConfigMap is refused in a namespace, or no longer.
async fn until(arena: &Arena, side: &str, refused: bool) -> Outcome<()> {
    let mut bad = object(side, WRITERS, "bad");
    bad["data"]["url"] = json!("no url");
    let place = format!("{}?dryRun=All", collection(side, "configmaps"));
    let (begun, mut sure) = (Instant::now(), 0);
    while sure < SURE {
        let answer = send(&arena.admin, writes::create(&place, &bad)?).await;
        let said = answer.err().map(|error| error.to_string());
        let as_wanted = match &said {
            Some(said) => refused && said.contains("policy "),
            None => !refused,
        };
        sure = if as_wanted { sure + 1 } else { 0 };
        if begun.elapsed() > PATIENCE {
            let wanted = if refused { "refused" } else { "allowed" };
            return Err(
                format!("{side}: a bad ConfigMap is not {wanted} after {PATIENCE:?}: {said:?}").into()
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Our webhook configurations, to be taken away and put back.
struct Hooks {
    validating: ValidatingWebhookConfiguration,
    mutating: MutatingWebhookConfiguration,
}

impl Hooks {
    async fn of(arena: &Arena) -> Outcome<Hooks> {
        let mut validating =
            Api::<ValidatingWebhookConfiguration>::all(arena.admin.clone()).get(RELEASE).await?;
        let mut mutating = Api::<MutatingWebhookConfiguration>::all(arena.admin.clone()).get(RELEASE).await?;
        for metadata in [&mut validating.metadata, &mut mutating.metadata] {
            (metadata.uid, metadata.resource_version, metadata.managed_fields) = (None, None, None);
        }
        Ok(Hooks { validating, mutating })
    }

    async fn remove(&self, arena: &Arena) -> Outcome<()> {
        let at_once = DeleteParams::default();
        let validating = Api::<ValidatingWebhookConfiguration>::all(arena.admin.clone());
        let mutating = Api::<MutatingWebhookConfiguration>::all(arena.admin.clone());
        validating.delete(RELEASE, &at_once).await?;
        mutating.delete(RELEASE, &at_once).await?;
        Ok(())
    }

    async fn restore(&self, arena: &Arena) -> Outcome<()> {
        let as_it_was = PostParams::default();
        let validating = Api::<ValidatingWebhookConfiguration>::all(arena.admin.clone());
        let mutating = Api::<MutatingWebhookConfiguration>::all(arena.admin.clone());
        mutating.create(&as_it_was, &self.mutating).await?;
        validating.create(&as_it_was, &self.validating).await?;
        Ok(())
    }
}
