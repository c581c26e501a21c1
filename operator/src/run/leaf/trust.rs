//! Decides whether callers trust a mounted leaf: the leaf's own `ca.crt` and the CA bundle of every hook must
//! vouch for the leaf. The reconciler adds a CA that the hooks lack; the reconciler's volume may change some
//! minutes after the webhook's volume.

use std::time::{Duration, SystemTime};

use copyrator_certs::{Certificate, validity::rfc3339};

use super::source::{Carrier, Carriers};
use crate::serve::mounted::{self, Mounted};

/// Number of propagation times that a process waits if it writes the hooks itself, or may not read the hooks.
const BY_ITSELF: u32 = 3;

/// The state of trust in mounted leaves.
pub(super) struct Trust {
    /// The name that callers look for in a leaf.
    name: String,
    propagation: Duration,
    /// Whether this process also writes the hooks, once it leads.
    writes_hooks: bool,
    /// The bundles by which callers trust the leaf in use, each once; empty before a leaf exists.
    settled: Vec<Vec<Certificate>>,
    /// The mounted authorities by which the leaf in use was judged: if the authorities change, the hooks are
    /// read again.
    authorities: Vec<Certificate>,
    /// Since when this process cannot know the bundles.
    unknowable_since: Option<SystemTime>,
    /// When the hooks were first read; `None` before the first read.
    first_look: Option<SystemTime>,
    /// The leaf whose CA all hooks carried when they were last read.
    carried: Option<Certificate>,
}

impl Trust {
    /// Creates a trust for leaves with this `name`. `writes_hooks`: whether this process writes the hooks
    /// once it leads.
    pub(super) fn new(name: String, propagation: Duration, writes_hooks: bool) -> Self {
        Self {
            name,
            propagation,
            writes_hooks,
            settled: Vec::new(),
            authorities: Vec::new(),
            unknowable_since: None,
            first_look: None,
            carried: None,
        }
    }

    /// Whether callers are known to trust this leaf, so that no bundles need to be read.
    pub(super) fn is_settled(&self, mounted: &Mounted, now: SystemTime) -> bool {
        !self.settled.is_empty()
            && self.authorities == mounted.authorities
            && self.settled.iter().all(|bundle| self.accepts(bundle, mounted, now).is_ok())
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
        self.accepts(&mounted.authorities, mounted, now).map_err(|why| {
            let name = &self.name;
            format!("the mounted ca.crt does not verify the mounted tls.crt for `{name}`: {why}")
        })?;
        if self.is_settled(mounted, now) {
            return Ok(());
        }
        let unknowable_since = self.unknowable_since.take().filter(|since| *since <= now);
        self.settled = match carriers {
            Carriers::Unread(why) => {
                return Err(format!("{why}: cannot check whether callers trust the mounted tls.crt"));
            }
            Carriers::Hooks(hooks) if !hooks.is_empty() => self.bundles(hooks, mounted, now)?,
            // The reconciler has written no hook yet.
            Carriers::Hooks(_) => vec![mounted.authorities.clone()],
            Carriers::Unknowable => {
                // An API server refuses every user for some seconds after its start, so one refusal proves nothing.
                let since = unknowable_since.unwrap_or(now);
                self.unknowable_since = Some(since);
                let due = since + self.propagation * BY_ITSELF;
                if now < due {
                    let at = rfc3339(due);
                    return Err(format!(
                        "this process may not read the hooks: it treats the mounted tls.crt as trusted from {at} on"
                    ));
                }
                vec![mounted.authorities.clone()]
            }
        };
        self.authorities.clone_from(&mounted.authorities);
        Ok(())
    }

    /// Returns the bundles of the hooks, each once, if all of them vouch for the leaf.
    fn bundles(
        &mut self,
        hooks: &[Carrier],
        mounted: &Mounted,
        now: SystemTime,
    ) -> Result<Vec<Vec<Certificate>>, String> {
        let is_first = self.first_look.is_none();
        // If the clock was set back, the wait starts again.
        let first_look = self.first_look.filter(|first| *first <= now).unwrap_or(now);
        self.first_look = Some(first_look);
        let due = first_look + self.propagation * BY_ITSELF;
        let was_carried = self.carried.take();
        if let Some(lacking) = self.lacking(hooks, mounted, now) {
            // Without a bound, a rollout would deadlock: the rollout waits until this process is ready, and
            // this process would wait for a leader that only the rollout ends.
            let is_bounded = self.writes_hooks && self.settled.is_empty();
            if is_bounded && due <= now {
                return Ok(vec![mounted.authorities.clone()]);
            }
            let bound = match is_bounded {
                true => format!(
                    "; otherwise this process treats the certificate as trusted from {} on",
                    rfc3339(due)
                ),
                false => String::new(),
            };
            return Err(format!(
                "the caBundle of the hooks lacks the CA of the mounted tls.crt ({lacking}): waiting for the reconciler to write it{bound}"
            ));
        }
        // At the first look the hooks have probably had the CA for long. Later, the reconciler may have
        // written the CA a moment ago, and an API server needs a moment to notice.
        let leaf = mounted.chain.first();
        if is_first || was_carried.as_ref() == leaf {
            let mut bundles: Vec<_> = hooks.iter().map(|hook| hook.bundle.clone()).collect();
            bundles.dedup();
            return Ok(bundles);
        }
        self.carried = leaf.cloned();
        Err("the hooks have the CA of the mounted tls.crt: the process uses the certificate after the next check".into())
    }

    /// Names the hooks whose callers would refuse the leaf; `None` without such hooks.
    fn lacking(&self, hooks: &[Carrier], mounted: &Mounted, now: SystemTime) -> Option<String> {
        let is_lacking = |it: &&Carrier| self.accepts(&it.bundle, mounted, now).is_err();
        let mut names = hooks.iter().filter(is_lacking).map(|it| it.hook.as_str());
        match (names.next()?, names.count()) {
            (one, 0) => Some(one.to_owned()),
            (one, more) => Some(format!("{one} and {more} more")),
        }
    }

    fn accepts(&self, bundle: &[Certificate], mounted: &Mounted, now: SystemTime) -> Result<(), String> {
        mounted::accepts(bundle, &mounted.chain, &self.name, now)
    }
}

#[cfg(test)]
mod tests;
