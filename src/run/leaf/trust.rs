//! Whether callers trust a mounted leaf. The CA bundles of the hooks decide; if they cannot be read, a
//! waiting time does. The reconciler adds a CA that the hooks lack; its volume may change some minutes after
//! ours.

use std::time::{Duration, SystemTime};

use copyrator_certs::{Certificate, validity::rfc3339};

use super::source::{Carrier, Carriers};
use crate::observe::mounted::{self, Mounted};

/// Number of propagation times that a leaf waits if the CA bundles of the hooks cannot be read.
const BY_CLOCK: u32 = 3;

/// The state of trust in mounted leaves.
pub(super) struct Trust {
    /// The name that callers look for in a leaf.
    name: String,
    propagation: Duration,
    /// Whether this process also writes the hooks, once it leads.
    writes_hooks: bool,
    settled: Option<Settled>,
    waiting: Option<Waiting>,
    /// Whether hooks have lacked the CA of a mounted leaf.
    has_lacked: bool,
}

/// The mounted authorities and hook bundles with which a leaf became trusted; valid while the mounted
/// authorities stay the same.
struct Settled {
    /// The authorities in the mounted `ca.crt`.
    authorities: Vec<Certificate>,
    /// The CA bundle of each hook.
    bundles: Vec<Vec<Certificate>>,
}

/// A leaf that callers may not trust yet.
struct Waiting {
    leaf: Certificate,
    seen: HookTrust,
    since: SystemTime,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HookTrust {
    NoHooks,
    Carried,
    Lacking,
    Unread,
}

impl Trust {
    /// Creates a trust for leaves with this `name`. `writes_hooks`: whether this process writes the hooks
    /// once it leads.
    pub(super) fn new(name: String, propagation: Duration, writes_hooks: bool) -> Self {
        Self { name, propagation, writes_hooks, settled: None, waiting: None, has_lacked: false }
    }

    /// Checks that the mounted authorities vouch for the mounted leaf.
    ///
    /// # Errors
    /// Returns the reason why they do not.
    pub(super) fn own(&self, mounted: &Mounted, now: SystemTime) -> Result<(), String> {
        self.accepts(&mounted.authorities, mounted, now).map_err(|why| {
            let name = &self.name;
            format!("the mounted tls.crt is not one that the mounted ca.crt vouches for, as `{name}`: {why}")
        })
    }

    /// Whether callers are known to trust this leaf; then no bundles need to be read.
    pub(super) fn is_settled(&self, mounted: &Mounted, now: SystemTime) -> bool {
        self.settled.as_ref().is_some_and(|settled| {
            settled.authorities == mounted.authorities
                && settled.bundles.iter().all(|bundle| self.accepts(bundle, mounted, now).is_ok())
        })
    }

    /// Checks whether callers trust the mounted leaf, as far as is known at `now`; remembers the result.
    ///
    /// # Errors
    /// Returns the reason why the leaf must wait.
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
            Carriers::NotAsked => (HookTrust::Unread, own, "the hooks were not asked for".to_owned()),
            Carriers::Unread(why) => (HookTrust::Unread, own, why.clone()),
            Carriers::Hooks(hooks) if hooks.is_empty() => (HookTrust::NoHooks, own, String::new()),
            Carriers::Hooks(hooks) => match self.lacking(hooks, mounted, now) {
                lacking if lacking.is_empty() => (HookTrust::Carried, bundles(hooks), String::new()),
                lacking => (HookTrust::Lacking, own, lacking),
            },
        };
        let (seen, since) = self.wait(leaf, seen, now);
        if seen != HookTrust::Carried {
            self.own(mounted, now)?;
        }
        let is_start = self.settled.is_none();
        let propagations = match seen {
            // If the bundles have the CA at the first look, they have probably had it for long: usually a
            // process restarts while nothing changes.
            HookTrust::Carried | HookTrust::NoHooks if is_start && !self.has_lacked => 0,
            HookTrust::Carried | HookTrust::NoHooks => 1,
            HookTrust::Lacking | HookTrust::Unread => BY_CLOCK,
        };
        // Without a bound, a rollout would deadlock: it waits for this process to be ready, while this
        // process would wait for a leader that only the rollout ends.
        let is_bounded = seen != HookTrust::Lacking || (self.writes_hooks && is_start);
        let due = since + self.propagation * propagations;
        if is_bounded && due <= now {
            self.settled = Some(Settled { authorities: mounted.authorities.clone(), bundles });
            self.waiting = None;
            return Ok(());
        }
        let at = rfc3339(due);
        Err(match seen {
            HookTrust::Lacking => {
                let all_the_same =
                    if is_bounded { format!("; it counts from {at} on all the same") } else { String::new() };
                format!(
                    "the hooks do not carry the CA of the mounted tls.crt yet ({what}): waiting for the reconciler to find \
                     it in its own mount and to write it{all_the_same}"
                )
            }
            HookTrust::Unread => format!(
                "{what}: whether callers trust the mounted tls.crt is not known, and it counts from {at} on"
            ),
            HookTrust::NoHooks => format!("no hook is there: the mounted tls.crt counts from {at} on"),
            HookTrust::Carried => format!(
                "the hooks carry the CA of the mounted tls.crt, seen at {}: it counts from {at} on, when every API \
                 server has heard of it",
                rfc3339(since)
            ),
        })
    }

    /// Returns the state of the hooks, and since when. If the hooks had the CA and cannot be read now, they
    /// count as having it.
    fn wait(&mut self, leaf: &Certificate, seen: HookTrust, now: SystemTime) -> (HookTrust, SystemTime) {
        let before = self.waiting.take().filter(|it| it.leaf == *leaf);
        let was = before.as_ref().map(|it| it.seen);
        let seen = if (was, seen) == (Some(HookTrust::Carried), HookTrust::Unread) {
            HookTrust::Carried
        } else {
            seen
        };
        // If the clock was set back, the wait starts again.
        let since = before.filter(|it| it.seen == seen && it.since <= now).map_or(now, |it| it.since);
        self.has_lacked |= seen == HookTrust::Lacking;
        self.waiting = Some(Waiting { leaf: leaf.clone(), seen, since });
        (seen, since)
    }

    /// Names the hooks whose callers would refuse the leaf; empty if there is none.
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

/// Returns the distinct bundles: usually all hooks have the same.
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
