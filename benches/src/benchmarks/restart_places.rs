//! How long the places for restarts hold up workloads that become ready at once, and how many begin of those that do not: with
//! the limit that the chart gives, and without one, in turns (A B B A …).

use jiff::Timestamp;
use testbed::Role;

use crate::Outcome;
use crate::arena::Arena;
use crate::audit::Request;
use crate::figures::{Budget, Figures};
use crate::objects::path;
use crate::program::Program;
use crate::sizes::Sizes;
use crate::workloads::{content, until_all};
use crate::writes::{replace, send};

/// The largest ratio that is within the budget (DESIGN §6).
const BUDGET: f64 = 1.2;
/// Deployments by which connections are warmed.
const WARM: usize = 20;

/// What a change of the Secret took, in seconds from its receipt.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// The last pod template is patched.
    begun: f64,
    /// The last Deployment has been seen to run what its template says.
    through: f64,
}

struct Field {
    arena: Arena,
    limited: Program,
    /// Another content for each use.
    contents: usize,
}

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let arena = Arena::start(program, sizes).await?;
    let mut field = Field { arena, limited: program.clone(), contents: 0 };
    let size = sizes.places;
    field.populate("warm", WARM).await?;
    field.populate("ready", size).await?;
    let mut figures = Figures::default();
    for pair in 0..sizes.pairs {
        let (limited, unlimited) = if pair % 2 == 0 {
            let limited = field.time(true, size).await?;
            (limited, field.time(false, size).await?)
        } else {
            let unlimited = field.time(false, size).await?;
            (field.time(true, size).await?, unlimited)
        };
        let mut add = |what: &str, limited: f64, unlimited: f64| {
            let ratio = limited / unlimited;
            figures.add_with(
                format!("{size}: until {what}, with places ÷ without"),
                "×",
                Budget::median(BUDGET),
                ratio,
            );
            figures.add(format!("{size}: until {what}, with places"), "s", limited);
            figures.add(format!("{size}: until {what}, without"), "s", unlimited);
        };
        add("the last has begun", limited.begun, unlimited.begun);
        add("the last runs", limited.through, unlimited.through);
    }
    // More than there are places for.
    let many = size * 2;
    field.populate("stuck", many).await?;
    field.ready(true).await?;
    let begun = field.begun_of_stuck().await?;
    figures.add(format!("{many} that do not become ready: begun"), "", begun as f64);
    Ok(figures)
}

impl Field {
    /// Deployments that use one Secret, with a monitor that waits for nothing.
    async fn populate(&mut self, team: &str, size: usize) -> Outcome<()> {
        eprintln!("  {size} Deployments: {team}");
        let arena = &self.arena;
        arena.create_users(team, size).await?;
        arena.watch_users(team).await?;
        until_all(&arena.admin, team, "runs", |one| one.is_running && one.applied.is_some()).await.map(drop)
    }

    /// The reconciler begins anew, with a limit or without, and its connections are warmed.
    async fn ready(&mut self, with_places: bool) -> Outcome<()> {
        let program = if with_places { self.limited.clone() } else { self.limited.unbraked() };
        self.arena.restart_as(Role::Reconciler, &program)?;
        self.change("warm", WARM).await.map(drop)
    }

    async fn time(&mut self, with_places: bool, size: usize) -> Outcome<Measured> {
        self.ready(with_places).await?;
        self.change("ready", size).await
    }

    /// Changes the Secret: the restarts that follow.
    async fn change(&mut self, team: &str, size: usize) -> Outcome<Measured> {
        until_all(&self.arena.admin, team, "runs", |one| one.is_running).await?;
        self.arena.settle().await?;
        self.write(team).await?;
        let is_it = |request: &Request| is_restart(request, team) || is_change(request, team);
        let seen = self.arena.collect(team, size + 1, is_it).await?;
        until_all(&self.arena.admin, team, "runs", |one| one.is_running).await?;
        let through = Timestamp::now();
        let changed = seen.iter().find(|it| is_change(it, team)).ok_or("the change was not seen")?.received;
        let last = seen.iter().map(|it| it.finished).max().unwrap_or(changed);
        let since = |time: Timestamp| time.duration_since(changed).as_secs_f64();
        Ok(Measured { begun: since(last), through: since(through) })
    }

    /// The same where nothing becomes ready, since the controllers of Kubernetes stand still.
    async fn begun_of_stuck(&mut self) -> Outcome<usize> {
        self.arena.settle().await?;
        self.arena.hold_controllers(true)?;
        self.write("stuck").await?;
        let seen = self.arena.settle().await?;
        self.arena.hold_controllers(false)?;
        Ok(seen.iter().filter(|it| is_restart(it, "stuck")).count())
    }

    async fn write(&mut self, team: &str) -> Outcome<()> {
        self.contents += 1;
        let content = content("Secret", team, "shared", &self.contents.to_string());
        send(&self.arena.admin, replace(&path(team, "secrets", "shared"), &content)?).await
    }
}

fn is_restart(request: &Request, team: &str) -> bool {
    request.is_done_write()
        && Arena::is_ours(request)
        && request.namespace == team
        && request.resource == "deployments"
}

fn is_change(request: &Request, team: &str) -> bool {
    request.is_done_write() && request.namespace == team && request.resource == "secrets"
}
