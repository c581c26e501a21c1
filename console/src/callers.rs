//! Authentication: who the caller is, and with whose rights the console answers. A console on a user's
//! machine and a console in the cluster differ only in authentication; routes, pages and limits are the same.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use http::{HeaderMap, StatusCode, header, request::Parts};

use super::{
    entry::Entry,
    guard::is_write,
    problem::Problem,
    sealed::Seal,
    seat::Seat,
    seats::Seats,
    site::{Pass, Session},
    token::Token,
};

/// The callers that the console accepts.
pub(crate) enum Callers {
    /// One caller: the user who started this run, with the credentials of their kubeconfig.
    One {
        /// The secrets of the run.
        entry: Entry,
        seat: Arc<Seat>,
    },
    /// Everyone with a token of the cluster.
    Tokens {
        /// The key of the cookies.
        seal: Box<Seal>,
        seats: Arc<Seats>,
    },
}

impl Callers {
    /// How callers authenticate.
    fn session(&self) -> Session {
        match self {
            Self::One { .. } => Session::Run,
            Self::Tokens { .. } => Session::Token,
        }
    }

    /// Returns the seat of the caller who sent this request.
    ///
    /// # Errors
    /// 401: the request has no valid credentials. Other codes: the credentials cannot be checked, or no seat
    /// is free.
    pub(super) async fn seat(&self, head: &Parts) -> Result<Arc<Seat>, Problem> {
        let brought = Brought::of(head, self.session());
        let found = match self {
            Self::One { entry, seat } => {
                let is_known = brought.bearer.is_some_and(|value| entry.knows_bearer(value))
                    || brought.cookies.iter().any(|value| entry.knows_cookie(value));
                is_known.then(|| seat.clone())
            }
            Self::Tokens { seal, seats } => {
                let now = SystemTime::now();
                let opened = || brought.cookies.iter().find_map(|value| seal.open(value, now));
                match brought.bearer.and_then(Token::read).or_else(opened) {
                    Some(token) => Some(seats.of(&token).await?),
                    None => None,
                }
            }
        };
        found.ok_or_else(|| {
            let message = self.session().stranger(is_write(&head.method));
            Problem::new(StatusCode::UNAUTHORIZED, message)
        })
    }

    /// Exchanges a typed token for a pass.
    ///
    /// # Errors
    /// The token is not accepted.
    pub(super) async fn log_in(&self, token: &str) -> Result<Pass, Problem> {
        match self {
            Self::One { entry, .. } => match entry.redeem(token, Instant::now()) {
                Some(cookie) => Ok(Pass { value: cookie.to_owned(), life: None }),
                None => Err(Problem::new(
                    StatusCode::FORBIDDEN,
                    "This token is not valid: it was already used, is older than a minute, or is wrong. To get a new token, restart \
                     copyrator console.",
                )),
            },
            Self::Tokens { seal, seats } => {
                let none = || Problem::new(StatusCode::BAD_REQUEST, "This is not a token.");
                let token = Token::read(token).ok_or_else(none)?;
                seats.of(&token).await?;
                let pass = seal.seal(&token, SystemTime::now());
                pass.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.to_string()))
            }
        }
    }
}

/// The credentials of a request. A write ignores the cookie, since browsers send cookies by themselves.
struct Brought<'h> {
    bearer: Option<&'h str>,
    cookies: Vec<&'h str>,
}

impl<'h> Brought<'h> {
    fn of(head: &'h Parts, session: Session) -> Self {
        let bearer = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let cookies = if is_write(&head.method) { Vec::new() } else { cookies(&head.headers, session) };
        Self { bearer: bearer.and_then(|value| value.strip_prefix("Bearer ")), cookies }
    }
}

/// The values of the session cookie. Browsers also send cookies of other programs, which may have any bytes.
fn cookies(headers: &HeaderMap, session: Session) -> Vec<&str> {
    let all = headers.get_all(header::COOKIE).into_iter();
    let each = all.flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    let each = each.filter_map(|one| std::str::from_utf8(one).ok()?.trim().split_once('='));
    each.filter(|(name, _)| *name == session.cookie()).map(|(_, value)| value).collect()
}
