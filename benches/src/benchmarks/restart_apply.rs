//! Others write the same Deployments: a Helm-like upgrade of configuration and workload at once, a workload created together
//! with its configuration, and a loop that applies a manifest again and again. Each ReplicaSet too many is a rollout too
//! many.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Outcome;
use crate::arena::Arena;
use crate::figures::{Budget, Figures};
use crate::objects::path;
use crate::program::Program;
use crate::sizes::Sizes;
use crate::workloads::{QUIET, content, deployments, revisions, running, standings, until_all};
use crate::writes::{apply, create, replace, send};

/// Between two writes of one upgrade: with it three of them cross a second now and then.
const GAP: Duration = Duration::from_millis(300);

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    arena.quiet = QUIET;
    let mut figures = Figures::default();
    upgrades(&mut arena, sizes, &mut figures).await?;
    creations(&mut arena, sizes, &mut figures).await?;
    reapplied(&mut arena, sizes, &mut figures).await?;
    Ok(figures)
}

/// A Deployment that has opted in by its annotation.
fn opted_in(team: &str, name: &str, env_from: &Value) -> Value {
    let mut web = running(team, name, env_from);
    web["metadata"]["annotations"] = json!({"copyrator.dev/restart": "true"});
    web
}

fn both() -> Value {
    json!([{"configMapRef": {"name": "config"}}, {"secretRef": {"name": "secret"}}])
}

/// One release after the other: ConfigMap, Secret and Deployment within a second, as Helm orders them.
async fn upgrades(arena: &mut Arena, sizes: &Sizes, figures: &mut Figures) -> Outcome<()> {
    let team = "helm";
    arena.create_namespace(team).await?;
    let release = |version: usize| {
        let seed = version.to_string();
        let mut web = opted_in(team, "web", &both());
        web["spec"]["template"]["spec"]["containers"][0]["image"] =
            format!("registry.example.com/app:{version}").into();
        [
            (path(team, "configmaps", "config"), content("ConfigMap", team, "config", &seed)),
            (path(team, "secrets", "secret"), content("Secret", team, "secret", &seed)),
            (format!("{}/web", deployments(team)), web),
        ]
    };
    let is_settled = |arena: &Arena| {
        let admin = arena.admin.clone();
        async move { until_all(&admin, team, "runs", |one| one.is_running && one.applied.is_some()).await }
    };
    for (place, object) in release(0) {
        send(&arena.admin, apply(&place, "helm", &object)?).await?;
    }
    is_settled(arena).await?;
    arena.settle().await?;
    for version in 1..=sizes.rounds {
        let marked = is_settled(arena).await?["web"].applied.clone();
        let before = revisions(&arena.admin, team, Some("web")).await?;
        for (place, object) in release(version) {
            send(&arena.admin, apply(&place, "helm", &object)?).await?;
            tokio::time::sleep(GAP).await;
        }
        until_all(&arena.admin, team, "is marked anew", |one| one.applied != marked).await?;
        arena.settle().await?;
        is_settled(arena).await?;
        let made = revisions(&arena.admin, team, Some("web")).await? - before;
        let what = "upgrade of ConfigMap, Secret and Deployment: ReplicaSets";
        figures.add_with(what, "", Budget::every(1.0), made as f64);
    }
    Ok(())
}

/// A workload and its ConfigMap, created one right after the other.
async fn creations(arena: &mut Arena, sizes: &Sizes, figures: &mut Figures) -> Outcome<()> {
    for round in 0..sizes.rounds {
        for is_config_first in [true, false] {
            let order = if is_config_first { "ConfigMap, Deployment" } else { "Deployment, ConfigMap" };
            let team = format!("new-{}-{round}", if is_config_first { "config" } else { "workload" });
            arena.create_namespace(&team).await?;
            let config = create(
                &format!("/api/v1/namespaces/{team}/configmaps"),
                &content("ConfigMap", &team, "config", "0"),
            )?;
            let web = opted_in(&team, "web", &json!([{"configMapRef": {"name": "config"}}]));
            let mut writes = vec![config, create(&deployments(&team), &web)?];
            if !is_config_first {
                writes.reverse();
            }
            for write in writes {
                send(&arena.admin, write).await?;
                tokio::time::sleep(GAP).await;
            }
            until_all(&arena.admin, &team, "runs", |one| one.is_running && one.applied.is_some()).await?;
            arena.settle().await?;
            let made = revisions(&arena.admin, &team, Some("web")).await?;
            let what = format!("created, {order}: ReplicaSets");
            figures.add_with(what, "", Budget::every(1.0), made as f64);
        }
    }
    Ok(())
}

/// A manifest, applied each second after a restart of ours, by kubectl in both of its ways.
async fn reapplied(arena: &mut Arena, sizes: &Sizes, figures: &mut Figures) -> Outcome<()> {
    let team = "loop";
    arena.create_namespace(team).await?;
    arena.create_content(content("ConfigMap", team, "config", "0")).await?;
    let ways = [("client", &[][..]), ("server", &["--server-side"][..])];
    let manifest = |name: &str| opted_in(team, name, &json!([{"configMapRef": {"name": "config"}}]));
    for (name, flags) in ways {
        kubectl_apply(arena, &manifest(name), flags)?;
    }
    until_all(&arena.admin, team, "runs", |one| one.is_running && one.applied.is_some()).await?;
    arena.settle().await?;
    let change = replace(&path(team, "configmaps", "config"), &content("ConfigMap", team, "config", "1"))?;
    send(&arena.admin, change).await?;
    until_all(&arena.admin, team, "restarts", |one| one.generation > 1).await?;
    let before = until_all(&arena.admin, team, "runs", |one| one.is_running).await?;
    arena.settle().await?;

    let mut drifts = 0;
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    for _ in 0..sizes.seconds {
        tick.tick().await;
        for (name, flags) in ways {
            kubectl_apply(arena, &manifest(name), flags)?;
        }
        drifts += usize::from(is_drift(arena, team, &manifest("server")).await?);
    }
    arena.settle().await?;
    let after = standings(&arena.admin, team).await?;
    for (name, _) in ways {
        let extra = after[name].generation - before[name].generation;
        let what = format!("applied again each second, {name}-side: template changes");
        figures.add_with(what, "", Budget::every(0.0), extra as f64);
        let made = revisions(&arena.admin, team, Some(name)).await?;
        figures.add_with(
            format!("… {name}-side: ReplicaSets after one change"),
            "",
            Budget::every(2.0),
            made as f64,
        );
    }
    figures.add("applied again: times each", "", sizes.seconds as f64);
    figures.add_with("drift seen by a dry run", "", Budget::every(0.0), drifts as f64);
    Ok(())
}

fn kubectl_apply(arena: &Arena, object: &Value, flags: &[&str]) -> Outcome<()> {
    let mut kubectl = arena.kubectl();
    kubectl.args(["apply", "--filename", "-"]).args(flags).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = kubectl.spawn()?;
    if let Some(input) = child.stdin.take() {
        serde_json::to_writer(input, object)?;
    }
    match child.wait()? {
        status if status.success() => Ok(()),
        status => Err(format!("kubectl apply: {status}").into()),
    }
}

/// Whether a dry run of the same apply, as GitOps tools ask for it, would change anything.
async fn is_drift(arena: &Arena, team: &str, object: &Value) -> Outcome<bool> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let place = format!("{}/{name}", deployments(team));
    let dry = http::Request::patch(format!("{place}?fieldManager=kubectl&dryRun=All"))
        .header("content-type", "application/apply-patch+yaml")
        .body(serde_json::to_vec(object)?)?;
    let would: Value = arena.admin.request(dry).await?;
    let is: Value = arena.admin.request(http::Request::get(place).body(Vec::new())?).await?;
    let parts = |it: &Value| {
        (it["spec"].clone(), it["metadata"]["labels"].clone(), it["metadata"]["annotations"].clone())
    };
    Ok(parts(&would) != parts(&is))
}
