//! Readiness: named conditions that must hold before we can answer correctly, and remarks that do not affect
//! readiness.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use tokio_util::sync::CancellationToken;

/// A check whether a condition holds now. `Err` has the reason why the condition does not hold.
type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Named conditions that must all hold; not draining is one condition. Clones share the conditions.
#[derive(Clone)]
pub struct Readiness {
    missing: Arc<RwLock<BTreeMap<&'static str, String>>>,
    remarks: Arc<RwLock<BTreeMap<&'static str, String>>>,
    checks: Arc<RwLock<Vec<(&'static str, Check)>>>,
    drain: CancellationToken,
}

/// One named condition of a [`Readiness`]. Clones set the same condition.
#[derive(Clone, Debug)]
pub struct Condition {
    name: &'static str,
    register: Arc<RwLock<BTreeMap<&'static str, String>>>,
}

impl Readiness {
    /// Creates a readiness without conditions, which is ready until `drain` is cancelled.
    pub fn new(drain: CancellationToken) -> Self {
        Self { missing: Arc::default(), remarks: Arc::default(), checks: Arc::default(), drain }
    }

    /// Adds a condition that each request evaluates: for a condition that can end while the task that
    /// maintains it hangs.
    pub fn check(&self, name: &'static str, holds: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.checks.write().unwrap_or_else(PoisonError::into_inner).push((name, Arc::new(holds)));
    }

    /// Adds a condition that does not hold yet.
    pub fn require(&self, name: &'static str) -> Condition {
        let condition = Condition { name, register: self.missing.clone() };
        condition.missing("not yet");
        condition
    }

    /// Adds a remark, which `/readyz` shows but which does not affect readiness: for conditions that can only
    /// hold once we are ready.
    pub fn remark(&self, name: &'static str) -> Condition {
        Condition { name, register: self.remarks.clone() }
    }

    /// Whether every condition holds and no shutdown has begun.
    pub fn ready(&self) -> bool {
        self.missing().is_empty()
    }

    /// The conditions that do not hold, with reasons, by name.
    pub(crate) fn missing(&self) -> BTreeMap<&'static str, String> {
        // A map of texts is always whole, so a panic elsewhere cannot have left it half-written.
        let mut missing = self.missing.read().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, check) in &*self.checks.read().unwrap_or_else(PoisonError::into_inner) {
            if let Err(reason) = check() {
                missing.entry(name).or_insert(reason);
            }
        }
        if self.drain.is_cancelled() {
            missing.insert("drain", "shutting down".to_owned());
        }
        missing
    }
}

impl Condition {
    /// Notes that the condition holds. Returns whether the condition did not hold before, so that the caller
    /// logs the change once.
    pub fn holds(&self) -> bool {
        self.register.write().unwrap_or_else(PoisonError::into_inner).remove(self.name).is_some()
    }

    /// Notes that the condition does not hold, because of `reason`. Anybody can read the reason, so it must
    /// not contain Secret values. Returns whether the reason is new.
    pub fn missing(&self, reason: impl Into<String>) -> bool {
        let reason = reason.into();
        let mut register = self.register.write().unwrap_or_else(PoisonError::into_inner);
        register.insert(self.name, reason.clone()).as_ref() != Some(&reason)
    }

    /// Notes that the condition holds if `result` is `Ok`; otherwise, notes the error as the reason why the
    /// condition does not hold.
    pub fn set<E: fmt::Display>(&self, result: Result<(), E>) {
        match result {
            Ok(()) => self.holds(),
            Err(reason) => self.missing(reason.to_string()),
        };
    }
}

impl fmt::Display for Readiness {
    /// `ready`, or one line for each condition that does not hold; the remarks follow.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.missing();
        if missing.is_empty() {
            writeln!(f, "ready")?;
        }
        let remarks = self.remarks.read().unwrap_or_else(PoisonError::into_inner).clone();
        missing.iter().chain(&remarks).try_for_each(|(name, reason)| writeln!(f, "{name}: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn every_condition_must_hold() {
        let drain = CancellationToken::new();
        let readiness = Readiness::new(drain.clone());
        let stores = readiness.require("stores");
        let certificate = readiness.require("certificate");
        stores.holds();
        certificate.missing("expired");
        assert_eq!(readiness.to_string(), "certificate: expired\n");
        certificate.set(Ok::<(), String>(()));
        assert_eq!((readiness.ready(), readiness.to_string().as_str()), (true, "ready\n"));
        drain.cancel();
        assert_eq!(readiness.to_string(), "drain: shutting down\n");
    }

    /// A CA that cannot be read blocks the task that renews the certificate, and that task does not notice
    /// that a day passes.
    #[test]
    fn a_check_is_made_whenever_somebody_asks() {
        let (readiness, ended) = (Readiness::new(CancellationToken::new()), Arc::new(AtomicBool::new(false)));
        let certificate = readiness.require("certificate");
        certificate.holds();
        let seen = ended.clone();
        let has_ended =
            move || if seen.load(Ordering::Relaxed) { Err("it has expired".to_owned()) } else { Ok(()) };
        readiness.check("certificate", has_ended);
        assert!(readiness.ready());
        ended.store(true, Ordering::Relaxed);
        assert_eq!(
            (readiness.ready(), readiness.to_string().as_str()),
            (false, "certificate: it has expired\n")
        );
        certificate.missing("the reconciler has not created a CA yet");
        assert_eq!(readiness.to_string(), "certificate: the reconciler has not created a CA yet\n");
    }

    #[test]
    fn a_remark_keeps_nobody_waiting() {
        let readiness = Readiness::new(CancellationToken::new());
        let hooks = readiness.remark("hooks");
        assert!(hooks.missing("no call has arrived") && !hooks.missing("no call has arrived"));
        assert_eq!(
            (readiness.ready(), readiness.to_string().as_str()),
            (true, "ready\nhooks: no call has arrived\n")
        );
        assert!(hooks.holds() && !hooks.holds());
        assert_eq!(readiness.to_string(), "ready\n");
    }
}
