//! Leadership as a token that expires by itself.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The right to write, until a moment of the monotonic clock. A process that was paused wakes up with an
/// expired token; nobody has to take it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// From here on the right is gone, unless a renewal came in between.
    pub valid_until: Instant,
}

/// Somebody else may be leading: do not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the leader")]
pub struct NotLeader;

impl Leadership {
    /// Whether the right still holds at `now`.
    pub fn is_valid(&self, now: Instant) -> bool {
        now < self.valid_until
    }

    /// Whether the right still holds now.
    ///
    /// # Errors
    /// [`NotLeader`] once it has expired.
    pub fn check(&self) -> Result<(), NotLeader> {
        if self.is_valid(Instant::now()) { Ok(()) } else { Err(NotLeader) }
    }

    /// How long the right holds from `now` on.
    pub fn left(&self, now: Instant) -> Duration {
        self.valid_until.saturating_duration_since(now)
    }
}

/// The newest token of an [`Elector`](super::Elector). Clones see the same.
#[derive(Clone, Debug)]
pub struct Leader(watch::Receiver<Option<Leadership>>);

impl Leader {
    pub(super) fn channel() -> (watch::Sender<Option<Leadership>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// The token, if it is valid now. Ask immediately before every write, and let no write take longer
    /// than [`Terms::write_timeout`](super::Terms::write_timeout).
    ///
    /// # Errors
    /// [`NotLeader`].
    pub fn check(&self) -> Result<Leadership, NotLeader> {
        let token = (*self.0.borrow()).ok_or(NotLeader)?;
        token.check()?;
        Ok(token)
    }

    /// Ends when we lead. Never, if the elector ends without.
    pub async fn acquired(&self) -> Leadership {
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

    /// Ends when we do not lead: at once if we do not now, else when the token is given up or expires.
    pub async fn lost(&self) {
        let mut receiver = self.0.clone();
        while let Ok(token) = self.check() {
            tokio::select! {
                () = tokio::time::sleep_until(token.valid_until) => {}
                gone = receiver.changed() => if gone.is_err() {
                    // No renewal will come any more; what is left of the token still counts.
                    tokio::time::sleep_until(token.valid_until).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_expires_by_itself() {
        let now = Instant::now();
        let token = Leadership { valid_until: now + Duration::from_secs(10) };
        assert!(token.is_valid(now + Duration::from_millis(9_999)));
        assert!(!token.is_valid(now + Duration::from_secs(10)));
        assert_eq!(token.left(now + Duration::from_secs(11)), Duration::ZERO);
    }

    #[tokio::test]
    async fn nobody_has_to_take_it_away() {
        let (sender, leader) = Leader::channel();
        assert_eq!(leader.check(), Err(NotLeader));
        sender.send_replace(Some(Leadership { valid_until: Instant::now() + Duration::from_millis(50) }));
        leader.acquired().await;
        leader.lost().await;
        assert_eq!(leader.check(), Err(NotLeader));
    }
}
