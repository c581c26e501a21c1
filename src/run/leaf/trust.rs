//! Whether callers trust a mounted leaf: seen by what the hooks carry, and by the clock where they cannot be
//! read. A CA that the hooks do not carry yet is brought by the reconciler, whose volume may change some
//! minutes after ours.

use std::time::{Duration, SystemTime};

use copyrator_certs::{Certificate, validity::rfc3339};

use super::found::{Carrier, Carriers};
use crate::observe::mounted::{self, Mounted};

/// For this many propagation times a leaf waits where nobody can say what the hooks carry.
const BY_CLOCK: u32 = 3;

/// How far callers trust a leaf, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// The hooks say that they do not.
    Refused,
    /// Nobody can say yet.
    Unsure,
    /// The hooks say so: enough for a process that has nothing better.
    Likely,
    /// They have said so for as long as the API servers may take to hear of it.
    Settled,
}

/// What is to be thought of a leaf.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) standing: Standing,
    /// Why it is no better.
    pub(super) why: String,
}

/// What was found out about mounted leaves.
pub(super) struct Trust {
    /// The name that callers look for in a leaf.
    name: String,
    propagation: Duration,
    /// Whether this process writes the hooks too, once it leads.
    writes_hooks: bool,
    settled: Option<Settled>,
    waiting: Option<Waiting>,
}

/// What holds until other authorities are mounted.
struct Settled {
    /// Those that were mounted.
    authorities: Vec<Certificate>,
    /// Those of each hook.
    bundles: Vec<Vec<Certificate>>,
}

/// A leaf that is not settled.
struct Waiting {
    leaf: Certificate,
    seen: Seen,
    since: SystemTime,
    /// Hooks did not carry it, since we look.
    has_lacked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    NoHooks,
    Carried,
    Lacking,
    Unread,
}

impl Standing {
    /// Whether it may be answered with.
    pub(super) fn is_enough(self) -> bool {
        self >= Self::Likely
    }

    /// How a leaf that is in use stands after another look. A settled answer stays, since the hooks keep a CA
    /// for longer than it is mounted.
    pub(super) fn after(self, seen: Self) -> Self {
        match (self, seen) {
            (Self::Settled, _) => Self::Settled,
            (_, Self::Refused) => Self::Refused,
            (before, seen) => before.max(seen),
        }
    }
}

impl Trust {
    /// For leaves for `name`. `writes_hooks`: whether this process does so once it leads.
    pub(super) fn new(name: String, propagation: Duration, writes_hooks: bool) -> Self {
        Self { name, propagation, writes_hooks, settled: None, waiting: None }
    }

    /// Whether the mounted authorities vouch for the mounted leaf.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn own(&self, mounted: &Mounted, now: SystemTime) -> Result<(), String> {
        self.accepts(&mounted.authorities, mounted, now).map_err(|why| {
            let name = &self.name;
            format!("the mounted tls.crt is not one that the mounted ca.crt vouches for, as `{name}`: {why}")
        })
    }

    /// Whether nothing needs to be asked about this leaf.
    pub(super) fn is_settled(&self, mounted: &Mounted, now: SystemTime) -> bool {
        self.settled.as_ref().is_some_and(|settled| {
            settled.authorities == mounted.authorities
                && settled.bundles.iter().all(|bundle| self.accepts(bundle, mounted, now).is_ok())
        })
    }

    /// What to think of the mounted leaf at `now`, and what to remember of it.
    pub(super) fn judge(&mut self, mounted: &Mounted, carriers: &Carriers, now: SystemTime) -> Judged {
        if self.is_settled(mounted, now) {
            self.waiting = None;
            return Judged { standing: Standing::Settled, why: String::new() };
        }
        let Some(leaf) = mounted.chain.first() else {
            return Judged { standing: Standing::Refused, why: "tls.crt holds no certificate".into() };
        };
        let by_own = self.own(mounted, now);
        let own = vec![mounted.authorities.clone()];
        let (seen, bundles, why) = match carriers {
            Carriers::NotAsked => (Seen::Unread, own, "the hooks were not asked for".to_owned()),
            Carriers::Unread(why) => (Seen::Unread, own, why.clone()),
            Carriers::Hooks(hooks) if hooks.is_empty() => (Seen::NoHooks, own, String::new()),
            Carriers::Hooks(hooks) => match self.lacking(hooks, mounted, now) {
                lacking if lacking.is_empty() => (Seen::Carried, bundles(hooks), String::new()),
                lacking => (Seen::Lacking, own, lacking),
            },
        };
        let waiting = self.wait(leaf, seen, now);
        match by_own {
            Err(why) if waiting.seen != Seen::Carried => {
                self.waiting = Some(waiting);
                Judged { standing: Standing::Refused, why }
            }
            _ => self.weigh(waiting, mounted, bundles, &why, now),
        }
    }

    /// Since when it is as it is. A moment in which hooks cannot be read says nothing against what they
    /// carried.
    fn wait(&mut self, leaf: &Certificate, seen: Seen, now: SystemTime) -> Waiting {
        let before = self.waiting.take().filter(|it| it.leaf == *leaf);
        let was = before.as_ref().map(|it| it.seen);
        let seen = if (was, seen) == (Some(Seen::Carried), Seen::Unread) { Seen::Carried } else { seen };
        // A clock that has gone back begins anew, but does not unsee.
        let is_same = |it: &&Waiting| it.seen == seen && it.since <= now;
        let since = before.as_ref().filter(is_same).map_or(now, |it| it.since);
        let has_lacked = seen == Seen::Lacking || before.is_some_and(|it| it.has_lacked);
        Waiting { leaf: leaf.clone(), seen, since, has_lacked }
    }

    fn weigh(
        &mut self,
        waiting: Waiting,
        mounted: &Mounted,
        bundles: Vec<Vec<Certificate>>,
        what: &str,
        now: SystemTime,
    ) -> Judged {
        let due = match waiting.seen {
            Seen::NoHooks | Seen::Carried => waiting.since + self.propagation,
            Seen::Lacking | Seen::Unread => waiting.since + self.propagation * BY_CLOCK,
        };
        let (is_due, at) = (due <= now, rfc3339(due));
        let (standing, why) = match waiting.seen {
            Seen::Lacking => {
                let why = format!(
                    "the hooks do not carry the CA of the mounted tls.crt yet ({what}): waiting for the reconciler to find \
                     it in its own mount and to write it"
                );
                match self.writes_hooks {
                    false => (Standing::Refused, why),
                    // A roll-out waits for this process to be ready, and this process for a leader that the
                    // roll-out ends.
                    true if is_due => (Standing::Likely, why),
                    true => (Standing::Refused, format!("{why}; it counts from {at} on all the same")),
                }
            }
            _ if is_due => {
                self.settled = Some(Settled { authorities: mounted.authorities.clone(), bundles });
                return Judged { standing: Standing::Settled, why: String::new() };
            }
            Seen::Unread => {
                let why = format!("{what}: whether callers trust the mounted tls.crt is not known");
                (Standing::Unsure, format!("{why}, and it counts from {at} on"))
            }
            Seen::NoHooks => {
                (Standing::Likely, format!("no hook is there yet: the mounted tls.crt counts from {at} on"))
            }
            Seen::Carried => {
                let why = format!(
                    "the hooks carry the CA of the mounted tls.crt, seen at {}: it counts from {at} on, when every API \
                     server has heard of it",
                    rfc3339(waiting.since)
                );
                // At first sight they may have carried it for long: others restart while nothing changes.
                (if waiting.has_lacked { Standing::Unsure } else { Standing::Likely }, why)
            }
        };
        self.waiting = Some(waiting);
        Judged { standing, why }
    }

    /// The hooks whose callers do not accept it, in words; nothing where all do.
    fn lacking(&self, hooks: &[Carrier], mounted: &Mounted, now: SystemTime) -> String {
        let is_lacking = |it: &&Carrier| self.accepts(&it.bundle, mounted, now).is_err();
        let mut names = hooks.iter().filter(is_lacking).map(|it| it.hook.as_str());
        match (names.next(), names.count()) {
            (None, _) => String::new(),
            (Some(one), 0) => one.to_owned(),
            (Some(one), more) => format!("{one} and {more} more"),
        }
    }

    fn accepts(&self, bundle: &[Certificate], mounted: &Mounted, now: SystemTime) -> Result<(), String> {
        mounted::accepts(bundle, &mounted.chain, &self.name, now)
    }
}

/// Each once: nearly always all hooks carry the same.
fn bundles(hooks: &[Carrier]) -> Vec<Vec<Certificate>> {
    let mut bundles: Vec<Vec<Certificate>> = Vec::new();
    for hook in hooks {
        if !bundles.contains(&hook.bundle) {
            bundles.push(hook.bundle.clone());
        }
    }
    bundles
}

#[cfg(test)]
mod tests;
