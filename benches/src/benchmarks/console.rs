//! The console in the cluster where there is much to see: how long until a page shows something and until all of it is there, of how
//! many bytes it is, and what many open pages cost the console and the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use devcluster::Component;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::Outcome;
use crate::arena::Arena;
use crate::audit::Request;
use crate::figures::{Budget, Figures};
use crate::objects::{HOME, collection, config_map, namespace, rule, source};
use crate::processes::{cpu, forget_peak, memory};
use crate::program::Program;
use crate::sizes::Sizes;
use crate::statistics::percentile;
use crate::visitors::{Console, Page, Visitor, is_theirs, people};

/// Until a page shows something, in milliseconds.
const FIRST_PAINT: f64 = 300.0;
/// What a page and what belongs to it may have before somebody scrolls, in KB.
const BYTES: f64 = 200.0;
/// How many pages one person has open.
const PAGES_EACH: usize = 3;
/// So many rules are made before what they lead to is waited for.
const BATCH: usize = 5;
/// Longer than anything is kept only because it is new.
const A_WHILE: Duration = Duration::from_secs(12);
/// How often something is reported.
const TICK: Duration = Duration::from_secs(2);
/// What belongs to every page.
const ASSETS: [&str; 3] = ["/assets/style.css", "/assets/script.js", "/assets/icon.svg"];
/// What people look at, beside Live.
const VIEWS: [(&str, &str); 2] = [("Where", "/where"), ("Overview", "/")];

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(program, sizes).await?;
    furnish(&mut arena, sizes).await?;
    let people = people(&arena, sizes.pages.div_ceil(PAGES_EACH)).await?;
    let mut figures = Figures::default();
    for round in 0..sizes.rounds {
        eprintln!("  round {} of {}", round + 1, sizes.rounds);
        arena.settle().await?;
        let console = Console::start(&arena).await?;
        one_person(&mut figures, &arena, &console.visitor(&people[0]), round).await?;
        let weight = memory(console.pid())?;
        figures.add("one person: the console resident, at its peak", "MB", weight.peak);
        figures.add("one person: the console resident", "MB", weight.resident);
        forget_peak(console.pid())?;
        let pages = |number: usize| console.visitor(&people[number / PAGES_EACH]);
        many_pages(&mut figures, (&mut arena, &console), (0..sizes.pages).map(pages).collect(), sizes)
            .await?;
    }
    Ok(figures)
}

/// Namespaces, and rules with a copy in each of them.
async fn furnish(arena: &mut Arena, sizes: &Sizes) -> Outcome<()> {
    eprintln!("  {} rules in {} namespaces", sizes.rules, sizes.namespaces);
    let namespaces = (0..sizes.namespaces).map(|number| namespace(&format!("team-{number:05}"), &[]));
    arena.create("/api/v1/namespaces", namespaces).await?;
    let is_copy = |it: &Request| {
        Arena::is_ours(it) && it.is_done_write() && it.resource == "secrets" && it.namespace != HOME
    };
    for first in (0..sizes.rules).step_by(BATCH) {
        let batch = first..sizes.rules.min(first + BATCH);
        for number in batch.clone() {
            let name = format!("app-{number:02}");
            arena.create_source(source(&name, "1")).await?;
            arena.create_rule(rule(&name, &name, json!({"names": ["team-*"]}))).await?;
        }
        arena.collect("copies at first", batch.len() * sizes.namespaces, is_copy).await?;
    }
    Ok(())
}

/// One person opens a page, and others after it.
async fn one_person(figures: &mut Figures, arena: &Arena, visitor: &Visitor, round: usize) -> Outcome<()> {
    let mut assets = 0;
    for path in ASSETS {
        assets += visitor.get(path).await?.body.len();
    }
    add(figures, "Where, as the first page of all", &visitor.get("/where").await?);
    for (view, path) in VIEWS {
        let page = visitor.get(path).await?;
        add(figures, &format!("{view}, right after it"), &page);
        let bytes = (page.body.len() + assets) as f64 / 1e3;
        figures.add_with(format!("{view}: bytes, with style and script"), "KB", Budget::every(BYTES), bytes);
    }
    for (view, path) in VIEWS {
        sleep(A_WHILE).await;
        add(figures, &format!("{view}, a while later"), &visitor.get(path).await?);
    }
    sleep(A_WHILE).await;
    let name = format!("new-{round}");
    arena.create(&collection("team-00000", "configmaps"), [config_map("team-00000", &name)]).await?;
    add(figures, "Where, after a change", &visitor.get("/where").await?);
    Ok(())
}

/// How long a page took.
fn add(figures: &mut Figures, about: &str, page: &Page) {
    figures.add_with(
        format!("{about}: first paint"),
        "ms",
        Budget::median(FIRST_PAINT),
        milliseconds(page.painted),
    );
    figures.add(format!("{about}: whole"), "ms", milliseconds(page.took));
}

fn milliseconds(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// When something that was reported arrived: by its number, at each page.
type Arrivals = Arc<Mutex<BTreeMap<u32, Vec<Instant>>>>;

/// Many pages are open and follow what is reported; at first nobody does anything, then each is looked at anew once a minute.
async fn many_pages(
    figures: &mut Figures,
    (arena, console): (&mut Arena, &Console),
    pages: Vec<Visitor>,
    sizes: &Sizes,
) -> Outcome<()> {
    let count = pages.len();
    let arrivals = Arrivals::default();
    let mut following = JoinSet::new();
    for page in &pages {
        page.get("/live").await?;
        let mut lines = page.follow().await?;
        let (arrivals, home) = (arrivals.clone(), page.namespace.clone());
        following.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let Some(data) = line.strip_prefix("data: ") else { continue };
                let told = serde_json::from_str::<Value>(data).unwrap_or_default();
                let number =
                    told["message"].as_str().and_then(|text| text.strip_prefix("tick ")?.parse().ok());
                let number = number.filter(|_| told["about"]["namespace"] == *home);
                if let Some(number) = number {
                    arrivals
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .entry(number)
                        .or_default()
                        .push(Instant::now());
                }
            }
        });
    }
    let lasting = Duration::from_secs(sizes.pages_seconds);
    for (phase, are_loaded) in [("open", false), ("loaded once a minute", true)] {
        let about = format!("{count} pages, {phase}");
        arena.audit.news()?;
        let api = arena.component(Component::ApiServer)?;
        let (before, before_api) = (cpu(console.pid())?, cpu(api)?);
        arrivals.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let (sent, times) = tokio::join!(report(arena, &pages, lasting), async {
            match are_loaded {
                true => load(&pages, lasting).await,
                false => Ok(Vec::new()),
            }
        });
        let (sent, times) = (sent?, times?);
        sleep(TICK).await;
        let a_minute = 60.0 / lasting.as_secs_f64();
        if are_loaded {
            let (painted, whole): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
            let first = format!("{about}: first paint, p50");
            figures.add_with(first, "ms", Budget::median(FIRST_PAINT), percentile(&painted, 50.0));
            figures.add(format!("{about}: first paint, p99"), "ms", percentile(&painted, 99.0));
            figures.add(format!("{about}: whole, p50"), "ms", percentile(&whole, 50.0));
            figures.add(format!("{about}: whole, p99"), "ms", percentile(&whole, 99.0));
        }
        let late = late(&sent, &arrivals.lock().unwrap_or_else(PoisonError::into_inner), count)?;
        figures.add(format!("{about}: from a report to the last page, p99"), "ms", percentile(&late, 99.0));
        let asked = arena.audit.news()?.iter().filter(|request| is_theirs(&request.user)).count() as f64;
        figures.add(format!("{about}: requests to the API server a minute"), "", asked * a_minute);
        let used = |now: Duration, before: Duration| (now - before).as_secs_f64() * a_minute;
        figures.add(
            format!("{about}: of a core a minute, the console"),
            "s",
            used(cpu(console.pid())?, before),
        );
        figures.add(format!("{about}: of a core a minute, the API server"), "s", used(cpu(api)?, before_api));
        let weight = memory(console.pid())?;
        figures.add(format!("{about}: the console resident, at its peak"), "MB", weight.peak);
        figures.add(format!("{about}: the console resident"), "MB", weight.resident);
        forget_peak(console.pid())?;
    }
    following.shutdown().await;
    Ok(())
}

/// Reports something every now and then to everybody at home: when the first of each was written.
async fn report(arena: &Arena, pages: &[Visitor], lasting: Duration) -> Outcome<BTreeMap<u32, Instant>> {
    let homes: BTreeSet<&str> = pages.iter().map(|page| &*page.namespace).collect();
    let (begun, mut sent) = (Instant::now(), BTreeMap::new());
    for number in 0.. {
        let due = begun + TICK * number;
        if due.duration_since(begun) >= lasting {
            break;
        }
        sleep_until(due.into()).await;
        sent.insert(number, Instant::now());
        for home in &homes {
            let about = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule", "namespace": home, "name": "app"});
            let event = json!({
                "metadata": {"generateName": "tick-", "namespace": home}, "involvedObject": about, "type": "Normal",
                "reason": "Tick", "message": format!("tick {number}"), "reportingComponent": "copyrator",
            });
            arena.create(&collection(home, "events"), [event]).await?;
        }
    }
    Ok(sent)
}

/// Loads every page once, one after the other over the time: until each showed something and until it was whole, in
/// milliseconds.
async fn load(pages: &[Visitor], lasting: Duration) -> Outcome<Vec<(f64, f64)>> {
    let begun = Instant::now();
    let mut loading = JoinSet::new();
    for (number, page) in pages.iter().enumerate() {
        let due = begun + lasting * u32::try_from(number)? / u32::try_from(pages.len())?;
        let (page, (_, path)) = (page.clone(), VIEWS[number % VIEWS.len()]);
        loading.spawn(async move {
            sleep_until(due.into()).await;
            let page = page.get(path).await.map_err(|error| error.to_string())?;
            Ok::<_, String>((milliseconds(page.painted), milliseconds(page.took)))
        });
    }
    let mut times = Vec::new();
    while let Some(took) = loading.join_next().await {
        times.push(took??);
    }
    Ok(times)
}

/// How late each report was at the last page, in milliseconds. One that is not everywhere is an error.
fn late(
    sent: &BTreeMap<u32, Instant>,
    arrivals: &BTreeMap<u32, Vec<Instant>>,
    pages: usize,
) -> Outcome<Vec<f64>> {
    let of = |(number, sent): (&u32, &Instant)| {
        let there = arrivals.get(number).filter(|there| there.len() >= pages);
        let last = there
            .and_then(|there| there.iter().max())
            .ok_or(format!("report {number} is not on each page"))?;
        Ok(last.duration_since(*sent).as_secs_f64() * 1e3)
    };
    sent.iter().map(of).collect()
}
