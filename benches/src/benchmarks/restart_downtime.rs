//! Killed, one object of many changed, started again: which Deployments restart is read from their generations.

use std::time::{Duration, Instant};

use serde_json::json;
use testbed::Role;

use crate::Outcome;
use crate::arena::Arena;
use crate::figures::{Budget, Figures};
use crate::objects::{collection, path};
use crate::program::Program;
use crate::sizes::Sizes;
use crate::workloads::{QUIET, content, deployments, monitor, running, standings, until_all};
use crate::writes::{replace, send};

const TEAM: &str = "team";
/// How long a restart may take before it counts as missed: a lease, a quiet period, and more.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(100);

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    arena.quiet = QUIET;
    arena.stop(Role::Reconciler)?;
    eprintln!("  {} Deployments", sizes.workloads);
    arena.create_namespace(TEAM).await?;
    let name = |number: usize| format!("app-{number:04}");
    let config = |number: usize| content("ConfigMap", TEAM, &name(number), "0");
    arena.create(&collection(TEAM, "configmaps"), (0..sizes.workloads).map(config)).await?;
    let workload =
        |number: usize| running(TEAM, &name(number), &json!([{"configMapRef": {"name": name(number)}}]));
    arena.create(&deployments(TEAM), (0..sizes.workloads).map(workload)).await?;
    arena.create_monitor(monitor(TEAM, "ConfigMap", "app-*", json!({}))).await?;
    until_all(&arena.admin, TEAM, "runs", |one| one.is_running).await?;

    let mut figures = Figures::default();
    arena.restart(Role::Reconciler)?;
    until_all(&arena.admin, TEAM, "is marked", |one| one.applied.is_some()).await?;
    arena.settle().await?;
    let mut before = until_all(&arena.admin, TEAM, "runs", |one| one.is_running).await?;
    let restarts: i64 = before.values().map(|one| one.generation - 1).sum();
    figures.add_with("first start: restarts", "", Budget::every(0.0), restarts as f64);
    for round in 0..sizes.rounds {
        let changed = name(round * 7 % sizes.workloads);
        arena.kill(Role::Reconciler);
        let fresh = content("ConfigMap", TEAM, &changed, &format!("round {round}"));
        send(&arena.admin, replace(&path(TEAM, "configmaps", &changed), &fresh)?).await?;
        arena.restart(Role::Reconciler)?;
        let begun = Instant::now();
        while standings(&arena.admin, TEAM).await?[&changed].generation == before[&changed].generation {
            if begun.elapsed() > PATIENCE {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        let took = begun.elapsed();
        arena.settle().await?;
        let after = until_all(&arena.admin, TEAM, "runs", |one| one.is_running).await?;
        let restarts = |name: &String| after[name].generation - before[name].generation;
        let (done, all) = (restarts(&changed), before.keys().map(restarts).sum::<i64>());
        figures.add("after a crash: restarts due", "", 1.0);
        figures.add_with("after a crash: missed", "", Budget::every(0.0), if done == 0 { 1.0 } else { 0.0 });
        figures.add_with("after a crash: too many", "", Budget::every(0.0), (all - done.min(1)) as f64);
        figures.add("after a crash: ready to restart, a lease of 15 s among it", "s", took.as_secs_f64());
        before = after;
    }
    Ok(figures)
}
