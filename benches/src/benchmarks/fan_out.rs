//! One source to many namespaces, created and changed: ours and a bare client, in turns (A B B A …). While the bare
//! client writes, the reconciler doesn't run and the API server has neither hooks nor policies of ours: it has the machine for
//! itself, as before the chart.

use std::time::Duration;

use devcluster::Component;
use serde_json::{Value, json};
use testbed::Role;

use super::bare::{Expected, Template, shape, versions};
use crate::Outcome;
use crate::arena::{Arena, IN_FLIGHT};
use crate::audit::Request;
use crate::figures::{Budget, Figures};
use crate::objects::{HOME, collection, namespace, path, rule, source};
use crate::processes::cpu;
use crate::program::Program;
use crate::sizes::Sizes;
use crate::writes::{self, Prepared, create, replace, send_all};

/// Copies by which connections are warmed.
const WARM: usize = 32;
/// The size that has a budget, and the budget (DESIGN §6).
const BUDGET: (usize, f64) = (1000, 1.2);
/// What each run does.
const TASKS: [&str; 2] = ["created", "changed"];

/// What one fan-out took.
#[derive(Clone, Copy, Debug)]
struct Measured {
    seconds: f64,
    client: Duration,
    server: Duration,
}

struct Field {
    arena: Arena,
    namespaces: Vec<String>,
    /// What the bare client writes: the like of ours that was seen last.
    template: Option<Template>,
    /// Another content for each use.
    contents: usize,
    is_ours_warm: bool,
    is_bare_warm: bool,
}

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let arena = Arena::start(program, sizes).await?;
    let (namespaces, template) = (Vec::new(), None);
    let mut field =
        Field { arena, namespaces, template, contents: 0, is_ours_warm: false, is_bare_warm: false };
    let warm = |key: &str| json!({"namespaceSelector": {"matchLabels": {key: "yes"}}});
    field.arena.create_source(source("warm-ours", "0")).await?;
    field.arena.create_rule(rule("warm", "warm-ours", warm("warm"))).await?;
    let mut figures = Figures::default();
    for &size in &sizes.fan_out {
        eprintln!("  {size} namespaces");
        // What is set up is ours from the beginning: a rule that is written while our policies are away has no author.
        field.come_back().await?;
        let grown = (field.namespaces.len()..size).map(|number| (number, format!("fan-{number:05}")));
        let grown: Vec<(usize, String)> = grown.collect();
        let labels: Vec<(usize, String)> =
            sizes.fan_out.iter().map(|&size| (size, format!("in-{size}"))).collect();
        let objects = grown.iter().map(|(number, name)| {
            let sizes = labels.iter().filter(|(size, _)| number < size).map(|(_, label)| label.as_str());
            namespace(name, &sizes.chain((*number < WARM).then_some("warm")).collect::<Vec<_>>())
        });
        field.arena.create("/api/v1/namespaces", objects).await?;
        field.namespaces.extend(grown.into_iter().map(|(_, name)| name));
        let target = warm(&format!("in-{size}"));
        field.arena.create_rule(rule(&format!("s{size}"), &format!("s{size}-*"), target)).await?;
        field.arena.settle().await?;
        for pair in 0..sizes.pairs {
            let (ours, bare) = if pair % 2 == 0 {
                let ours = field.ours(size, pair).await?;
                (ours, field.bare(size, pair).await?)
            } else {
                let bare = field.bare(size, pair).await?;
                (field.ours(size, pair).await?, bare)
            };
            for (task, (ours, bare)) in TASKS.iter().zip(ours.into_iter().zip(bare)) {
                note(&mut figures, size, task, ours, bare);
            }
        }
    }
    Ok(figures)
}

fn note(figures: &mut Figures, size: usize, task: &str, ours: Measured, bare: Measured) {
    let about = format!("{size} {task}");
    let has_budget = (size, task) == (BUDGET.0, "changed");
    let budget = has_budget.then(|| Budget::median(BUDGET.1)).flatten();
    figures.add_with(format!("{about}: ours ÷ bare"), "×", budget, ours.seconds / bare.seconds);
    figures.add(format!("{about}: ours"), "s", ours.seconds);
    figures.add(format!("{about}: bare"), "s", bare.seconds);
    let mut a_thousand = |what: &str, time: Duration| {
        let what = format!("{about}: CPU for 1,000 writes, {what}");
        figures.add(what, "ms", time.as_secs_f64() * 1e6 / size as f64);
    };
    a_thousand("ours", ours.client);
    a_thousand("bare", bare.client);
    a_thousand("API server beside ours", ours.server);
    a_thousand("API server beside bare", bare.server);
}

impl Field {
    /// A source is created, then changed; Copyrator does the rest.
    async fn ours(&mut self, size: usize, pair: usize) -> Outcome<[Measured; 2]> {
        self.warm_ours().await?;
        let name = format!("s{size}-{pair}-ours");
        let created = create(&collection(HOME, "secrets"), &self.fresh(&name))?;
        let created = self.spread(created, &name, size).await?;
        let changed = replace(&path(HOME, "secrets", &name), &self.fresh(&name))?;
        let changed = self.spread(changed, &name, size).await?;
        self.template = Some(Template::of(&self.stored(&name).await?));
        Ok([created, changed])
    }

    /// The same copies under another name, by the bare client.
    async fn bare(&mut self, size: usize, pair: usize) -> Outcome<[Measured; 2]> {
        self.warm_bare().await?;
        let name = format!("s{size}-{pair}-bare");
        let created = self.bare_writes(&name, size, &Expected::Nothing)?;
        let created = self.time_bare(created, &name).await?;
        let found = versions(&self.arena.admin, &name).await?;
        let changed = self.bare_writes(&name, size, &Expected::These(&found))?;
        let changed = self.time_bare(changed, &name).await?;
        let (ours, bare) = (self.stored(&format!("s{size}-0-ours")).await?, self.stored(&name).await?);
        if shape(&ours) != shape(&bare) {
            return Err(format!("the bare client does not write what we write:\n{ours}\n{bare}").into());
        }
        Ok([created, changed])
    }

    /// Writes to the source and waits for all of its copies: from the API server's receipt of the one to its answer to
    /// the last of the others.
    async fn spread(&mut self, write: Prepared, name: &str, size: usize) -> Outcome<Measured> {
        self.arena.settle().await?;
        let client = self.arena.process(Role::Reconciler)?.pid();
        let before = (cpu(client)?, self.server()?);
        writes::send(&self.arena.admin, write).await?;
        let is_it = |request: &Request| {
            request.is_done_write() && request.resource == "secrets" && request.name == name
        };
        let seen = self.arena.collect(name, size + 1, is_it).await?;
        let after = (cpu(client)?, self.server()?);
        let (source, copies): (Vec<_>, Vec<_>) = seen.iter().partition(|request| request.namespace == HOME);
        if (source.len(), copies.len()) != (1, size) {
            return Err(format!("{name}: {} copies written, not {size}", copies.len()).into());
        }
        let begun = source[0].received;
        Ok(Measured {
            seconds: until_last(&copies, begun),
            client: after.0 - before.0,
            server: after.1 - before.1,
        })
    }

    async fn time_bare(&mut self, writes: Vec<Prepared>, name: &str) -> Outcome<Measured> {
        let size = writes.len();
        let me = std::process::id();
        let before = (cpu(me)?, self.server()?);
        send_all(&self.arena.account, writes, IN_FLIGHT).await?;
        let after = (cpu(me)?, self.server()?);
        let seen = self.arena.collect(name, size, |it| it.is_done_write() && it.name == name).await?;
        let begun = seen.iter().map(|request| request.received).min().ok_or("nothing was written")?;
        let seconds = until_last(&seen.iter().collect::<Vec<_>>(), begun);
        Ok(Measured { seconds, client: after.0 - before.0, server: after.1 - before.1 })
    }

    /// Ends the bare client's turn.
    async fn come_back(&mut self) -> Outcome<()> {
        if std::mem::take(&mut self.is_bare_warm) {
            self.arena.come_back().await?;
        }
        Ok(())
    }

    /// Has the reconciler run, with open connections.
    async fn warm_ours(&mut self) -> Outcome<()> {
        if !self.is_ours_warm {
            self.come_back().await?;
            self.arena.settle().await?;
            let change = replace(&path(HOME, "secrets", "warm-ours"), &self.fresh("warm-ours"))?;
            let size = WARM.min(self.namespaces.len());
            self.spread(change, "warm-ours", size).await?;
        }
        (self.is_ours_warm, self.is_bare_warm) = (true, false);
        Ok(())
    }

    /// Has the bare client alone, with open connections.
    async fn warm_bare(&mut self) -> Outcome<()> {
        if !self.is_bare_warm {
            self.arena.leave().await?;
            let size = WARM.min(self.namespaces.len());
            let writes = self.bare_writes("warm-bare", size, &Expected::Anything)?;
            send_all(&self.arena.account, writes, IN_FLIGHT).await?;
        }
        (self.is_ours_warm, self.is_bare_warm) = (false, true);
        Ok(())
    }

    fn bare_writes(&mut self, name: &str, size: usize, expected: &Expected<'_>) -> Outcome<Vec<Prepared>> {
        self.contents += 1;
        let template = self.template.as_ref().ok_or("no copy of ours was seen yet")?;
        template.writes(name, &self.namespaces[..size], &self.contents.to_string(), expected)
    }

    fn fresh(&mut self, name: &str) -> Value {
        self.contents += 1;
        source(name, &self.contents.to_string())
    }

    /// The Secret of this name in the first namespace.
    async fn stored(&self, name: &str) -> Outcome<Value> {
        let request = http::Request::get(path(&self.namespaces[0], "secrets", name)).body(Vec::new())?;
        Ok(self.arena.admin.request(request).await?)
    }

    fn server(&self) -> Outcome<Duration> {
        cpu(self.arena.component(Component::ApiServer)?)
    }
}

fn until_last(requests: &[&Request], begun: jiff::Timestamp) -> f64 {
    let last = requests.iter().map(|request| request.finished).max().unwrap_or(begun);
    last.duration_since(begun).as_secs_f64()
}
