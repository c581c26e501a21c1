//! Rotation of a CA, one step at a time. No client ever sees a certificate that it does not trust yet.
//!
//! | step | what is true after it | due |
//! |---|---|---|
//! | `Announce` | Secret and bundle have the next CA | two thirds of the CA's life are over, or on request |
//! | `Publish` | the Secret records since when every webhook carries both CAs | every webhook carries both |
//! | `Switch` | the next CA signs, the old stays trusted | webhooks carried both for the propagation time |
//! | `Retire` | the old CA is not trusted any more | every leaf that it signed has expired |
//!
//! Three more steps are due in special cases. `Withdraw`: a webhook has lost the next CA again. `Date`: the
//! time of the switch is not known, or lies ahead (the clock went back). `Remake`: the CA itself cannot be
//! used now, because it expired while the cluster was off, or a clock that was ahead made it. Each step is
//! one write of the Secret, which holds the whole state: after a crash, the new process continues with the
//! next step. No step waits for a time that can move away.

use std::time::{Duration, SystemTime};

use crate::bundle::CaSecret;
use crate::ca::Authority;
use crate::certificate::Certificate;
use crate::error::CertError;

/// Lifetimes and waiting times of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Lifetime of a new CA.
    pub ca_lifetime: Duration,
    /// Longest lifetime of a leaf.
    pub leaf_lifetime: Duration,
    /// Time for the API servers to take up a changed webhook.
    pub propagation: Duration,
}

impl Default for Times {
    /// A year, a day, a minute.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        Self { ca_lifetime: 365 * DAY, leaf_lifetime: DAY, propagation: Duration::from_secs(60) }
    }
}

/// The CA's Secret, with the state of a rotation.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// The authorities that the Secret has now.
    pub secret: CaSecret,
    /// Whether a user asked for a new CA.
    pub asked: bool,
    /// Time since which every webhook carries the next CA beside the current one.
    pub published: Option<SystemTime>,
    /// Time when the current CA began to sign.
    pub switched: Option<SystemTime>,
}

/// The CA bundle of a webhook, which its callers trust.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The name of the webhook in its configuration.
    pub hook: String,
    /// The `caBundle` that the webhook has now, as PEM.
    pub bundle: String,
}

/// The next step of a rotation. Each step but `Wait` is one write of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a CA and use it at once.
    Remake,
    /// Make the next CA.
    Announce,
    /// Record that every webhook carries both CAs.
    Publish,
    /// Erase the record that every webhook carries both CAs.
    Withdraw,
    /// Sign with the next CA.
    Switch,
    /// Record when the current CA began to sign.
    Date,
    /// Stop trusting earlier CAs.
    Retire,
    /// Nothing has to be written now.
    Wait {
        /// Time until there may be more to do, unless something changes.
        after: Duration,
        /// The webhooks that hold the rotation up because they lack a CA.
        lacking: Vec<String>,
    },
}

impl Rotation {
    /// Returns a new Secret with one CA and no rotation under way.
    pub fn new(current: Authority, now: SystemTime) -> Self {
        Self { secret: CaSecret::new(current), asked: false, published: None, switched: Some(now) }
    }

    /// Returns the next step at `now`, by the wall clock. Without webhooks, no CA is lacking.
    pub fn step(&self, carried: &[Carried], times: &Times, now: SystemTime) -> Step {
        let CaSecret { current, next, old } = &self.secret;
        if !current.validity().contains(now) {
            return Step::Remake;
        }
        if let Some(next) = next {
            // The next CA was announced so long ago that it is itself due for renewal, or the CA was made by
            // a clock that was ahead.
            if next.validity().renewal_at() <= now || !next.validity().contains(now) {
                return Step::Announce;
            }
            return self.publishing(&lacking(carried, [current, next]), times, now);
        }
        if self.asked || self.secret.renewal_due(now) {
            return Step::Announce;
        }
        if old.is_empty() {
            let after = current.validity().renewal_at().duration_since(now).unwrap_or_default();
            return Step::Wait { after, lacking: Vec::new() };
        }
        // The old CA may have signed a leaf during the switch, so the propagation time is added.
        let leaves_last = times.leaf_lifetime + times.propagation;
        passed(self.switched, leaves_last, now, Step::Date, Step::Retire)
    }

    fn publishing(&self, lacking: &[String], times: &Times, now: SystemTime) -> Step {
        match (lacking.is_empty(), self.published) {
            (true, published) => passed(published, times.propagation, now, Step::Publish, Step::Switch),
            (false, Some(_)) => Step::Withdraw,
            (false, None) => Step::Wait { after: times.propagation, lacking: lacking.to_vec() },
        }
    }

    /// Returns the Secret after a step, to be written as a whole.
    ///
    /// # Errors
    /// See [`Authority::issue`].
    pub fn take(&self, step: &Step, times: &Times, now: SystemTime) -> Result<Self, CertError> {
        // Any step but `Wait` fulfils the request for a new CA.
        let mut after = Self { asked: false, ..self.clone() };
        let fresh =
            || Authority::issue(self.secret.current.certificate().common_name(), now, times.ca_lifetime);
        match step {
            Step::Wait { .. } => return Ok(self.clone()),
            Step::Announce => (after.secret.next, after.published) = (Some(fresh()?), None),
            Step::Publish => after.published = Some(now),
            Step::Withdraw => after.published = None,
            Step::Date => after.switched = Some(now),
            Step::Retire => after.secret.old = Vec::new(),
            Step::Switch | Step::Remake => {
                let usable = self.secret.next.clone().filter(|next| next.validity().contains(now));
                let signs = usable.map_or_else(fresh, Ok)?;
                after.secret = self.secret.succeeded_by(signs, now);
                (after.published, after.switched) = (None, Some(now));
            }
        }
        Ok(after)
    }
}

/// Returns `then` once `wait` has passed since the recorded time, and `Wait` before; `note` where no time is
/// recorded, or the time lies ahead.
fn passed(since: Option<SystemTime>, wait: Duration, now: SystemTime, note: Step, then: Step) -> Step {
    match since.and_then(|since| now.duration_since(since).ok()) {
        None => note,
        Some(passed) if passed >= wait => then,
        Some(passed) => Step::Wait { after: wait - passed, lacking: Vec::new() },
    }
}

fn lacking(carried: &[Carried], wanted: [&Authority; 2]) -> Vec<String> {
    let lacks = |hook: &&Carried| {
        // Callers trust no CA from a bundle that cannot be read.
        let trusted = Certificate::all_from_pem(&hook.bundle).unwrap_or_default();
        wanted.iter().any(|authority| !trusted.contains(authority.certificate()))
    };
    carried.iter().filter(lacks).map(|hook| hook.hook.clone()).collect()
}
