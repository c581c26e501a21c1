//! A limit of concurrent requests (AIMD): the limit grows by addition while the API server answers, and
//! halves when the API server is overloaded. After a `Retry-After`, no request may be sent for that time.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Usual limit. More requests in flight only add latency (measured: throughput is flat from 16 on).
const USUAL: usize = 16;
/// Shortest time between two halvings. Requests that were sent together fail together, and must halve the
/// limit only once.
const ONE_CRISIS: Duration = Duration::from_secs(1);
/// Longest pause: after it, the throttle tries the API server again, whatever the server asked for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A limit of concurrent requests.
#[derive(Debug)]
pub struct Throttle {
    most: f64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: f64,
    halved: Option<Instant>,
    pause: Option<Instant>,
    busy: u64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self::new(USUAL)
    }
}

impl Throttle {
    /// Creates a throttle that allows at most this many concurrent requests.
    pub fn new(most: usize) -> Self {
        let most = most.max(1) as f64;
        Self { most, state: Mutex::new(State { limit: most, halved: None, pause: None, busy: 0 }) }
    }

    /// Notes that the API server has answered.
    pub fn answered(&self) {
        let mut state = self.lock();
        state.limit = (state.limit + 1.0 / state.limit).min(self.most);
    }

    /// Notes that the API server was overloaded, or did not answer in time. `pause`: how long the API server
    /// asks clients to wait, if it asks.
    pub fn busy(&self, pause: Option<Duration>) {
        let (mut state, now) = (self.lock(), Instant::now());
        state.busy += 1;
        if state.halved.is_none_or(|at| now.duration_since(at) >= ONE_CRISIS) {
            state.limit = (state.limit / 2.0).max(1.0);
            state.halved = Some(now);
        }
        let until = pause.map(|pause| now + pause.min(LONGEST_PAUSE));
        state.pause = state.pause.max(until);
    }

    /// Returns how many requests may be in flight now.
    pub fn limit(&self) -> usize {
        self.lock().limit as usize
    }

    /// Returns the time before which no request may be sent; `None` if there is no pause.
    pub fn pause(&self) -> Option<Instant> {
        self.lock().pause.filter(|until| *until > Instant::now())
    }

    /// Returns how often the API server was overloaded or did not answer.
    pub fn times_busy(&self) -> u64 {
        self.lock().busy
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_limit_halves_once_a_crisis_and_grows_back() {
        let throttle = Throttle::new(16);
        for _ in 0..10 {
            throttle.busy(None);
        }
        assert_eq!((throttle.limit(), throttle.times_busy()), (8, 10));
        for _ in 0..9 {
            tokio::time::advance(ONE_CRISIS).await;
            throttle.busy(None);
        }
        assert_eq!(throttle.limit(), 1, "something is always tried");
        for _ in 0..1000 {
            throttle.answered();
        }
        assert_eq!(throttle.limit(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_kept_and_never_shortened_nor_endless() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.pause(), None);
        throttle.busy(Some(Duration::from_secs(3)));
        throttle.busy(Some(Duration::from_secs(1)));
        throttle.busy(None);
        assert_eq!(throttle.pause(), Some(start + Duration::from_secs(3)));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(throttle.pause(), None);
        throttle.busy(Some(Duration::from_secs(86_400)));
        assert_eq!(throttle.pause(), Some(Instant::now() + LONGEST_PAUSE));
    }
}
