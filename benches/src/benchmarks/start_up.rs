//! A start with every copy in place: how long until ready, what is written, what is read.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::Role;

use crate::Outcome;
use crate::arena::{Arena, counts};
use crate::audit::Request;
use crate::figures::{Budget, Figures};
use crate::objects::{HOME, namespace, rule, source};
use crate::processes::memory;
use crate::program::Program;
use crate::sizes::Sizes;

/// How many copies each namespace has.
const SOURCES: usize = 10;
/// Longer than a status waits to be written: what the last life still owed would be taken for the next one's.
const QUIET: Duration = Duration::from_millis(2500);
/// How long looking at everything may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    arena.quiet = QUIET;
    let copies = sizes.namespaces * SOURCES;
    eprintln!("  {copies} copies in {} namespaces", sizes.namespaces);
    let namespaces = (0..sizes.namespaces).map(|number| namespace(&format!("team-{number:05}"), &[]));
    arena.create("/api/v1/namespaces", namespaces).await?;
    for number in 0..SOURCES {
        arena.create_source(source(&format!("start-{number}"), "1")).await?;
    }
    arena.create_rule(rule("start", "start-*", json!({"names": ["team-*"]}))).await?;
    let is_copy = |it: &Request| it.is_done_write() && it.resource == "secrets" && it.namespace != HOME;
    arena.collect("copies at first", copies, |it| Arena::is_ours(it) && is_copy(it)).await?;
    until_told(&arena, copies).await?;
    arena.settle().await?;

    let mut figures = Figures::default();
    figures.add("program size", "MB", program.megabytes);
    for _ in 0..sizes.rounds {
        let ready = arena.restart(Role::Webhook)?;
        figures.add("webhook: start to ready", "ms", ready.as_secs_f64() * 1e3);
        let led = times_led(&arena)?;
        arena.stop(Role::Reconciler)?;
        arena.settle().await?;
        let ready = arena.restart(Role::Reconciler)?;
        let budget = Budget::median(2000.0);
        figures.add_with("reconciler: start to ready", "ms", budget, ready.as_secs_f64() * 1e3);
        until_idle(&arena, led).await?;
        look_back(&mut figures, &arena.settle().await?)?;
        tokio::time::sleep(Duration::from_secs(sizes.rest_seconds)).await;
        for role in [Role::Webhook, Role::Reconciler] {
            let memory = memory(arena.process(role)?.pid())?;
            figures.add(format!("{}: memory at rest after it", role.name()), "MB", memory.resident);
        }
    }
    Ok(figures)
}

/// Waits until the rule's status tells of all copies, so that nothing is owed when the first life ends.
async fn until_told(arena: &Arena, copies: usize) -> Outcome<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let path = format!("/apis/copyrator.dev/v1alpha1/namespaces/{HOME}/copyratorrules/start");
        let rule: Value = arena.admin.request(http::Request::get(path).body(Vec::new())?).await?;
        if rule["status"]["current"] == copies {
            return Ok(());
        }
        if Instant::now() > deadline {
            let status = &rule["status"];
            return Err(
                format!("the status tells not of {copies} copies after {PATIENCE:?}: {status}").into()
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What the reconciler asked for since it started.
fn look_back(figures: &mut Figures, requests: &[Request]) -> Outcome<()> {
    let ours: Vec<&Request> = requests.iter().filter(|request| Arena::is_ours(request)).collect();
    let writes: Vec<_> = ours.iter().filter(|request| counts(request)).collect();
    if !writes.is_empty() {
        let mut by_kind: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for write in &writes {
            *by_kind.entry((&write.verb, &write.resource)).or_default() += 1;
        }
        eprintln!("  a restart wrote: {by_kind:?}");
    }
    figures.add_with("reconciler: writes", "", Budget::every(0.0), writes.len() as f64);
    let bodies = |of_sources: bool| {
        let is_body = |it: &&&Request| {
            it.verb == "get"
                && ["secrets", "configmaps"].contains(&it.resource.as_str())
                && it.namespace != testbed::NAMESPACE
                && (it.namespace == HOME) == of_sources
        };
        ours.iter().filter(is_body).count()
    };
    figures.add_with("reconciler: copies read", "", Budget::every(0.0), bodies(false) as f64);
    // Nothing can be said to be in place before the sources were read: without that, nothing was looked at.
    if bodies(true) == 0 {
        return Err("the reconciler has read no source: it has not looked at anything".into());
    }
    figures.add("reconciler: sources read", "", bodies(true) as f64);
    let is_page =
        |it: &&&Request| it.verb == "list" && ["secrets", "configmaps"].contains(&it.resource.as_str());
    let pages = ours.iter().filter(is_page).count();
    figures.add("reconciler: pages of ConfigMaps and Secrets listed", "", pages as f64);
    Ok(())
}

/// How often a reconciler has begun to lead, as its log says.
pub(super) fn times_led(arena: &Arena) -> Outcome<usize> {
    Ok(arena.process(Role::Reconciler)?.log().matches("reconciles everything").count())
}

/// Waits until the reconciler leads once more than `led` times, and has looked at everything.
pub(super) async fn until_idle(arena: &Arena, led: usize) -> Outcome<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, metrics) = arena.process(Role::Reconciler)?.ask("/metrics")?;
        if times_led(arena)? > led && is_idle(&metrics) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("the reconciler is not through after {PATIENCE:?}:\n{metrics}").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Whether the metrics say that nothing waits and nothing is under way.
fn is_idle(metrics: &str) -> bool {
    let lines = || {
        metrics.lines().filter(|line| {
            line.starts_with("copyrator_queue_depth{") || line.starts_with("copyrator_in_flight ")
        })
    };
    let is_zero = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse().ok()) == Some(0.0f64);
    lines().count() > 1 && lines().all(is_zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_means_that_nothing_waits_and_nothing_is_under_way() {
        let metrics = |sweep: u32, running: u32| {
            format!(
                "# TYPE copyrator_queue_depth gauge\ncopyrator_queue_depth{{lane=\"change\"}} 0\n\
                 copyrator_queue_depth{{lane=\"sweep\"}} {sweep}\ncopyrator_in_flight {running}\n"
            )
        };
        assert!(is_idle(&metrics(0, 0)));
        assert!(!is_idle(&metrics(3, 0)));
        assert!(!is_idle(&metrics(0, 10)));
        assert!(!is_idle(""), "a process without a queue is not idle, but something else");
    }
}
