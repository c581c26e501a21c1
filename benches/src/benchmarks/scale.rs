//! A start where there is very much: copies under templates of names, sources that annotations declare, objects in one
//! namespace. How long until everything has been looked at, what is written, what it takes, and what a review takes meanwhile.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::Role;

use super::admission_load::{PATH, until_refused};
use super::start_up::{times_led, until_idle};
use crate::Outcome;
use crate::arena::{Arena, counts};
use crate::audit::Request;
use crate::figures::{Budget, Figures};
use crate::load::{Seen, Stream};
use crate::objects::{HOME, OF_SCALE, collection, named_rule, namespace, scale_labels, source};
use crate::processes::{cpu, forget_peak, memory};
use crate::program::Program;
use crate::reviews;
use crate::sizes::Sizes;

/// Until everything has been looked at, in seconds.
const START: f64 = 10.0;
/// What the reconciler may have resident, in MB.
const RESIDENT: f64 = 150.0;
/// Seconds of a core that a sweep may take, the comparison by content too.
const SWEEP: f64 = 60.0;
/// How many reviews are sent each second.
const RATE: u32 = 100;
/// So many rules, sources or objects are made before what they lead to is waited for.
const BATCH: usize = 5;
/// How long a sweep may take: between its pages it gives way.
const PATIENCE: Duration = Duration::from_secs(600);

/// Rules with templates of names, each of two fifths of the namespaces.
pub(super) async fn copies(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = arena(program, sizes).await?;
    let each = sizes.scale_namespaces * 2 / 5;
    eprintln!("  {} copies in {} namespaces", each * OF_SCALE, sizes.scale_namespaces);
    let namespaces = (0..sizes.scale_namespaces).map(|number| {
        let labels = scale_labels(number);
        namespace(&format!("team-{number:05}"), &[&labels[0], &labels[1]])
    });
    arena.create("/api/v1/namespaces", namespaces).await?;
    arena.create(&secrets(), (0..each).map(|number| source(&format!("other-{number:05}"), "1"))).await?;
    for first in (0..OF_SCALE).step_by(BATCH) {
        for number in first..first + BATCH {
            arena.create_source(source(&format!("app-{number:02}-a"), "1")).await?;
            arena.create_rule(named_rule(number)).await?;
        }
        arena.collect("copies at first", BATCH * each, is_copy).await?;
    }
    starts(&mut arena, sizes).await
}

/// Sources that ask for a copy themselves.
pub(super) async fn sources(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = arena(program, sizes).await?;
    let count = sizes.scale_sources;
    eprintln!("  {count} annotated sources");
    let namespaces = (0..100).map(|number| namespace(&format!("team-{number:05}"), &[]));
    arena.create("/api/v1/namespaces", namespaces).await?;
    let asking = |number: usize| {
        let mut source = source(&format!("source-{number:05}"), "1");
        source["metadata"]["labels"] = json!({"copyrator.dev/declares": "true"});
        source["metadata"]["annotations"] =
            json!({"copyrator.dev/copy-to": format!("team-{:05}", number % 100)});
        source
    };
    for first in (0..count).step_by(1000) {
        let more = first..count.min(first + 1000);
        arena.create(&secrets(), more.clone().map(asking)).await?;
        arena.collect("copies at first", more.len(), is_copy).await?;
    }
    starts(&mut arena, sizes).await
}

/// One namespace with very many objects, of which one rule selects a few.
pub(super) async fn objects(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = arena(program, sizes).await?;
    eprintln!("  {} objects in one namespace", sizes.scale_objects);
    let namespaces = (0..100).map(|number| namespace(&format!("team-{number:05}"), &[]));
    arena.create("/api/v1/namespaces", namespaces).await?;
    let labelled = |number: usize| {
        let mut object = source(&format!("object-{number:05}"), "1");
        object["metadata"]["labels"] =
            json!({"copied": if number.is_multiple_of(100) { "yes" } else { "no" }});
        object
    };
    arena.create(&secrets(), (0..sizes.scale_objects).map(labelled)).await?;
    let mut rule = named_rule(0);
    rule["spec"]["source"] = json!({"kind": "Secret", "objectSelector": {"matchLabels": {"copied": "yes"}}});
    rule["spec"]["targets"] = json!([{"names": ["team-*"]}]);
    arena.create_rule(rule).await?;
    arena.collect("copies at first", sizes.scale_objects.div_ceil(100) * 100, is_copy).await?;
    starts(&mut arena, sizes).await
}

async fn arena(program: &Program, sizes: &Sizes) -> Outcome<Arena> {
    let arena = Arena::start(&program.for_any_peer().sweeping(), sizes).await?;
    // They speak of what the reviews tell of, not of what is written here.
    let elsewhere = |mut policy: Value| {
        policy["spec"]["match"]["excludeNamespaces"] = json!([HOME, "team-*"]);
        policy
    };
    let policies = reviews::policies("Ignore").into_iter().map(elsewhere);
    arena.create("/apis/copyrator.dev/v1alpha1/configpolicies", policies).await?;
    until_refused(&arena.webhook_endpoint().await?)?;
    Ok(arena)
}

fn secrets() -> String {
    collection(HOME, "secrets")
}

fn is_copy(it: &Request) -> bool {
    Arena::is_ours(it) && it.is_done_write() && it.resource == "secrets" && it.namespace != HOME
}

async fn starts(arena: &mut Arena, sizes: &Sizes) -> Outcome<Figures> {
    let mut figures = Figures::default();
    arena.settle().await?;
    let endpoint = arena.webhook_endpoint().await?;
    let requests: Vec<_> = reviews::small()?.iter().map(|body| endpoint.post(PATH, body)).collect();
    let stream = Stream { endpoint: &endpoint, requests: &requests, rate: RATE, connections: 32 };
    let lasting = Duration::from_secs(sizes.load_seconds);
    for round in 0..sizes.rounds {
        eprintln!("  round {} of {}", round + 1, sizes.rounds);
        until_told(arena).await?;
        let led = times_led(arena)?;
        arena.stop(Role::Reconciler)?;
        arena.settle().await?;
        let before = stream.send(stream.open()?, lasting)?;
        let begun = Instant::now();
        let meanwhile = thread::scope(|scope| -> Outcome<Seen> {
            let asking = scope.spawn(|| stream.send(stream.open()?, lasting));
            arena.restart(Role::Reconciler)?;
            asking.join().map_err(|_| "the generator of reviews panicked")?
        })?;
        // It reads no faster for being asked late.
        until_idle(arena, led).await?;
        let took = begun.elapsed().as_secs_f64().max(meanwhile.seconds);
        figures.add("start: to everything looked at, at most", "s", took);
        let pid = arena.process(Role::Reconciler)?.pid();
        let budget = Budget::median(START);
        figures.add_with("start: of a core until then", "s", budget, cpu(pid)?.as_secs_f64());
        let written = written(&arena.settle().await?);
        figures.add_with("start: writes", "", Budget::every(0.0), written as f64);
        let weight = memory(pid)?;
        figures.add("start: resident, at its peak", "MB", weight.peak);
        figures.add_with("start: resident after it", "MB", Budget::median(RESIDENT), weight.resident);
        figures.add("a review, nobody starting: p99", "ms", before.within(99.0));
        figures.add("a review, meanwhile: p99", "ms", meanwhile.within(99.0));
        sweep(&mut figures, arena, pid).await?;
    }
    Ok(figures)
}

/// Waits until the status of each rule counts all copies: what a process has not told when it is stopped, the next one tells.
async fn until_told(arena: &Arena) -> Outcome<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let get = http::Request::get("/apis/copyrator.dev/v1alpha1/copyratorrules").body(Vec::new())?;
        let rules: Value = arena.admin.request(get).await?;
        let statuses = rules["items"].as_array().into_iter().flatten().map(|rule| &rule["status"]);
        let untold = statuses.filter(|status| status["current"] != status["desired"]).count();
        match untold {
            0 => return Ok(()),
            _ if Instant::now() > deadline => {
                return Err(format!("{untold} statuses lack copies after {PATIENCE:?}").into());
            }
            _ => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// The sweep that comes a minute after a start: everything is listed anew and looked at, and every copy is compared by content.
async fn sweep(figures: &mut Figures, arena: &mut Arena, pid: u32) -> Outcome<()> {
    const TOLD: &str = "compared the copies with their sources";
    let told = |arena: &Arena| -> Outcome<usize> {
        Ok(arena.process(Role::Reconciler)?.log().matches(TOLD).count())
    };
    forget_peak(pid)?;
    let (used, deadline, begun) = (cpu(pid)?, Instant::now() + PATIENCE, told(arena)?);
    while told(arena)? < begun + 2 {
        if Instant::now() > deadline {
            return Err(format!("no sweep came to its end in {PATIENCE:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let seconds = (cpu(pid)? - used).as_secs_f64();
    figures.add_with("a sweep: of a core", "s", Budget::median(SWEEP), seconds);
    figures.add_with("a sweep: writes", "", Budget::every(0.0), written(&arena.settle().await?) as f64);
    figures.add("a sweep: resident, at its peak", "MB", memory(pid)?.peak);
    Ok(())
}

fn written(requests: &[Request]) -> usize {
    let ours = requests.iter().filter(|it| Arena::is_ours(it) && counts(it));
    let mut by_kind: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    ours.for_each(|it| *by_kind.entry((&it.verb, &it.resource)).or_default() += 1);
    if !by_kind.is_empty() {
        eprintln!("  written: {by_kind:?}");
    }
    by_kind.values().sum()
}
