//! An open loop: requests are due at fixed times, whether or not the ones before have been answered, as those of many
//! independent writers are. An answer's time counts from when its request was *due*: a server that stalls is charged for
//! everything that should have been asked meanwhile, not only for the one request that met the stall.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::statistics::percentile;
use crate::wire::{Endpoint, Wire};

/// The answer of a server that has enough to do.
const SHED: u16 = 429;

/// Requests that come at a rate.
pub(crate) struct Stream<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// The bytes of each, taken in turn.
    pub(crate) requests: &'a [Vec<u8>],
    /// So many are due a second.
    pub(crate) rate: u32,
    /// So many can be under way; one that is due while all of them are waits, and its time runs.
    pub(crate) connections: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// From when a request was due to the end of its answer, in milliseconds; of verdicts only. What was due but could not
    /// even be sent is here too, with the time that it had waited at the end.
    pub(crate) times: Vec<f64>,
    /// How many answers there were, by HTTP status.
    pub(crate) answers: BTreeMap<u16, u64>,
    /// Verdicts that let the write go on.
    pub(crate) allowed: u64,
    /// Connections that ended without an answer.
    pub(crate) lost: u64,
    /// Due, but never sent.
    pub(crate) unsent: u64,
    /// How long it took.
    pub(crate) seconds: f64,
}

impl Seen {
    /// How many verdicts came each second.
    pub(crate) fn rate(&self) -> f64 {
        self.answered() as f64 / self.seconds
    }

    /// How many reviews were answered with a verdict: HTTP 200.
    pub(crate) fn answered(&self) -> u64 {
        self.answers.get(&200).copied().unwrap_or(0)
    }

    /// Turned away for load.
    pub(crate) fn shed(&self) -> u64 {
        self.answers.get(&SHED).copied().unwrap_or(0)
    }

    /// Neither a verdict nor turned away.
    pub(crate) fn errors(&self) -> u64 {
        let others = self.answers.iter().filter(|(status, _)| ![200, SHED].contains(status));
        self.lost + others.map(|(_, count)| count).sum::<u64>()
    }

    /// The time that so many percent of the verdicts took at most, in milliseconds.
    pub(crate) fn within(&self, percent: f64) -> f64 {
        percentile(&self.times, percent)
    }

    fn add(&mut self, other: Seen) {
        self.times.extend(other.times);
        for (status, count) in other.answers {
            *self.answers.entry(status).or_default() += count;
        }
        self.allowed += other.allowed;
        self.lost += other.lost;
        self.unsent += other.unsent;
    }
}

impl Stream<'_> {
    /// Opens its connections; each has carried a request already.
    pub(crate) fn open(&self) -> Outcome<Vec<Wire>> {
        (0..self.connections).map(|_| self.warm()).collect()
    }

    /// Sends for so long. Each connection has a thread, and takes whichever request is due next.
    pub(crate) fn send(&self, opened: Vec<Wire>, lasting: Duration) -> Outcome<Seen> {
        let next = &AtomicU32::new(0);
        let begin = Instant::now() + Duration::from_millis(50);
        let mut all = Seen::default();
        thread::scope(|scope| {
            let connection = |wire| scope.spawn(move || self.serve(wire, next, begin, lasting));
            let connections: Vec<_> = opened.into_iter().map(connection).collect();
            for connection in connections {
                all.add(connection.join().map_err(|_| "a connection's thread panicked")??);
            }
            Outcome::Ok(())
        })?;
        all.seconds = begin.elapsed().as_secs_f64();
        Ok(all)
    }

    /// A connection that has carried a request already.
    fn warm(&self) -> Outcome<Wire> {
        let mut wire = self.endpoint.connect()?;
        match wire.ask(&self.requests[0])?.closes {
            true => self.endpoint.connect(),
            false => Ok(wire),
        }
    }

    fn serve(&self, wire: Wire, next: &AtomicU32, begin: Instant, lasting: Duration) -> Outcome<Seen> {
        // The kernel wakes sleepers up to 50 µs late unless told otherwise.
        nix::sys::prctl::set_timerslack(1)?;
        let mut wire = Some(wire);
        let mut seen = Seen::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let after = Duration::from_secs(1) * number / self.rate;
            if after >= lasting {
                return Ok(seen);
            }
            let due = begin + after;
            if begin.elapsed() >= lasting {
                seen.unsent += 1;
                seen.times.push(due.elapsed().as_secs_f64() * 1e3);
                continue;
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let mut one = match wire.take() {
                Some(open) => open,
                None => self.endpoint.connect()?,
            };
            let request = &self.requests[number as usize % self.requests.len()];
            match one.ask(request) {
                Ok(answer) => {
                    *seen.answers.entry(answer.status).or_default() += 1;
                    if answer.status == 200 {
                        seen.times.push(due.elapsed().as_secs_f64() * 1e3);
                        seen.allowed += u64::from(answer.allowed);
                    }
                    wire = (!answer.closes).then_some(one);
                }
                Err(_) => seen.lost += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_turned_away_is_no_error_and_what_is_lost_is() {
        let answers = BTreeMap::from([(200, 90), (429, 5), (503, 2)]);
        let seen = Seen { answers, lost: 3, seconds: 2.0, ..Seen::default() };
        assert_eq!((seen.answered(), seen.shed(), seen.errors(), seen.rate()), (90, 5, 5, 45.0));
    }
}
