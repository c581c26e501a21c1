//! From a new namespace to the last of its copies. Namespaces come on a schedule, whether or not the last one is done
//! with, and count from the moment they were meant to be created (an open loop: who is slow isn't asked less). Ours and a bare
//! client, in turns: while that one writes, the reconciler does not run.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use testbed::Role;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::bare::Template;
use super::new_namespace_bare::{fan_out, fill, prepare};
use crate::Outcome;
use crate::arena::Arena;
use crate::audit::Request;
use crate::figures::{Budget, Figures};
use crate::objects::{HOME, namespace, path, rule, source};
use crate::program::Program;
use crate::sizes::Sizes;
use crate::statistics::percentile;
use crate::writes::{self, create, replace};

/// From one namespace to the next.
const EVERY: Duration = Duration::from_millis(100);
/// The same, where each gets many copies.
const EVERY_WITH_MANY: Duration = Duration::from_millis(200);
/// From one change of the source that fans out to the next: less than a fan-out takes.
const CHANGE_EVERY: Duration = Duration::from_millis(400);

/// What ours is to the bare client at most, as in a fan-out.
const BUDGET: f64 = 1.2;
/// The source that fans out, and what stands for it where the bare client does.
const LOADS: [&str; 2] = ["load", "load-bare"];

/// The client that writes the copies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Ours,
    Bare,
}

/// One way to measure.
struct Scene {
    what: String,
    copies: usize,
    every: Duration,
    /// Whether a source is spread to all other namespaces meanwhile.
    during_a_fan_out: bool,
    /// For the median and the 99th percentile, in ms (DESIGN §6).
    budgets: (f64, f64),
}

/// What became of one namespace, in ms from when it was meant to be created.
#[derive(Debug, PartialEq)]
struct Arrival {
    /// The API server has answered the creation.
    created: f64,
    /// The first write of a copy has arrived at the API server.
    noticed: f64,
    /// The last copy is written.
    complete: f64,
}

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let many = sizes.copies_a_namespace;
    let scene = |what, copies, every, during_a_fan_out, budgets| Scene {
        what,
        copies,
        every,
        during_a_fan_out,
        budgets,
    };
    let mut arena = Arena::start(program, sizes).await?;
    eprintln!("  {} namespaces", sizes.namespaces);
    // The fan-out is to those that are there from the start.
    let old = (0..sizes.namespaces).map(|number| namespace(&format!("team-{number:05}"), &["old"]));
    arena.create("/api/v1/namespaces", old).await?;
    let all = json!({"names": ["team-*"]});
    spread(&mut arena, "copy-00", all.clone(), sizes.namespaces).await?;
    let olds = json!({"namespaceSelector": {"matchLabels": {"old": "yes"}}});
    spread(&mut arena, LOADS[0], olds, sizes.namespaces).await?;

    let mut figures = Figures::default();
    let mut present = sizes.namespaces;
    let scenes = [
        scene("1 copy, idle".to_owned(), 1, EVERY, false, (15.0, 60.0)),
        scene("1 copy, during a fan-out".to_owned(), 1, EVERY, true, (25.0, 120.0)),
    ];
    for round in 0..sizes.rounds {
        present += sizes.samples * scenes.len();
        compare(&mut arena, &scenes, round, sizes, &mut figures).await?;
    }
    for number in 1..many {
        spread(&mut arena, &format!("copy-{number:02}"), all.clone(), present).await?;
    }
    let scenes = [scene(format!("{many} copies, idle"), many, EVERY_WITH_MANY, false, (25.0, 100.0))];
    for round in 0..sizes.rounds {
        compare(&mut arena, &scenes, round, sizes, &mut figures).await?;
    }
    Ok(figures)
}

/// A source, with a rule that spreads it, and its copies.
async fn spread(arena: &mut Arena, name: &str, target: serde_json::Value, namespaces: usize) -> Outcome<()> {
    arena.create_source(source(name, "0")).await?;
    arena.create_rule(rule(name, name, target)).await?;
    let is_copy = |it: &Request| Arena::is_ours(it) && it.is_done_write() && it.name == name;
    arena.collect(name, namespaces, is_copy).await?;
    arena.settle().await.map(drop)
}

/// Each scene by ours, then each by the bare client.
async fn compare(
    arena: &mut Arena,
    scenes: &[Scene],
    round: usize,
    sizes: &Sizes,
    figures: &mut Figures,
) -> Outcome<()> {
    let mut ours = Vec::new();
    for scene in scenes {
        ours.push(measure(arena, scene, Side::Ours, round, sizes, figures).await?);
    }
    arena.stop(Role::Reconciler)?;
    for (scene, ours) in scenes.iter().zip(ours) {
        let bare = measure(arena, scene, Side::Bare, round, sizes, figures).await?;
        let what = format!("{}: p50, ours ÷ bare", scene.what);
        figures.add_with(what, "×", Budget::median(BUDGET), ours / bare);
    }
    arena.restart(Role::Reconciler)?;
    // What a start opens and asks is over.
    writes::send(
        &arena.admin,
        replace(&path(HOME, "secrets", LOADS[0]), &source(LOADS[0], &round.to_string()))?,
    )
    .await?;
    arena.settle().await.map(drop)
}

/// The median of what it took, in ms.
async fn measure(
    arena: &mut Arena,
    scene: &Scene,
    side: Side,
    round: usize,
    sizes: &Sizes,
    figures: &mut Figures,
) -> Outcome<f64> {
    let (about, group) = match side {
        Side::Ours => (scene.what.clone(), "team"),
        // No rule means these.
        Side::Bare => (format!("{}, bare", scene.what), "bare"),
    };
    eprintln!("  {about}, round {}", round + 1);
    let stem = format!("{group}-{}-{round}-", scene.what.replace([' ', ','], "").to_lowercase());
    let load = LOADS[usize::from(side == Side::Bare)];
    let mut work = begin(arena, scene, side, &stem, sizes).await?;
    // The first fan-out is under way when the first namespace comes.
    sleep(CHANGE_EVERY).await;
    let meant = create_on_schedule(arena, &stem, sizes.samples, scene.every).await?;
    let of_round = |it: &Request| {
        it.is_done_write()
            && (Arena::is_ours(it) && it.namespace.starts_with(&stem) && it.resource == "secrets"
                || it.resource == "namespaces" && it.verb == "create" && it.name.starts_with(&stem)
                || Arena::is_ours(it) && it.name == load && it.namespace != HOME)
    };
    let mut seen = Vec::new();
    let is_done = |seen: &[Request]| {
        seen.iter().filter(|it| it.namespace.starts_with(&stem) && it.resource == "secrets").count()
    };
    while is_done(&seen) < sizes.samples * scene.copies {
        if let Some(ended) = work.try_join_next() {
            ended??;
        }
        seen.extend(arena.collect(&stem, 1, of_round).await?);
    }
    work.shutdown().await;
    let loaded = seen.iter().filter(|it| it.name == load).count();
    arena.settle().await?;

    let arrivals = arrivals(&meant, &seen, scene.copies)?;
    let of = |part: fn(&Arrival) -> f64| arrivals.iter().map(part).collect::<Vec<f64>>();
    let complete = of(|arrival| arrival.complete);
    let mut add = |what: &str, budget: Option<Budget>, value| {
        let budget = budget.filter(|_| side == Side::Ours);
        figures.add_with(format!("{about}: {what}"), "ms", budget, value);
    };
    let median = percentile(&complete, 50.0);
    add("p50", Budget::median(scene.budgets.0), median);
    add("p99", Budget::median(scene.budgets.1), percentile(&complete, 99.0));
    add("worst", None, percentile(&complete, 100.0));
    add("p50 until the namespace is created", None, percentile(&of(|it| it.created), 50.0));
    add("p50 from there to the first write", None, percentile(&of(|it| it.noticed - it.created), 50.0));
    add("p50 from there to the last copy", None, percentile(&of(|it| it.complete - it.noticed), 50.0));
    if scene.during_a_fan_out {
        figures.add(format!("{about}: copies that the fan-out wrote meanwhile"), "", loaded as f64);
    }
    Ok(median)
}

/// What goes on while namespaces come: the bare client where it is its turn, and the fan-out.
async fn begin(
    arena: &Arena,
    scene: &Scene,
    side: Side,
    stem: &str,
    sizes: &Sizes,
) -> Outcome<JoinSet<Outcome<()>>> {
    let mut work = JoinSet::new();
    if side == Side::Ours {
        if scene.during_a_fan_out {
            work.spawn(change_again_and_again(arena.admin.clone()));
        }
        return Ok(work);
    }
    let like = path("team-00000", "secrets", "copy-00");
    let stored = arena.admin.request(http::Request::get(like).body(Vec::new())?).await?;
    let template = Template::of(&stored);
    let names: Vec<String> = (0..scene.copies).map(|number| format!("copy-{number:02}")).collect();
    let namespaces: Vec<String> = (0..sizes.samples).map(|number| new_namespace(stem, number)).collect();
    work.spawn(fill(arena.account.clone(), prepare(&template, &names, &namespaces)?));
    if scene.during_a_fan_out {
        let old = (0..sizes.namespaces).map(|number| format!("team-{number:05}")).collect();
        work.spawn(fan_out(arena.account.clone(), template, LOADS[1], old));
    }
    Ok(work)
}

fn new_namespace(stem: &str, number: usize) -> String {
    format!("{stem}{number:04}")
}

/// Creates namespaces, each at its time: when each was meant to be created, by name.
async fn create_on_schedule(
    arena: &Arena,
    stem: &str,
    samples: usize,
    every: Duration,
) -> Outcome<BTreeMap<String, Timestamp>> {
    let (clock, wall) = (Instant::now(), Timestamp::now());
    let mut meant = BTreeMap::new();
    let mut creations = JoinSet::new();
    for number in 0..samples {
        let name = new_namespace(stem, number);
        let at = every * u32::try_from(number)?;
        let request = create("/api/v1/namespaces", &namespace(&name, &[]))?;
        let client = arena.admin.clone();
        creations.spawn(async move {
            sleep_until(clock + at).await;
            writes::send(&client, request).await
        });
        meant.insert(name, wall.checked_add(SignedDuration::try_from(at)?)?);
    }
    while let Some(created) = creations.join_next().await {
        created??;
    }
    Ok(meant)
}

/// Changes the source that fans out, until it is stopped.
async fn change_again_and_again(client: kube::Client) -> Outcome<()> {
    for version in 1.. {
        let seed = format!("{version} {}", Timestamp::now());
        writes::send(&client, replace(&path(HOME, "secrets", LOADS[0]), &source(LOADS[0], &seed))?).await?;
        sleep(CHANGE_EVERY).await;
    }
    Ok(())
}

/// What became of each namespace that was meant to be created.
fn arrivals(meant: &BTreeMap<String, Timestamp>, seen: &[Request], copies: usize) -> Outcome<Vec<Arrival>> {
    let mut by_namespace: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
    for request in seen {
        by_namespace.entry(&request.namespace).or_default().push(request);
    }
    let created: BTreeMap<&str, &Request> =
        seen.iter().filter(|it| it.resource == "namespaces").map(|it| (it.name.as_str(), it)).collect();
    let arrival = |(name, &meant): (&String, &Timestamp)| {
        let since = |time: Timestamp| time.duration_since(meant).as_secs_f64() * 1e3;
        let written = by_namespace.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let written: Vec<_> = written.iter().filter(|it| it.resource == "secrets").collect();
        if written.len() != copies {
            return Err(format!("{name} has got {} copies, not {copies}", written.len()).into());
        }
        let missing = || format!("{name} was not seen in full");
        Ok(Arrival {
            created: since(created.get(name.as_str()).ok_or_else(missing)?.finished),
            noticed: since(written.iter().map(|it| it.received).min().ok_or_else(missing)?),
            complete: since(written.iter().map(|it| it.finished).max().ok_or_else(missing)?),
        })
    };
    meant.iter().map(arrival).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(resource: &str, namespace: &str, name: &str, received: i64, finished: i64) -> Request {
        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        let text = str::to_owned;
        Request {
            received: at(received),
            finished: at(finished),
            user: text("u"),
            verb: text("create"),
            resource: text(resource),
            namespace: text(namespace),
            name: text(name),
            code: 201,
            dry: false,
        }
    }

    #[test]
    fn a_namespace_has_arrived_with_the_last_of_its_copies() {
        let meant = BTreeMap::from([("a".to_owned(), Timestamp::from_millisecond(1000).unwrap())]);
        let seen = [
            request("namespaces", "a", "a", 1001, 1005),
            request("secrets", "a", "x", 1007, 1030),
            request("secrets", "a", "y", 1008, 1012),
            request("secrets", "other", "x", 1, 9999),
        ];
        let expected = Arrival { created: 5.0, noticed: 7.0, complete: 30.0 };
        assert_eq!(arrivals(&meant, &seen, 2).unwrap(), [expected]);
        assert!(arrivals(&meant, &seen, 3).is_err(), "a copy is missing");
        assert!(arrivals(&meant, &seen[1..], 2).is_err(), "the creation was not seen");
    }
}
