//! Leadership as a token that expires by itself.

use tokio::sync::watch;
use tokio::time::Instant;

use crate::act::leader::IsLeader;

/// The right to write, until a time of the monotonic clock. A process that was paused wakes up with an
/// expired token, so the token needs no revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leadership {
    /// The number of the term. Within a term, the right was valid without interruption.
    pub term: u64,
    /// When the right expires, unless the elector renews it.
    pub valid_until: Instant,
}

/// The error of a check: a different replica may be the leader, so do not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the leader")]
pub(crate) struct NotLeader;

impl Leadership {
    /// Whether the right is valid at `now`.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        now < self.valid_until
    }

    /// Checks that the right is valid now.
    ///
    /// # Errors
    /// [`NotLeader`] once it has expired.
    pub(crate) fn check(&self) -> Result<(), NotLeader> {
        if self.is_valid(Instant::now()) { Ok(()) } else { Err(NotLeader) }
    }
}

/// The latest token of an [`Elector`](super::Elector). Clones see the same token.
#[derive(Clone, Debug)]
pub(crate) struct Leader(watch::Receiver<Option<Leadership>>);

impl Leader {
    pub(super) fn channel() -> (watch::Sender<Option<Leadership>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// Returns the token if it is valid now. Check the token immediately before every write; a write must not
    /// last longer than [`WRITE_TIMEOUT`](crate::connect::WRITE_TIMEOUT).
    ///
    /// # Errors
    /// [`NotLeader`].
    pub(crate) fn check(&self) -> Result<Leadership, NotLeader> {
        // Keep the borrow until the clock is read. Without the borrow, the elector could renew the token in
        // between, and this function would return `NotLeader` although no term has ended.
        let token = self.0.borrow();
        token.as_ref().ok_or(NotLeader)?.check()?;
        token.ok_or(NotLeader)
    }

    /// Waits until this process leads; never returns if the elector ends first.
    pub(crate) async fn acquired(&self) -> Leadership {
        let mut receiver = self.0.clone();
        loop {
            if let Ok(token) = self.check() {
                return token;
            }
            if receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the term of this token has ended, by resignation or expiry. A right that is valid again
    /// afterwards belongs to a new term, since a check in between would have failed.
    pub(crate) async fn lost(&self, of: Leadership) {
        let mut receiver = self.0.clone();
        while let Some(token) = self.check().ok().filter(|token| token.term == of.term) {
            tokio::select! {
                () = tokio::time::sleep_until(token.valid_until) => {}
                gone = receiver.changed() => if gone.is_err() {
                    // The elector is gone: no renewal follows, but the token stays valid until it expires.
                    tokio::time::sleep_until(token.valid_until).await;
                }
            }
        }
    }
}

impl IsLeader for Leader {
    fn is_leader(&self) -> bool {
        self.check().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_token_expires_by_itself() {
        let now = Instant::now();
        let token = Leadership { term: 1, valid_until: now + Duration::from_secs(10) };
        assert!(token.is_valid(now + Duration::from_millis(9_999)));
        assert!(!token.is_valid(now + Duration::from_secs(10)));
    }

    #[tokio::test]
    async fn nobody_has_to_take_it_away() {
        let (sender, leader) = Leader::channel();
        assert_eq!(leader.check(), Err(NotLeader));
        let token = Leadership { term: 1, valid_until: Instant::now() + Duration::from_millis(50) };
        sender.send_replace(Some(token));
        let token = leader.acquired().await;
        leader.lost(token).await;
        assert_eq!(leader.check(), Err(NotLeader));
    }

    /// A renewal that comes too late, but before anybody has checked.
    #[tokio::test(start_paused = true)]
    async fn a_lapse_ends_a_term_however_short_it_was() {
        let (sender, leader) = Leader::channel();
        let lasting = |term| Leadership { term, valid_until: Instant::now() + Duration::from_secs(10) };
        sender.send_replace(Some(lasting(1)));
        let first = leader.acquired().await;
        sender.send_replace(Some(lasting(1)));
        let lost = leader.lost(first);
        assert!(tokio::time::timeout(Duration::from_secs(9), lost).await.is_err(), "a renewal is no end");

        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(leader.check(), Err(NotLeader));
        sender.send_replace(Some(lasting(2)));
        tokio::time::timeout(Duration::from_secs(1), leader.lost(first)).await.unwrap();
        assert_eq!(leader.acquired().await.term, 2);
    }
}
