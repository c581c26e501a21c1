//! Writes to a Secret and a ConfigMap that change no content, a hundred a second: labels, annotations, and nothing at all.

use std::time::Duration;

use serde_json::json;
use testbed::Role;

use crate::Outcome;
use crate::arena::{Arena, counts};
use crate::figures::{Budget, Figures};
use crate::objects::path;
use crate::processes::cpu;
use crate::program::Program;
use crate::sizes::Sizes;
use crate::workloads::{QUIET, content, deployments, monitor, revisions, running, until_all};
use crate::writes::{Prepared, merge, replace, send};

const TEAM: &str = "team";
/// Deployments that use the two.
const USERS: usize = 20;
const A_SECOND: u64 = 100;

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    arena.quiet = QUIET;
    let users = USERS.min(sizes.workloads);
    arena.create_namespace(TEAM).await?;
    for kind in ["Secret", "ConfigMap"] {
        arena.create_content(content(kind, TEAM, "shared", "0")).await?;
    }
    let both = json!([{"secretRef": {"name": "shared"}}, {"configMapRef": {"name": "shared"}}]);
    let workload = |number: usize| running(TEAM, &format!("app-{number:04}"), &both);
    arena.create(&deployments(TEAM), (0..users).map(workload)).await?;
    let mut watch = monitor(TEAM, "Secret", "shared", json!({"quietPeriod": "0s", "minInterval": "0s"}));
    watch["spec"]["watch"] = json!([
        {"kind": "Secret", "names": ["shared"]}, {"kind": "ConfigMap", "names": ["shared"]},
    ]);
    arena.create_monitor(watch).await?;
    until_all(&arena.admin, TEAM, "runs", |one| one.is_running && one.applied.is_some()).await?;
    arena.settle().await?;

    let mut figures = Figures::default();
    for round in 0..sizes.rounds {
        let before = until_all(&arena.admin, TEAM, "runs", |one| one.is_running).await?;
        let replica_sets = revisions(&arena.admin, TEAM, None).await?;
        let reconciler = arena.process(Role::Reconciler)?.pid();
        let (writes, used) = (sizes.seconds * A_SECOND, cpu(reconciler)?);
        let mut tick = tokio::time::interval(Duration::from_millis(1000 / A_SECOND));
        for number in 0..writes {
            tick.tick().await;
            send(&arena.admin, no_op(round, number)?).await?;
        }
        let seen = arena.settle().await?;
        let used = cpu(reconciler)? - used;
        let ours: Vec<_> = seen.iter().filter(|request| Arena::is_ours(request)).collect();
        let after = until_all(&arena.admin, TEAM, "runs", |one| one.is_running).await?;
        let restarts: i64 = after.iter().map(|(name, one)| one.generation - before[name].generation).sum();
        let made = revisions(&arena.admin, TEAM, None).await? - replica_sets;
        figures.add("writes that change no content", "", writes as f64);
        figures.add_with("restarts", "", Budget::every(0.0), restarts as f64);
        figures.add_with("ReplicaSets made", "", Budget::every(0.0), made as f64);
        let our_writes: Vec<_> = ours.iter().filter(|request| counts(request)).collect();
        for write in &our_writes {
            eprintln!("  we wrote: {} {} {}/{}", write.verb, write.resource, write.namespace, write.name);
        }
        figures.add("our writes, of statuses among them", "", our_writes.len() as f64);
        let read = |plural: &str| ours.iter().filter(|it| it.verb == "get" && it.resource == plural).count();
        figures.add("our reads of the two", "", (read("secrets") + read("configmaps")) as f64);
        figures.add("our CPU for 1,000 of them", "ms", used.as_secs_f64() * 1e6 / writes as f64);
    }
    is_awake(&arena, users).await?;
    Ok(figures)
}

/// One write that says nothing new about the content.
fn no_op(round: usize, number: u64) -> Outcome<Prepared> {
    let (plural, kind) =
        if number.is_multiple_of(2) { ("secrets", "Secret") } else { ("configmaps", "ConfigMap") };
    let place = path(TEAM, plural, "shared");
    let turn = format!("{round}-{number}");
    match number / 2 % 3 {
        0 => merge(&place, &json!({"metadata": {"labels": {"turn": turn}}})),
        1 => merge(&place, &json!({"metadata": {"annotations": {"example.com/turn": turn}}})),
        _ => replace(&place, &content(kind, TEAM, "shared", "0")),
    }
}

/// Nothing can be said by a count of nothing, unless content does restart them.
async fn is_awake(arena: &Arena, users: usize) -> Outcome<()> {
    let before = revisions(&arena.admin, TEAM, None).await?;
    let change = replace(&path(TEAM, "secrets", "shared"), &content("Secret", TEAM, "shared", "1"))?;
    send(&arena.admin, change).await?;
    until_all(&arena.admin, TEAM, "restarts for content", |one| one.generation > 1).await?;
    until_all(&arena.admin, TEAM, "runs", |one| one.is_running).await?;
    match revisions(&arena.admin, TEAM, None).await? - before {
        made if made == users => Ok(()),
        made => Err(format!("{made} ReplicaSets for one change, not {users}").into()),
    }
}
