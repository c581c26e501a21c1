//! The seats of callers in the cluster: one per token, few at a time, and only for tokens that the API server
//! accepts.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use copyrator_cli::installed::Installed;
use http::StatusCode;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    problem::Problem,
    refused::Refused,
    seat::Seat,
    site::Site,
    surveys::Room,
    token::{Token, TokenId},
};
use crate::{access::CallerAuthorizer, as_caller::with_token, connect::ApiServer};

/// The maximum number of seats.
const SEATS: usize = 20;
/// How long a seat is kept after its last use. A seat holds the client with the token, and cached surveys.
const KEPT: Duration = Duration::from_secs(60);
/// How many unknown tokens the API server checks at once.
const ASKED_AT_ONCE: usize = 8;
/// How long an unknown token waits for its check, so that a caller with invalid tokens does not keep other
/// callers out.
const TURN: Duration = Duration::from_secs(5);
/// How many surveys run at once, over all callers. The size of a survey grows with the objects that its
/// caller may see.
const SURVEYS_AT_ONCE: usize = 2;
/// The message for a token that the API server does not accept.
const NOT_TAKEN: &str =
    "the API server does not accept this token: it has expired, was revoked, or is for another cluster";
/// The default namespace of users, who have no namespace of their own.
const NO_HOME: &str = "default";
/// The cluster in words.
const HERE: &str = "this cluster";

/// All seats, and the parts that new seats are made from.
pub(super) struct Seats {
    server: ApiServer,
    installed: Installed,
    site: Site,
    occupied: Mutex<BTreeMap<TokenId, OccupiedSeat>>,
    refused: Arc<Refused>,
    asking: Semaphore,
    room: Room,
    /// Cancelled when the console ends, which also ends all streams.
    ended: CancellationToken,
}

/// A seat with its holder, and when it was last used.
struct OccupiedSeat {
    seat: Arc<Seat>,
    holder: Holder,
    last: Instant,
}

/// The user, or all ServiceAccounts of a namespace, for which seats are counted together. A user who may
/// create tokens in a namespace can get any number of tokens, for accounts of their own making.
type Holder = Arc<str>;

/// The user to whom a token belongs, according to the API server.
struct Known {
    holder: Holder,
    /// The default namespace for objects without a namespace.
    home: String,
}

impl Known {
    /// Derives holder and default namespace from the user's name, which is empty if the API server does not
    /// report the name.
    fn of(user: &str) -> Self {
        let account = user.strip_prefix("system:serviceaccount:");
        match account.and_then(|account| account.split_once(':')) {
            Some((namespace, _)) => Self {
                holder: format!("system:serviceaccounts:{namespace}").into(),
                home: namespace.to_owned(),
            },
            None => Self { holder: user.into(), home: NO_HOME.to_owned() },
        }
    }
}

impl OccupiedSeat {
    /// Whether a request or a stream of the seat's caller is under way.
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
            occupied: Mutex::default(),
            refused: Arc::default(),
            asking: Semaphore::new(ASKED_AT_ONCE),
            room: Room::new(SURVEYS_AT_ONCE),
            ended,
        }
    }

    /// The seat of the caller with this token.
    ///
    /// # Errors
    /// 401: the API server does not accept the token. 503: too many callers have a seat, or request a seat.
    pub(super) async fn of(&self, token: &Token) -> Result<Arc<Seat>, Problem> {
        let id = token.id();
        if self.refused.holds(&id, Instant::now()) {
            self.occupied().remove(&id);
            return Err(not_taken());
        }
        if let Some(occupied) = self.occupied().get_mut(&id) {
            occupied.last = Instant::now();
            return Ok(occupied.seat.clone());
        }
        let known = self.known(token).await?;
        let seat = self.seat(token, &known.home)?;
        self.take(id, seat, known.holder)
    }

    /// Drops seats that were unused for a minute, and old surveys.
    pub(super) fn sweep(&self, now: Instant) {
        let mut occupied = self.occupied();
        occupied.retain(|_, one| one.is_in_use() || now.saturating_duration_since(one.last) < KEPT);
        for OccupiedSeat { seat, .. } in occupied.values() {
            seat.seen_lately().forget_old(now);
        }
    }

    /// Asks the API server whose token this is, and so whether the token is valid. The home of a
    /// ServiceAccount is its namespace.
    async fn known(&self, token: &Token) -> Result<Known, Problem> {
        let Ok(_turn) = tokio::time::timeout(TURN, self.asking.acquire()).await else {
            return Err(crowded("the console is already checking many unknown tokens"));
        };
        // A concurrent request may have found the token refused meanwhile.
        if self.refused.holds(&token.id(), Instant::now()) {
            return Err(not_taken());
        }
        let asked = CallerAuthorizer::new(self.seat(token, NO_HOME)?.client).await;
        match asked {
            Ok(known) => Ok(Known::of(&known.caller().user)),
            Err(error) => match Problem::of(&error) {
                problem if problem.code() == StatusCode::UNAUTHORIZED => Err(not_taken()),
                // The token is valid, but this cluster does not let users ask who they are.
                problem if problem.code() == StatusCode::FORBIDDEN => Ok(Known::of("")),
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
        let clients = with_token(&self.server, token.secret(), home, heard);
        let clients = clients.map_err(|error| Problem::of(&error))?;
        Ok(Seat {
            site: self.site.clone(),
            room: self.room.clone(),
            ended: self.ended.child_token(),
            ..Seat::new(clients, self.installed.clone(), HERE.to_owned())
        })
    }

    /// Stores a seat. If no place is free, evicts the seat that was idle for longest. If all seats are in
    /// use, evicts a seat of the holder with the most seats, if that holder has at least two more seats than
    /// the newcomer.
    fn take(&self, id: TokenId, mut seat: Seat, holder: Holder) -> Result<Arc<Seat>, Problem> {
        let mut occupied = self.occupied();
        if let Some(other) = occupied.values().find(|one| one.holder == holder) {
            seat.places = other.seat.places.clone();
            seat.turn = other.seat.turn.clone();
        }
        if occupied.len() >= SEATS && !occupied.contains_key(&id) {
            let leaving =
                leaving(&occupied, &holder).ok_or_else(|| crowded("too many people use this console now"))?;
            if let Some(left) = occupied.remove(&leaving) {
                left.seat.ended.cancel();
            }
        }
        let last = Instant::now();
        let kept = occupied.entry(id).or_insert_with(|| OccupiedSeat { seat: Arc::new(seat), holder, last });
        Ok(kept.seat.clone())
    }

    fn occupied(&self) -> std::sync::MutexGuard<'_, BTreeMap<TokenId, OccupiedSeat>> {
        self.occupied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The seat to evict for a new seat of this holder.
fn leaving(occupied: &BTreeMap<TokenId, OccupiedSeat>, newcomer: &Holder) -> Option<TokenId> {
    let idle = occupied.iter().filter(|(_, one)| !one.is_in_use());
    if let Some((id, _)) = idle.min_by_key(|(_, one)| one.last) {
        return Some(*id);
    }
    let mut held: BTreeMap<&Holder, usize> = BTreeMap::new();
    occupied.values().for_each(|one| *held.entry(&one.holder).or_default() += 1);
    let own = held.get(newcomer).copied().unwrap_or_default();
    let (most, number) = held.into_iter().max_by_key(|(_, number)| *number)?;
    let of_most = occupied.iter().filter(|(_, one)| one.holder == *most && number > own + 1);
    of_most.min_by_key(|(_, one)| one.last).map(|(id, _)| *id)
}

fn not_taken() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, NOT_TAKEN)
}

fn crowded(what: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{what}: try again in a moment"))
}
