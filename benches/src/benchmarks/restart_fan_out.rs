//! One Secret, changed, to many Deployments that use it: ours and a bare client, in turns (A B B A …). While the bare
//! client writes, the reconciler does not run and the API server has neither hooks nor policies of ours; while either
//! does, the controllers of Kubernetes stand still: what they make of the new templates is the same for both, and not
//! what is measured.

use std::cell::Cell;
use std::time::Duration;

use copyrator::marks::{ADOPT_MANAGER, RESTART_MANAGER};
use devcluster::Component;
use serde_json::Value;
use testbed::Role;

use super::restart_bare::{Like, shape};
use crate::Outcome;
use crate::arena::{Arena, IN_FLIGHT};
use crate::audit::Request;
use crate::figures::{Budget, Figures};
use crate::objects::path;
use crate::processes::cpu;
use crate::program::Program;
use crate::sizes::Sizes;
use crate::workloads::{content, deployments, until_all};
use crate::writes::{replace, send, send_all};

/// Deployments by which connections are warmed.
const WARM: usize = 20;
/// The largest ratio that is within the budget (DESIGN §6).
const BUDGET: f64 = 1.5;

/// What one fan-out took.
#[derive(Clone, Copy, Debug)]
struct Measured {
    seconds: f64,
    /// Requests of any kind until the last restart.
    requests: usize,
    client: Duration,
    server: Duration,
}

/// As many Deployments for each side.
struct Pair {
    ours: String,
    bare: String,
    size: usize,
}

struct Field {
    arena: Arena,
    warm: Pair,
    /// Another content for each use.
    contents: usize,
    is_ours_warm: bool,
    is_bare_warm: bool,
}

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let arena = Arena::start(&program.unbraked(), sizes).await?;
    let warm = populate(&arena, "warm", WARM).await?;
    let mut field = Field { arena, warm, contents: 0, is_ours_warm: false, is_bare_warm: false };
    let mut figures = Figures::default();
    for &size in &sizes.restarts {
        eprintln!("  {size} Deployments");
        field.come_back().await?;
        let pair = populate(&field.arena, &size.to_string(), size).await?;
        for turn in 0..sizes.pairs {
            let (ours, bare) = if turn % 2 == 0 {
                let ours = field.ours(&pair).await?;
                (ours, field.bare(&pair).await?)
            } else {
                let bare = field.bare(&pair).await?;
                (field.ours(&pair).await?, bare)
            };
            field.compare(&pair).await?;
            note(&mut figures, size, ours, bare);
        }
    }
    Ok(figures)
}

/// Deployments that use one Secret: for one side with a monitor; for the other as if there were one.
async fn populate(arena: &Arena, name: &str, size: usize) -> Outcome<Pair> {
    let pair = Pair { ours: format!("ours-{name}"), bare: format!("bare-{name}"), size };
    for team in [&pair.ours, &pair.bare] {
        arena.create_users(team, size).await?;
    }
    arena.watch_users(&pair.ours).await?;
    until_all(&arena.admin, &pair.bare, "runs", |one| one.is_running).await?;
    until_all(&arena.admin, &pair.ours, "runs", |one| one.is_running && one.applied.is_some()).await?;
    let adopted = Like::of(&stored(arena, &pair.ours).await?, ADOPT_MANAGER)?;
    let writes = adopted.writes(&arena.admin, &pair.bare, "adopted").await?;
    send_all(&arena.account, writes, IN_FLIGHT).await?;
    Ok(pair)
}

async fn stored(arena: &Arena, namespace: &str) -> Outcome<Value> {
    let first = format!("{}/app-00000", deployments(namespace));
    Ok(arena.admin.request(http::Request::get(first).body(Vec::new())?).await?)
}

fn note(figures: &mut Figures, size: usize, ours: Measured, bare: Measured) {
    let ratio = ours.seconds / bare.seconds;
    figures.add_with(format!("{size}: ours ÷ bare"), "×", Budget::median(BUDGET), ratio);
    figures.add(format!("{size}: ours"), "s", ours.seconds);
    figures.add(format!("{size}: bare"), "s", bare.seconds);
    figures.add(format!("{size}: requests a restart, ours"), "", ours.requests as f64 / size as f64);
    let mut a_thousand = |what: &str, time: Duration| {
        let what = format!("{size}: CPU for 1,000 restarts, {what}");
        figures.add(what, "ms", time.as_secs_f64() * 1e6 / size as f64);
    };
    a_thousand("ours", ours.client);
    a_thousand("bare", bare.client);
    a_thousand("API server beside ours", ours.server);
    a_thousand("API server beside bare", bare.server);
}

impl Field {
    /// Ends the bare client's turn.
    async fn come_back(&mut self) -> Outcome<()> {
        if std::mem::take(&mut self.is_bare_warm) {
            self.arena.come_back().await?;
        }
        Ok(())
    }

    /// A Secret is changed; Copyrator does the rest.
    async fn ours(&mut self, pair: &Pair) -> Outcome<Measured> {
        if !self.is_ours_warm {
            self.come_back().await?;
            let (team, size) = (self.warm.ours.clone(), self.warm.size);
            self.time_ours(&team, size).await?;
        }
        (self.is_ours_warm, self.is_bare_warm) = (true, false);
        self.time_ours(&pair.ours, pair.size).await
    }

    /// The like requests, by the bare client.
    async fn bare(&mut self, pair: &Pair) -> Outcome<Measured> {
        let like = match Like::of(&stored(&self.arena, &pair.ours).await?, RESTART_MANAGER) {
            Ok(like) => like,
            // Its first restart is to come; others are no shorter.
            Err(_) => Like::of(&stored(&self.arena, &self.warm.ours).await?, RESTART_MANAGER)?,
        };
        if !self.is_bare_warm {
            self.arena.leave().await?;
            let (team, size) = (self.warm.bare.clone(), self.warm.size);
            self.time_bare(&like, &team, size).await?;
        }
        (self.is_ours_warm, self.is_bare_warm) = (false, true);
        self.time_bare(&like, &pair.bare, pair.size).await
    }

    async fn time_ours(&mut self, team: &str, size: usize) -> Outcome<Measured> {
        until_all(&self.arena.admin, team, "runs", |one| one.is_running).await?;
        self.arena.settle().await?;
        let change =
            replace(&path(team, "secrets", "shared"), &content("Secret", team, "shared", &self.fresh()))?;
        let client = self.arena.process(Role::Reconciler)?.pid();
        self.arena.hold_controllers(true)?;
        let before = (cpu(client)?, self.server()?);
        send(&self.arena.admin, change).await?;
        let (seen, requests) = self.collect(team, size + 1).await?;
        let after = (cpu(client)?, self.server()?);
        self.arena.hold_controllers(false)?;
        let begun =
            seen.iter().find(|request| request.resource == "secrets").ok_or("the change was not seen")?;
        let seconds = until_last(&seen, begun.received);
        Ok(Measured { seconds, requests, client: after.0 - before.0, server: after.1 - before.1 })
    }

    async fn time_bare(&mut self, like: &Like, team: &str, size: usize) -> Outcome<Measured> {
        until_all(&self.arena.admin, team, "runs", |one| one.is_running).await?;
        let seed = self.fresh();
        self.arena.hold_controllers(true)?;
        let writes = like.writes(&self.arena.admin, team, &seed).await?;
        let client = std::process::id();
        self.arena.audit.news()?;
        let before = (cpu(client)?, self.server()?);
        send_all(&self.arena.account, writes, IN_FLIGHT).await?;
        let after = (cpu(client)?, self.server()?);
        let (seen, requests) = self.collect(team, size).await?;
        self.arena.hold_controllers(false)?;
        let begun = seen.iter().map(|request| request.received).min().ok_or("nothing was written")?;
        let seconds = until_last(&seen, begun);
        Ok(Measured { seconds, requests, client: after.0 - before.0, server: after.1 - before.1 })
    }

    /// The change of the Secret, and the restarts; and how many requests there were with our account meanwhile.
    async fn collect(&mut self, team: &str, enough: usize) -> Outcome<(Vec<Request>, usize)> {
        let requests = Cell::new(0);
        let is_it = |request: &Request| {
            let ours = Arena::is_ours(request);
            requests.set(requests.get() + usize::from(ours && request.resource != "leases"));
            let is_restart = request.resource == "deployments" && ours;
            request.is_done_write()
                && request.namespace == team
                && (is_restart || request.resource == "secrets")
        };
        let seen = self.arena.collect(team, enough, is_it).await?;
        match seen.len() {
            all if all == enough => Ok((seen, requests.get())),
            more => Err(format!("{team}: {more} writes, not {enough}").into()),
        }
    }

    /// Both sides write the same to the same.
    async fn compare(&self, pair: &Pair) -> Outcome<()> {
        let (ours, bare) = (stored(&self.arena, &pair.ours).await?, stored(&self.arena, &pair.bare).await?);
        match shape(&ours) == shape(&bare) {
            true => Ok(()),
            false => Err(format!("the bare client does not write what we write:\n{ours}\n{bare}").into()),
        }
    }

    fn fresh(&mut self) -> String {
        self.contents += 1;
        self.contents.to_string()
    }

    fn server(&self) -> Outcome<Duration> {
        cpu(self.arena.component(Component::ApiServer)?)
    }
}

fn until_last(requests: &[Request], begun: jiff::Timestamp) -> f64 {
    let last = requests.iter().map(|request| request.finished).max().unwrap_or(begun);
    last.duration_since(begun).as_secs_f64()
}
