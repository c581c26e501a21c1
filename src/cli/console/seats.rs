//! The seats of callers who each bring a token: one a token, few at a time, and none for a token that the API server has not taken.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use http::StatusCode;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    problem::Problem,
    refused::Refused,
    seat::Seat,
    site::Site,
    token::{Token, TokenId},
};
use crate::{
    access::CallerAuthorizer, act::as_caller::with_token, cli::operator::Installed, cluster::ApiServer,
};

/// How many callers have a seat.
const SEATS: usize = 20;
/// How long a seat is kept after its last use. It has the client with the token, and a survey of the last seconds.
const KEPT: Duration = Duration::from_secs(60);
/// How many unknown tokens the API server is asked about at once: whoever sends nonsense takes no place of others.
const ASKED_AT_ONCE: usize = 8;
/// How many surveys are taken at once, of all callers: each is as large as what its caller may see.
const SURVEYS_AT_ONCE: usize = 4;
/// The API server's words for a token that it does not take.
const NOT_TAKEN: &str =
    "the API server does not take this token: it has ended, was withdrawn, or is of another cluster";
/// Where objects without a namespace are meant to be, for people.
const NO_HOME: &str = "default";
/// The cluster in words.
const HERE: &str = "this cluster";

/// What every seat is made from, and those that are taken.
pub(super) struct Seats {
    server: ApiServer,
    installed: Installed,
    site: Site,
    taken: Mutex<BTreeMap<TokenId, Taken>>,
    refused: Arc<Refused>,
    asking: Semaphore,
    surveying: Arc<Semaphore>,
    /// When the console ends, and streams with it.
    ended: CancellationToken,
}

struct Taken {
    seat: Arc<Seat>,
    last: Instant,
}

impl Taken {
    /// Whether a request or a stream of its caller is under way.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.seat) > 1
    }
}

impl Seats {
    /// Seats at this API server. Streams end with `ended`.
    pub(super) fn new(server: ApiServer, installed: Installed, site: Site, ended: CancellationToken) -> Self {
        Self {
            server,
            installed,
            site,
            taken: Mutex::default(),
            refused: Arc::default(),
            asking: Semaphore::new(ASKED_AT_ONCE),
            surveying: Arc::new(Semaphore::new(SURVEYS_AT_ONCE)),
            ended,
        }
    }

    /// The seat of whoever has this token.
    ///
    /// # Errors
    /// 401: the API server does not take it. 503: too many have a seat, or ask for one.
    pub(super) async fn of(&self, token: &Token) -> Result<Arc<Seat>, Problem> {
        let id = token.id();
        if self.refused.holds(&id, Instant::now()) {
            self.taken().remove(&id);
            return Err(not_taken());
        }
        if let Some(taken) = self.taken().get_mut(&id) {
            taken.last = Instant::now();
            return Ok(taken.seat.clone());
        }
        let home = self.home(token).await?;
        let seat = Arc::new(self.seat(token, &home)?);
        self.take(id, seat)
    }

    /// Gives up what was not used for a minute, and surveys of before.
    pub(super) fn sweep(&self, now: Instant) {
        let mut taken = self.taken();
        taken.retain(|_, taken| taken.is_in_use() || now.saturating_duration_since(taken.last) < KEPT);
        for Taken { seat, .. } in taken.values() {
            if let Ok(mut surveys) = seat.surveys.try_lock() {
                surveys.forget_old(now);
            }
        }
    }

    /// Asks the API server who has this token, and so whether it takes it. The namespace of a ServiceAccount is its home.
    async fn home(&self, token: &Token) -> Result<String, Problem> {
        let Ok(_turn) = self.asking.try_acquire() else {
            return Err(crowded("many unknown tokens are being asked about"));
        };
        let asked = CallerAuthorizer::new(self.seat(token, NO_HOME)?.client).await;
        match asked {
            Ok(known) => {
                let account = known.caller().user.strip_prefix("system:serviceaccount:").map(str::to_owned);
                let namespace = account.as_deref().and_then(|account| account.split(':').next());
                Ok(namespace.unwrap_or(NO_HOME).to_owned())
            }
            Err(error) => match Problem::of(&error) {
                problem if problem.code() == StatusCode::UNAUTHORIZED => Err(not_taken()),
                // It is taken, by a cluster where people may not ask who they are.
                problem if problem.code() == StatusCode::FORBIDDEN => Ok(NO_HOME.to_owned()),
                problem => Err(problem),
            },
        }
    }

    fn seat(&self, token: &Token, home: &str) -> Result<Seat, Problem> {
        let (refused, id) = (self.refused.clone(), token.id());
        let heard = move |code| {
            if code == StatusCode::UNAUTHORIZED {
                refused.note(id, Instant::now());
            }
        };
        let clients = with_token(&self.server, (token.secret(), home), heard);
        let clients = clients.map_err(|error| Problem::of(&error))?;
        Ok(Seat {
            site: self.site.clone(),
            surveying: self.surveying.clone(),
            ended: self.ended.clone(),
            ..Seat::new(clients, self.installed.clone(), HERE.to_owned())
        })
    }

    /// Keeps a seat. Where all are taken, whoever has been away longest gives theirs up.
    fn take(&self, id: TokenId, seat: Arc<Seat>) -> Result<Arc<Seat>, Problem> {
        let mut taken = self.taken();
        if taken.len() >= SEATS && !taken.contains_key(&id) {
            let idle = taken.iter().filter(|(_, taken)| !taken.is_in_use());
            let longest = idle.min_by_key(|(_, taken)| taken.last).map(|(id, _)| *id);
            let longest =
                longest.ok_or_else(|| crowded("as many people as this console serves are at it"))?;
            taken.remove(&longest);
        }
        let kept = taken.entry(id).or_insert_with(|| Taken { seat, last: Instant::now() });
        Ok(kept.seat.clone())
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, BTreeMap<TokenId, Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_taken() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, NOT_TAKEN)
}

fn crowded(what: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{what}: try again in a moment"))
}
