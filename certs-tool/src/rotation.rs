//! A CA's rotation, one step at a time, so that no client is ever shown a certificate that it does not trust yet.
//!
//! | step | what is true after it | due |
//! |---|---|---|
//! | `Announce` | the next CA is in the Secret, and so in the bundle | two thirds of the CA's life are over, or somebody asked |
//! | `Publish` | it is written down since when every hook carries both | every hook was seen to carry both |
//! | `Switch` | the next CA signs, the one before stays trusted | they have carried both for the propagation time |
//! | `Retire` | the one before is not trusted any more | every leaf that it signed is over |
//!
//! Beside them: `Withdraw` where a hook has lost the next CA again, `Date` where the time of the switch is not known
//! or lies ahead (the clock went back), and `Remake` where the CA itself cannot be used at this time: expired while the
//! cluster was off, or made by a clock that was ahead. Each step is one write of the Secret, which is all that there is
//! to remember: the process that starts after a crash goes on with the next step. No step waits for a time that can move away.

use std::time::{Duration, SystemTime};

use crate::bundle::CaSecret;
use crate::ca::Authority;
use crate::certificate::Certificate;
use crate::error::CertError;

/// How long things last, and are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a new CA lasts.
    pub ca_lifetime: Duration,
    /// How long a leaf lasts at most.
    pub leaf_lifetime: Duration,
    /// How long the API servers are given to take up a changed hook.
    pub propagation: Duration,
}

impl Default for Times {
    /// A year, a day, a minute.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        Self { ca_lifetime: 365 * DAY, leaf_lifetime: DAY, propagation: Duration::from_secs(60) }
    }
}

/// The CA's Secret, with what it says of a rotation.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// The authorities that the Secret has now.
    pub secret: CaSecret,
    /// Somebody wants a new CA now.
    pub asked: bool,
    /// Since when every hook carries the next CA beside the current one.
    pub published: Option<SystemTime>,
    /// When the current CA began to sign.
    pub switched: Option<SystemTime>,
}

/// What a hook has its callers trust.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The name of the webhook in its configuration.
    pub hook: String,
    /// The `caBundle` that it has now, as PEM.
    pub bundle: String,
}

/// What is to be done now. Each but the last is one write of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a CA that is used at once.
    Remake,
    /// Make the next CA.
    Announce,
    /// Write down that every hook carries both.
    Publish,
    /// Forget that every hook carried both.
    Withdraw,
    /// Sign with the next CA.
    Switch,
    /// Write down when the current CA began to sign.
    Date,
    /// Trust earlier CAs no longer.
    Retire,
    /// There is nothing to write now.
    Wait {
        /// When there may be more to do, unless something changes.
        after: Duration,
        /// The hooks that hold the rotation up, for they lack a CA.
        lacking: Vec<String>,
    },
}

impl Rotation {
    /// A Secret made just now, with one CA and no rotation under way.
    pub fn new(current: Authority, now: SystemTime) -> Self {
        Self { secret: CaSecret::new(current), asked: false, published: None, switched: Some(now) }
    }

    /// What is to be done at `now`, by the wall clock, with these hooks in force. No hook lacks nothing.
    pub fn step(&self, carried: &[Carried], times: &Times, now: SystemTime) -> Step {
        let CaSecret { current, next, old } = &self.secret;
        if !current.validity().contains(now) {
            return Step::Remake;
        }
        if let Some(next) = next {
            // Announced and forgotten until it is itself due, or made by a clock that was ahead.
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
        // A leaf may have been signed while the switch was being written: hence the propagation time on top.
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

    /// The Secret after a step, to be written whole.
    ///
    /// # Errors
    /// See [`Authority::issue`].
    pub fn take(&self, step: &Step, times: &Times, now: SystemTime) -> Result<Self, CertError> {
        // Whatever happens now is what was asked for.
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

/// `then` once `wait` has passed since a time written down; `note` where none is, or one that lies ahead.
fn passed(since: Option<SystemTime>, wait: Duration, now: SystemTime, note: Step, then: Step) -> Step {
    match since.and_then(|since| now.duration_since(since).ok()) {
        None => note,
        Some(passed) if passed >= wait => then,
        Some(passed) => Step::Wait { after: wait - passed, lacking: Vec::new() },
    }
}

fn lacking(carried: &[Carried], wanted: [&Authority; 2]) -> Vec<String> {
    let lacks = |hook: &&Carried| {
        // What cannot be read is trusted by nobody.
        let trusted = Certificate::all_from_pem(&hook.bundle).unwrap_or_default();
        wanted.iter().any(|authority| !trusted.contains(authority.certificate()))
    };
    carried.iter().filter(lacks).map(|hook| hook.hook.clone()).collect()
}
