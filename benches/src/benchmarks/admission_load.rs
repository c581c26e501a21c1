//! The webhook's own endpoint under load, as the API server reaches it: small reviews at rates that rise to overload, large
//! ones, and small ones beside hostile ones. The generator shares the machine, so it is told how much of it the server had.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::Role;

use crate::Outcome;
use crate::arena::{Arena, IN_FLIGHT};
use crate::bare_webhook::BareWebhook;
use crate::exposition::Histogram;
use crate::figures::{Budget, Figures};
use crate::load::{Seen, Stream};
use crate::processes::{cpu, forget_peak, memory};
use crate::program::Program;
use crate::reviews;
use crate::sizes::Sizes;
use crate::statistics::Summary;
use crate::wire::Endpoint;
use crate::writes;

pub(super) const PATH: &str = "/validate/policies";
const POLICIES: &str = "/apis/copyrator.dev/v1alpha1/configpolicies";
/// What a review may take of the processor, beside a webhook that does not think.
const UNSPOKEN: f64 = 1.5;
const SPOKEN: f64 = 2.5;
/// Fewer than the webhook takes at once (`--max-in-flight`, 64 by default), and more.
const FEW: u32 = 32;
const MANY: u32 = 256;
/// More than there can be.
const ENDLESS: u32 = 100_000;
/// At this rate the budgets of DESIGN §6 are judged: times in milliseconds, memory in MB.
const JUDGED: u32 = 1000;
const CLIENT_P99: f64 = 1.0;
const HANDLER_P99: f64 = 0.1;
const RESIDENT: f64 = 25.0;
/// 20,000 reviews a second of one core are so many milliseconds of it for 1,000.
const CPU: f64 = 50.0;
/// Large and hostile ones come at these rates: what is beyond them is turned away for its size alone.
const LARGE_RATE: u32 = 10;
const HOSTILE_RATE: u32 = 4;
/// How long the webhook may take to hear of the policies.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run(program: &Program, sizes: &Sizes) -> Outcome<Figures> {
    let mut arena = Arena::start(&program.for_any_peer(), sizes).await?;
    let endpoint = arena.webhook_endpoint().await?;
    let bare = BareWebhook::start()?;
    let mut figures = Figures::default();
    arena.create(POLICIES, reviews::policies_of_others("Ignore")).await?;
    arena.settle().await?;
    let lasting = Duration::from_secs(sizes.load_seconds);
    let mut bench = Bench { arena, endpoint, bare, lasting };
    for _ in 0..sizes.rounds {
        bench.beside_bare(&mut figures, "no policy speaks of it", UNSPOKEN)?;
    }
    let of_all = json!({"spec": {"match": {"names": null}}});
    let path =
        |policy: &Value| format!("{POLICIES}/{}", policy["metadata"]["name"].as_str().unwrap_or_default());
    let merged: Outcome<Vec<_>> =
        reviews::policies("Ignore").iter().map(|policy| writes::merge(&path(policy), &of_all)).collect();
    writes::send_all(&bench.arena.admin, merged?, IN_FLIGHT).await?;
    until_refused(&bench.endpoint)?;
    bench.arena.settle().await?;
    for _ in 0..sizes.rounds {
        bench.beside_bare(&mut figures, "24 policies", SPOKEN)?;
    }
    for round in 0..sizes.rounds {
        eprintln!("  round {} of {}", round + 1, sizes.rounds);
        bench.small(&mut figures, &sizes.rates)?;
        bench.overload(&mut figures)?;
        bench.large(&mut figures)?;
        bench.hostile(&mut figures)?;
    }
    Ok(figures)
}

struct Bench {
    arena: Arena,
    endpoint: Endpoint,
    bare: BareWebhook,
    lasting: Duration,
}

/// What the server used, meanwhile.
struct Used {
    seen: Seen,
    /// Milliseconds of a core for 1,000 verdicts.
    server: f64,
    generator: f64,
    handler_p99: f64,
}

impl Bench {
    /// As fast as few connections go: ours and the bare one in turn, ours ÷ bare.
    fn beside_bare(&self, figures: &mut Figures, about: &str, budget: f64) -> Outcome<()> {
        let small = reviews::small()?;
        let [mut ours, mut bare] = [0.0, 0.0];
        for is_ours in [true, false, false, true] {
            let (endpoint, pid) =
                if is_ours { (&self.endpoint, self.pid()?) } else { (&self.bare.endpoint, self.bare.pid()) };
            let requests: Vec<_> = small.iter().map(|body| endpoint.post(PATH, body)).collect();
            let stream = Stream { endpoint, requests: &requests, rate: ENDLESS, connections: FEW };
            let opened = stream.open()?;
            let before = cpu(pid)?;
            let seen = stream.send(opened, self.lasting)?;
            let used = (cpu(pid)? - before).as_secs_f64() * 1e6 / seen.answered().max(1) as f64;
            *(if is_ours { &mut ours } else { &mut bare }) += used / 2.0;
        }
        let about = format!("beside a bare webhook, {about}");
        figures.add_with(format!("{about}: CPU, ours ÷ bare"), "×", Budget::median(budget), ours / bare);
        figures.add(format!("{about}: CPU for 1,000, ours"), "ms", ours);
        figures.add(format!("{about}: CPU for 1,000, bare"), "ms", bare);
        Ok(())
    }

    fn small(&self, figures: &mut Figures, rates: &[u32]) -> Outcome<()> {
        let requests = self.requests(reviews::small()?);
        for &rate in rates {
            let judged = |budget: f64| if rate == JUDGED { Budget::median(budget) } else { None };
            let none = if rate == JUDGED { Budget::every(0.0) } else { None };
            forget_peak(self.pid()?)?;
            let used = self.measure(&self.stream(&requests, rate, FEW))?;
            let seen = &used.seen;
            let about = format!("small, {rate}/s");
            figures.add(format!("{about}: verdicts a second"), "/s", seen.rate());
            figures.add(format!("{about}: p50"), "ms", seen.within(50.0));
            figures.add_with(format!("{about}: p99"), "ms", judged(CLIENT_P99), seen.within(99.0));
            figures.add(format!("{about}: p99.9"), "ms", seen.within(99.9));
            figures.add_with(
                format!("{about}: handler p99, at most"),
                "ms",
                judged(HANDLER_P99),
                used.handler_p99,
            );
            figures.add(
                format!("{about}: handler p99 of a bare webhook, at most"),
                "ms",
                self.bare_p99(rate)?,
            );
            figures.add_with(format!("{about}: errors"), "", none, seen.errors() as f64);
            figures.add(format!("{about}: turned away"), "", seen.shed() as f64);
            figures.add(format!("{about}: due, but never sent"), "", seen.unsent as f64);
            figures.add(format!("{about}: CPU for 1,000, webhook"), "ms", used.server);
            figures.add(format!("{about}: CPU for 1,000, generator"), "ms", used.generator);
            self.weigh(figures, &about, judged(RESIDENT))?;
        }
        Ok(())
    }

    /// The same reviews at the same rate to the bare webhook, in the same minute on the same machine.
    fn bare_p99(&self, rate: u32) -> Outcome<f64> {
        let requests: Vec<_> =
            reviews::small()?.iter().map(|body| self.bare.endpoint.post(PATH, body)).collect();
        let stream = Stream { endpoint: &self.bare.endpoint, requests: &requests, rate, connections: FEW };
        let opened = stream.open()?;
        let before = Histogram::of(&self.bare.metrics()?, PATH)?;
        stream.send(opened, self.lasting)?;
        Ok(Histogram::of(&self.bare.metrics()?, PATH)?.since(&before).within(99.0))
    }

    /// As fast as it goes: how many that are, what a verdict costs then, who is turned away, and whether it is over when it
    /// is over.
    fn overload(&self, figures: &mut Figures) -> Outcome<()> {
        let requests = self.requests(reviews::small()?);
        for connections in [FEW, MANY] {
            forget_peak(self.pid()?)?;
            let used = self.measure(&self.stream(&requests, ENDLESS, connections))?;
            let about = format!("overload, {connections} connections");
            let budget = if connections == FEW { Budget::median(CPU) } else { None };
            figures.add(format!("{about}: verdicts a second"), "/s", used.seen.rate());
            figures.add_with(format!("{about}: CPU for 1,000, webhook"), "ms", budget, used.server);
            figures.add(format!("{about}: CPU for 1,000, generator"), "ms", used.generator);
            figures.add(format!("{about}: errors"), "", used.seen.errors() as f64);
            figures.add(format!("{about}: turned away, 429"), "", used.seen.shed() as f64);
            self.weigh(figures, &about, None)?;
        }
        let after = self.measure(&self.stream(&requests, 100, FEW))?.seen;
        figures.add("after overload, 100/s: p99", "ms", after.within(99.0));
        figures.add_with("after overload, 100/s: errors", "", Budget::every(0.0), after.errors() as f64);
        Ok(())
    }

    fn large(&self, figures: &mut Figures) -> Outcome<()> {
        let requests = self.requests(vec![reviews::large()?]);
        forget_peak(self.pid()?)?;
        let used = self.measure(&self.stream(&requests, LARGE_RATE, FEW))?;
        let about = format!("Secret of 1 MiB changed, {LARGE_RATE}/s");
        figures.add(format!("{about}: p50"), "ms", used.seen.within(50.0));
        figures.add(format!("{about}: p99"), "ms", used.seen.within(99.0));
        figures.add(format!("{about}: errors"), "", used.seen.errors() as f64);
        figures.add(format!("{about}: turned away"), "", used.seen.shed() as f64);
        figures.add(format!("{about}: CPU for one, webhook"), "ms", used.server / 1e3);
        self.weigh(figures, &about, None)
    }

    /// Each hostile one alone; then small ones with hostile ones beside them, and without.
    fn hostile(&self, figures: &mut Figures) -> Outcome<()> {
        let mut requests = Vec::new();
        for (name, body) in reviews::hostile()? {
            let request = self.endpoint.post(PATH, &body);
            let mut times = Vec::new();
            for _ in 0..3 {
                let mut wire = self.endpoint.connect()?;
                let begun = Instant::now();
                let answer = wire.ask(&request)?;
                times.push(begun.elapsed().as_secs_f64() * 1e3);
                if answer.status != 200 {
                    return Err(format!("{name}: HTTP {} is no verdict", answer.status).into());
                }
            }
            let median = Summary::of(&times).map_or(0.0, |summary| summary.median);
            figures.add(format!("hostile, alone: {name}"), "ms", median);
            requests.push(request);
        }
        let small = self.requests(reviews::small()?);
        let rate = 500;
        let alone = self.measure(&self.stream(&small, rate, FEW))?.seen;
        let (small, hostile) = (self.stream(&small, rate, FEW), self.stream(&requests, HOSTILE_RATE, FEW));
        let opened = (small.open()?, hostile.open()?);
        forget_peak(self.pid()?)?;
        let (beside, hostile) = std::thread::scope(|scope| {
            let hostile = scope.spawn(|| hostile.send(opened.1, self.lasting));
            let beside = small.send(opened.0, self.lasting)?;
            Outcome::Ok((beside, hostile.join().map_err(|_| "the generator panicked")??))
        })?;
        let about = format!("small, {rate}/s, beside {HOSTILE_RATE}/s hostile");
        figures.add(format!("small, {rate}/s, alone: p99"), "ms", alone.within(99.0));
        figures.add(format!("{about}: p99"), "ms", beside.within(99.0));
        figures.add_with(format!("{about}: errors"), "", Budget::every(0.0), beside.errors() as f64);
        figures.add(format!("{about}: turned away"), "", beside.shed() as f64);
        figures.add(format!("{about}: the hostile ones' p99"), "ms", hostile.within(99.0));
        figures.add(format!("{about}: the hostile ones' errors"), "", hostile.errors() as f64);
        figures.add(format!("{about}: hostile ones turned away"), "", hostile.shed() as f64);
        self.weigh(figures, &about, None)
    }

    fn measure(&self, stream: &Stream<'_>) -> Outcome<Used> {
        let (webhook, me) = (self.pid()?, std::process::id());
        let opened = stream.open()?;
        let before = (cpu(webhook)?, cpu(me)?, self.histogram()?);
        let seen = stream.send(opened, self.lasting)?;
        let for_thousand = |used: Duration| used.as_secs_f64() * 1e6 / seen.answered().max(1) as f64;
        Ok(Used {
            server: for_thousand(cpu(webhook)? - before.0),
            generator: for_thousand(cpu(me)? - before.1),
            handler_p99: self.histogram()?.since(&before.2).within(99.0),
            seen,
        })
    }

    fn weigh(&self, figures: &mut Figures, about: &str, budget: Option<Budget>) -> Outcome<()> {
        let memory = memory(self.pid()?)?;
        figures.add_with(format!("{about}: resident, at its peak"), "MB", budget, memory.peak);
        figures.add(format!("{about}: of it heap, at the end"), "MB", memory.heap);
        Ok(())
    }

    fn stream<'a>(&'a self, requests: &'a [Vec<u8>], rate: u32, connections: u32) -> Stream<'a> {
        Stream { endpoint: &self.endpoint, requests, rate, connections }
    }

    fn requests(&self, bodies: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        bodies.iter().map(|body| self.endpoint.post(PATH, body)).collect()
    }

    fn histogram(&self) -> Outcome<Histogram> {
        let (_, metrics) = self.arena.process(Role::Webhook)?.ask("/metrics")?;
        Histogram::of(&metrics, PATH)
    }

    fn pid(&self) -> Outcome<u32> {
        Ok(self.arena.process(Role::Webhook)?.pid())
    }
}

/// Waits until the webhook has heard of the policies.
pub(super) fn until_refused(endpoint: &Endpoint) -> Outcome<()> {
    let bad = endpoint.post(PATH, &reviews::bad()?);
    let begun = Instant::now();
    let mut wire = endpoint.connect()?;
    loop {
        let answer = wire.ask(&bad)?;
        if answer.status == 200 && !answer.allowed {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("a bad ConfigMap is not refused after {PATIENCE:?}: {answer:?}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
