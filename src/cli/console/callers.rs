//! Who asks, and with whose rights the answer is made. This is all that differs between a console on somebody's machine and one in
//! the cluster: behind it, routes, pages and bounds are the same.

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

/// Those who may come in.
pub(super) enum Callers {
    /// One caller: the user who started this run, with the credentials of their kubeconfig.
    One {
        /// The secrets of the run.
        entry: Entry,
        seat: Arc<Seat>,
    },
    /// Everybody who has a token of the cluster.
    Tokens {
        /// The key of the cookies.
        seal: Box<Seal>,
        seats: Arc<Seats>,
    },
}

impl Callers {
    /// What callers come in with.
    fn session(&self) -> Session {
        match self {
            Self::One { .. } => Session::Run,
            Self::Tokens { .. } => Session::Token,
        }
    }

    /// The seat of the caller who has sent this.
    ///
    /// # Errors
    /// 401: nobody is known by what it brings. Others: it cannot be found out, or there is no seat.
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

    /// The pass for a token that somebody has typed.
    ///
    /// # Errors
    /// The token is not taken.
    pub(super) async fn log_in(&self, token: &str) -> Result<Pass, Problem> {
        match self {
            Self::One { entry, .. } => match entry.redeem(token, Instant::now()) {
                Some(cookie) => Ok(Pass { value: cookie.to_owned(), life: None }),
                None => Err(Problem::new(
                    StatusCode::FORBIDDEN,
                    "That token is not taken: it has been used, is older than a minute, or is another one. End copyrator console \
                     and start it anew for another.",
                )),
            },
            Self::Tokens { seal, seats } => {
                let none = || Problem::new(StatusCode::BAD_REQUEST, "That is not a token.");
                let token = Token::read(token).ok_or_else(none)?;
                seats.of(&token).await?;
                let pass = seal.seal(&token, SystemTime::now());
                pass.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.to_string()))
            }
        }
    }
}

/// What a request says about its caller. The cookie, which a browser sends by itself, lets nobody write.
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

/// Browsers send cookies of others along, which may have any bytes.
fn cookies(headers: &HeaderMap, session: Session) -> Vec<&str> {
    let all = headers.get_all(header::COOKIE).into_iter();
    let each = all.flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    let each = each.filter_map(|one| std::str::from_utf8(one).ok()?.trim().split_once('='));
    each.filter(|(name, _)| *name == session.cookie()).map(|(_, value)| value).collect()
}
