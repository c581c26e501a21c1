//! The secrets of one run: a one-time token for the browser, a session cookie, and a bearer token for curl.

use std::{
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};

/// How long the one-time token is valid.
pub(super) const TOKEN_LIFE: Duration = Duration::from_secs(60);
/// 128 bits cannot be guessed.
const BYTES: usize = 16;

/// The operating system has no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system returned no random bytes for the tokens")]
pub struct NoRandomness;

/// The secrets of one run. `Entry` has no `Debug`, so its secrets cannot reach a formatter.
pub(super) struct Entry {
    bearer: String,
    cookie: String,
    once: Mutex<Option<Once>>,
}

struct Once {
    token: String,
    until: Instant,
}

/// The secrets that a new run prints.
pub(super) struct Printed {
    /// The token for the browser, valid once within [`TOKEN_LIFE`].
    pub token: String,
    /// The token for `Authorization: Bearer`, valid until the run ends.
    pub bearer: String,
}

impl Entry {
    /// Creates new secrets, and returns the secrets to print.
    ///
    /// # Errors
    /// The operating system has no random bytes.
    pub(super) fn new(now: Instant) -> Result<(Self, Printed), NoRandomness> {
        let (bearer, token) = (random()?, random()?);
        let printed = Printed { token: token.clone(), bearer: bearer.clone() };
        let once = Mutex::new(Some(Once { token, until: now + TOKEN_LIFE }));
        Ok((Self { bearer, cookie: random()?, once }, printed))
    }

    /// Exchanges the one-time token for the cookie. The token is valid only once.
    pub(super) fn redeem(&self, token: &str, now: Instant) -> Option<&str> {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        let open = once.take_if(|once| now >= once.until || is_same(&once.token, token))?;
        (now < open.until).then_some(&self.cookie)
    }

    /// Whether this is the cookie of this run.
    pub(super) fn knows_cookie(&self, value: &str) -> bool {
        is_same(&self.cookie, value)
    }

    /// Whether this is the bearer token of this run.
    pub(super) fn knows_bearer(&self, value: &str) -> bool {
        is_same(&self.bearer, value)
    }
}

/// Compares digests, so that the time it takes reveals nothing about the secret.
fn is_same(ours: &str, theirs: &str) -> bool {
    digest(&SHA256, ours.as_bytes()).as_ref() == digest(&SHA256, theirs.as_bytes()).as_ref()
}

/// Random bytes in hexadecimal.
pub(super) fn random() -> Result<String, NoRandomness> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_once_and_only_for_a_minute() {
        let now = Instant::now();
        let (entry, printed) = Entry::new(now).unwrap();
        assert!(entry.redeem("guessed", now).is_none());
        let cookie = entry.redeem(&printed.token, now + TOKEN_LIFE / 2).unwrap().to_owned();
        assert!(entry.knows_cookie(&cookie) && !entry.knows_cookie(&printed.token));
        assert!(entry.redeem(&printed.token, now).is_none(), "taken twice");

        let (late, printed) = Entry::new(now).unwrap();
        assert!(late.redeem(&printed.token, now + TOKEN_LIFE).is_none());
        assert!(late.redeem(&printed.token, now).is_none(), "what has expired does not come back");
    }

    #[test]
    fn each_run_has_secrets_of_its_own() {
        let now = Instant::now();
        let ((entry, printed), (_, other)) = (Entry::new(now).unwrap(), Entry::new(now).unwrap());
        assert!(entry.knows_bearer(&printed.bearer));
        for foreign in [&other.bearer, &printed.token, "", "Bearer"] {
            assert!(!entry.knows_bearer(foreign) && !entry.knows_cookie(foreign));
        }
    }
}
