//! A Secret that changes ten times a second: how many rollouts it costs, and whether the last content runs in the end.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;

use crate::Outcome;
use crate::arena::Arena;
use crate::figures::{Budget, Figures};
use crate::objects::path;
use crate::program::Program;
use crate::sizes::Sizes;
use crate::workloads::{QUIET, content, deployments, monitor, oldest_pod, revisions, running, until_all};
use crate::writes::{replace, send};

const A_SECOND: u64 = 10;
/// At most so many rollouts (DESIGN §6).
const BUDGET: f64 = 3.0;
/// How often at most: each run takes as long as the brake holds.
const RUNS: usize = 3;
/// How long the last content may take before it counts as lost: the interval of 30 s has doubled, and more.
const PATIENCE: Duration = Duration::from_secs(180);

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    arena.quiet = QUIET;
    let mut figures = Figures::default();
    for round in 0..sizes.rounds.min(RUNS) {
        let team = format!("team-{round}");
        arena.create_namespace(&team).await?;
        arena.create_content(content("Secret", &team, "shared", "0")).await?;
        let web = running(&team, "web", &json!([{"secretRef": {"name": "shared"}}]));
        arena.create(&deployments(&team), [web]).await?;
        // As it is by default: the brake is what is measured.
        arena.create_monitor(monitor(&team, "Secret", "shared", json!({}))).await?;
        until_all(&arena.admin, &team, "runs", |one| one.is_running && one.applied.is_some()).await?;
        arena.settle().await?;
        let before = revisions(&arena.admin, &team, Some("web")).await?;

        let changes = sizes.seconds * A_SECOND;
        let mut tick = tokio::time::interval(Duration::from_millis(1000 / A_SECOND));
        for number in 1..=changes {
            tick.tick().await;
            let change = content("Secret", &team, "shared", &number.to_string());
            send(&arena.admin, replace(&path(&team, "secrets", "shared"), &change)?).await?;
        }
        let last = Timestamp::now();
        let begun = Instant::now();
        // A pod that began after the last change runs the last content, whatever anybody's marks say.
        let is_fresh = loop {
            let oldest = oldest_pod(&arena.admin, &team, "web").await?;
            if oldest.is_some_and(|created| created.as_second() > last.as_second()) {
                break true;
            }
            if begun.elapsed() > PATIENCE {
                break false;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        };
        figures.add("until the last content runs", "s", begun.elapsed().as_secs_f64());
        arena.settle().await?;
        until_all(&arena.admin, &team, "runs", |one| one.is_running).await?;
        let made = revisions(&arena.admin, &team, Some("web")).await? - before;
        figures.add("changes", "", changes as f64);
        figures.add_with("ReplicaSets made", "", Budget::every(BUDGET), made as f64);
        figures.add_with("last content lost", "", Budget::every(0.0), if is_fresh { 0.0 } else { 1.0 });
    }
    Ok(figures)
}
