//! Many custom objects, each with a Deployment by a template: one of them changes; and memory beside other people's Deployments.

use std::time::Duration;

use devcluster::Component;
use serde_json::{Value, json};
use testbed::Role;

use crate::Outcome;
use crate::arena::{Arena, PATIENCE};
use crate::audit::Request;
use crate::figures::{Budget, Figures};
use crate::objects::{HOME, TEMPLATES, deployment, namespace};
use crate::processes::{cpu, memory};
use crate::program::Program;
use crate::sizes::Sizes;
use crate::statistics::percentile;
use crate::writes::{create, merge, send};

/// From the API server's receipt of a changed object to its answer to the Deployment's patch: p50, in milliseconds (issue 17).
const CHANGE: f64 = 25.0;
/// What other people's Deployments may cost the reconciler, in MB.
const BESIDE: f64 = 10.0;
/// Namespaces that all of it is spread over.
const NAMESPACES: usize = 20;
/// Between two changes, so that none waits for the one before.
const PAUSE: Duration = Duration::from_millis(250);
/// The definition of the custom objects: group and version, kind, and plural.
const SITE: (&str, &str, &str) = ("bench.example.com/v1", "Site", "sites");

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    // The Deployment controller would use the processor beside what is measured.
    arena.hold_controllers(true)?;
    let names = (0..NAMESPACES).map(team);
    arena.create("/api/v1/namespaces", names.map(|name| namespace(&name, &[]))).await?;
    define(&arena).await?;
    arena
        .grant("instances", &["apps", "bench.example.com"], &["deployments", "sites", "sites/status"])
        .await?;
    let mut granted = program.clone();
    granted.serve_flags.extend([
        "--copy-kinds=Deployment",
        "--template-kinds=bench.example.com/v1/Site/sites/forEach+status",
    ]);
    arena.restart_as(Role::Reconciler, &granted)?;
    eprintln!("  {} objects with a Deployment each", sizes.workloads);
    let place = |number: usize| team(number % NAMESPACES);
    for home in 0..NAMESPACES {
        let here = (0..sizes.workloads).filter(|number| number % NAMESPACES == home);
        arena.create(&sites(&team(home)), here.map(|number| site(&team(home), number))).await?;
    }
    send(&arena.admin, create(TEMPLATES, &template())?).await?;
    arena.collect("Deployments at first", sizes.workloads, |it| is_ours(it, "deployments")).await?;
    arena.settle().await?;

    let mut figures = Figures::default();
    for round in 0..sizes.rounds {
        eprintln!("  round {} of {}", round + 1, sizes.rounds);
        let pid = arena.process(Role::Reconciler)?.pid();
        let (used, server) = (cpu(pid)?, cpu(arena.component(Component::ApiServer)?)?);
        let mut took = Vec::new();
        for sample in 0..sizes.samples {
            let number = (round * sizes.samples + sample) % sizes.workloads;
            took.push(change(&mut arena, &place(number), number, &format!("{round}-{sample}")).await?);
            tokio::time::sleep(PAUSE).await;
        }
        let a_change = |used: Duration| used.as_secs_f64() * 1e3 / sizes.samples as f64;
        figures.add_with("an object changes: p50", "ms", Budget::median(CHANGE), percentile(&took, 50.0));
        figures.add("an object changes: p99", "ms", percentile(&took, 99.0));
        figures.add("an object changes: our CPU", "ms", a_change(cpu(pid)? - used));
        let server = cpu(arena.component(Component::ApiServer)?)? - server;
        figures.add("an object changes: CPU of the API server", "ms", a_change(server));
        arena.settle().await?;
    }
    let without = at_rest(&mut arena, sizes, &granted).await?;
    eprintln!("  {} Deployments of other people", sizes.foreign);
    for home in 0..NAMESPACES {
        let foreign = (0..sizes.foreign).filter(|number| number % NAMESPACES == home);
        let foreign = foreign.map(|number| deployment(&team(home), &format!("foreign-{number:05}"), "app"));
        arena.create(&deployments(&team(home)), foreign.collect::<Vec<Value>>()).await?;
    }
    let beside = at_rest(&mut arena, sizes, &granted).await?;
    let watched_anyway = at_rest(&mut arena, sizes, program).await?;
    for ((without, beside), anyway) in without.into_iter().zip(beside).zip(watched_anyway) {
        figures.add("resident, without other people's Deployments", "MB", without);
        figures.add("resident, beside them", "MB", beside);
        figures.add_with("beside them: more", "MB", Budget::median(BESIDE), beside - without);
        figures.add("resident, beside them, where no template may declare Deployments", "MB", anyway);
    }
    arena.hold_controllers(false)?;
    Ok(figures)
}

/// Writes to one object, and waits for its Deployment: how long that took, in milliseconds.
async fn change(arena: &mut Arena, place: &str, number: usize, image: &str) -> Outcome<f64> {
    let name = name(number);
    send(&arena.admin, merge(&format!("{}/{name}", sites(place)), &json!({"spec": {"image": image}}))?)
        .await?;
    let is_it = |it: &Request| {
        it.namespace == place
            && it.name == name
            && (is_ours(it, "deployments")
                || (it.resource == SITE.2 && !Arena::is_ours(it) && it.is_done_write()))
    };
    let mut seen = arena.collect(&name, 1, is_it).await?;
    while !seen.iter().any(|it| it.resource == "deployments") {
        seen.extend(arena.collect(&name, 1, is_it).await?);
    }
    let written = seen.iter().find(|it| it.resource == SITE.2).ok_or("the write is not in the audit log")?;
    let patched = seen.iter().rfind(|it| it.resource == "deployments").ok_or("nothing was patched")?;
    Ok(patched.finished.duration_since(written.received).as_secs_f64() * 1e3)
}

/// What the reconciler has resident after a start, once for each round.
async fn at_rest(arena: &mut Arena, sizes: &Sizes, program: &Program) -> Outcome<Vec<f64>> {
    let mut resident = Vec::new();
    for _ in 0..sizes.rounds {
        arena.restart_as(Role::Reconciler, program)?;
        arena.settle().await?;
        tokio::time::sleep(Duration::from_secs(sizes.rest_seconds)).await;
        resident.push(memory(arena.process(Role::Reconciler)?.pid())?.resident);
    }
    Ok(resident)
}

/// Defines the kind, and waits until it is served.
async fn define(arena: &Arena) -> Outcome<()> {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": any, "status": any}});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.bench.example.com"},
        "spec": {"group": "bench.example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": SITE.2, "singular": "site", "kind": SITE.1}}});
    arena.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", [definition]).await?;
    let deadline = std::time::Instant::now() + PATIENCE;
    let list = || http::Request::get(sites(HOME)).body(Vec::new());
    while let Err(error) = arena.admin.request::<Value>(list()?).await {
        if std::time::Instant::now() > deadline {
            return Err(format!("the definition is not served: {error}").into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn template() -> Value {
    let labels = json!({"app": "${object.metadata.name}"});
    let container = json!({"name": "app", "image": "registry.example.com/app:${object.spec.image}"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "${object.metadata.name}"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate",
        "metadata": {"name": "site", "namespace": HOME},
        "spec": {
            "forEach": {"objects": {"apiVersion": SITE.0, "kind": SITE.1,
                "namespaces": [{"namespaceSelector": {}}]}},
            "objects": [{"id": "deploy", "template": deployment}],
            "writeStatus": {"available": "${deploy.status.?availableReplicas.orValue(0)}"},
        },
    })
}

fn site(namespace: &str, number: usize) -> Value {
    json!({"apiVersion": SITE.0, "kind": SITE.1, "metadata": {"name": name(number), "namespace": namespace},
        "spec": {"image": "first"}})
}

fn is_ours(request: &Request, resource: &str) -> bool {
    Arena::is_ours(request) && request.is_done_write() && request.resource == resource
}

fn name(number: usize) -> String {
    format!("site-{number:04}")
}

fn team(number: usize) -> String {
    format!("team-{number:02}")
}

fn sites(namespace: &str) -> String {
    format!("/apis/{}/namespaces/{namespace}/{}", SITE.0, SITE.2)
}

fn deployments(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments")
}
