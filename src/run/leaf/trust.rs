//! Whether callers trust a mounted leaf: seen by what the hooks carry, and by the clock where they cannot be
//! read. A CA that the hooks do not carry yet is brought by the reconciler, whose volume may change some
//! minutes after ours.

use std::time::{Duration, SystemTime};

use copyrator_certs::{Certificate, validity::rfc3339};

use super::found::{Carrier, Carriers};
use crate::observe::mounted::{self, Mounted};

/// For this many propagation times a leaf waits where nobody can say what the hooks carry.
const BY_CLOCK: u32 = 3;

/// What was found out about mounted leaves.
pub(super) struct Trust {
    /// The name that callers look for in a leaf.
    name: String,
    propagation: Duration,
    /// Whether this process writes the hooks too, once it leads.
    writes_hooks: bool,
    settled: Option<Settled>,
    waiting: Option<Waiting>,
    /// Hooks were seen that did not carry what was mounted.
    has_lacked: bool,
}

/// What callers trust, until other authorities are mounted.
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
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    NoHooks,
    Carried,
    Lacking,
    Unread,
}

impl Trust {
    /// For leaves for `name`. `writes_hooks`: whether this process does so once it leads.
    pub(super) fn new(name: String, propagation: Duration, writes_hooks: bool) -> Self {
        Self { name, propagation, writes_hooks, settled: None, waiting: None, has_lacked: false }
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

    /// Whether callers trust the mounted leaf, as far as can be said at `now`; and what to remember of it.
    ///
    /// # Errors
    /// What it waits for.
    pub(super) fn judge(
        &mut self,
        mounted: &Mounted,
        carriers: &Carriers,
        now: SystemTime,
    ) -> Result<(), String> {
        if self.is_settled(mounted, now) {
            self.waiting = None;
            return Ok(());
        }
        let Some(leaf) = mounted.chain.first() else { return Err("tls.crt holds no certificate".into()) };
        let own = vec![mounted.authorities.clone()];
        let (seen, bundles, what) = match carriers {
            Carriers::NotAsked => (Seen::Unread, own, "the hooks were not asked for".to_owned()),
            Carriers::Unread(why) => (Seen::Unread, own, why.clone()),
            Carriers::Hooks(hooks) if hooks.is_empty() => (Seen::NoHooks, own, String::new()),
            Carriers::Hooks(hooks) => match self.lacking(hooks, mounted, now) {
                lacking if lacking.is_empty() => (Seen::Carried, bundles(hooks), String::new()),
                lacking => (Seen::Lacking, own, lacking),
            },
        };
        let (seen, since) = self.wait(leaf, seen, now);
        if seen != Seen::Carried {
            self.own(mounted, now)?;
        }
        let is_start = self.settled.is_none();
        let propagations = match seen {
            // At first sight hooks have carried it for long: nearly always a process restarts while nothing changes.
            Seen::Carried | Seen::NoHooks if is_start && !self.has_lacked => 0,
            Seen::Carried | Seen::NoHooks => 1,
            Seen::Lacking | Seen::Unread => BY_CLOCK,
        };
        // A roll-out waits for this process to be ready, and this process for a leader that the roll-out ends.
        let is_bounded = seen != Seen::Lacking || (self.writes_hooks && is_start);
        let due = since + self.propagation * propagations;
        if is_bounded && due <= now {
            self.settled = Some(Settled { authorities: mounted.authorities.clone(), bundles });
            self.waiting = None;
            return Ok(());
        }
        let at = rfc3339(due);
        Err(match seen {
            Seen::Lacking => {
                let all_the_same =
                    if is_bounded { format!("; it counts from {at} on all the same") } else { String::new() };
                format!(
                    "the hooks do not carry the CA of the mounted tls.crt yet ({what}): waiting for the reconciler to find \
                     it in its own mount and to write it{all_the_same}"
                )
            }
            Seen::Unread => format!(
                "{what}: whether callers trust the mounted tls.crt is not known, and it counts from {at} on"
            ),
            Seen::NoHooks => format!("no hook is there: the mounted tls.crt counts from {at} on"),
            Seen::Carried => format!(
                "the hooks carry the CA of the mounted tls.crt, seen at {}: it counts from {at} on, when every API \
                 server has heard of it",
                rfc3339(since)
            ),
        })
    }

    /// How hooks are seen, and since when. A moment in which they cannot be read says nothing against what they
    /// carried.
    fn wait(&mut self, leaf: &Certificate, seen: Seen, now: SystemTime) -> (Seen, SystemTime) {
        let before = self.waiting.take().filter(|it| it.leaf == *leaf);
        let was = before.as_ref().map(|it| it.seen);
        let seen = if (was, seen) == (Some(Seen::Carried), Seen::Unread) { Seen::Carried } else { seen };
        // A clock that has gone back begins anew.
        let since = before.filter(|it| it.seen == seen && it.since <= now).map_or(now, |it| it.since);
        self.has_lacked |= seen == Seen::Lacking;
        self.waiting = Some(Waiting { leaf: leaf.clone(), seen, since });
        (seen, since)
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
