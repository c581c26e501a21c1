//! Judges reviews: a short review on the thread that read it, if that does not delay other requests; all
//! other reviews on blocking threads.

use std::{
    sync::{Arc, PoisonError, RwLockReadGuard},
    time::Duration,
};

use axum::body::Bytes;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{AdmitState, fault::HandleError, shedding::Permit};
use crate::{
    admit::{
        decide::{Case, DecideError, Decision, Purpose, Snapshot, Unread, Verdict, WriteCase, read, unread},
        decode::{DecodeError, Review, decode, head_of},
    },
    api::{GROUP, WhileInUse},
    model::{PolicyFacts, World},
};

/// Longest time for a new namespace to reach our own watch.
const NAMESPACE_LAG: Duration = Duration::from_millis(250);
/// Longest wait of a review for a turn of its namespace.
const TURN_WITHIN: Duration = Duration::from_secs(1);
/// The pause between tries; each try reads the whole review again.
const NAMESPACE_STEP: Duration = Duration::from_millis(50);
/// The longest review for the reading thread, in bytes: decoding this much takes some 50 µs.
const SHORT: usize = 16 << 10;

/// A decision about a review, with labels for the metrics.
pub(super) struct Decided {
    pub(super) uid: String,
    pub(super) operation: &'static str,
    pub(super) kind: &'static str,
    pub(super) decision: Result<Decision, DecideError>,
}

/// Decides about a review. If our watch has not reported the review's namespace yet, the decision waits a
/// little.
pub(super) async fn decided(
    state: &Arc<AdmitState>,
    purpose: Purpose,
    bytes: Bytes,
    place: &Arc<Permit>,
) -> Result<Decided, HandleError> {
    let until = Instant::now() + NAMESPACE_LAG;
    // Passing a review to a second thread and back takes longer than judging most reviews.
    if bytes.len() <= SHORT
        && is_brief(&purpose)
        && let Ok(decided) = briefly(state, &purpose, &bytes)
        && !matches!(decided.decision, Err(DecideError::UnknownNamespace))
    {
        return Ok(decided);
    }
    let turn = state.shedding.turn_of(&namespace_of(&bytes), Instant::now() + TURN_WITHIN).await;
    let turn = match turn {
        Some(turn) => Arc::new(turn),
        // Without a verdict, `failurePolicy: Ignore` would let the write pass. A namespace must not bypass
        // policies by its own load.
        None => return undecoded(state, &purpose, &bytes, Unread::NoTurn),
    };
    loop {
        let (state, purpose, bytes, place) = (state.clone(), purpose.clone(), bytes.clone(), place.clone());
        let turn = turn.clone();
        // Parsing and judging can take long and must not block other requests. If the caller gives up, the
        // work still runs to its end, and keeps its permit until its end.
        let work = move || {
            let _turn = turn;
            at_length(&state, &purpose, &bytes, &place)
        };
        let decided = tokio::task::spawn_blocking(work).await.map_err(|_| HandleError::Panic)??;
        match decided.decision {
            Err(DecideError::UnknownNamespace) if Instant::now() < until => {
                tokio::time::sleep(NAMESPACE_STEP).await
            }
            _ => return Ok(decided),
        }
    }
}

/// Whether policies judge reviews of this purpose.
pub(super) fn has_policies(purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::Policies | Purpose::All)
}

/// Decides about a review that was not read completely: its beginning is enough for policies to refuse the
/// write.
pub(super) fn undecoded(
    state: &AdmitState,
    purpose: &Purpose,
    begin: &[u8],
    why: Unread,
) -> Result<Decided, HandleError> {
    if !has_policies(purpose) {
        return Err(why.into());
    }
    let head = head_of(begin).ok_or(DecodeError::TooLarge)?;
    let review = decode(&head)?;
    // Policies do not judge our own kinds; the verdict on an object of our own kinds needs the whole object.
    if *purpose == Purpose::All && review.kind.group == GROUP {
        return Err(why.into());
    }
    let world = state.world.read().unwrap_or_else(PoisonError::into_inner);
    let decision = unread(&review, &state.parties, &world, why).map(Decision::Now);
    drop(world);
    Ok(decided_of(review, decision))
}

/// Returns the namespace of a review, from its beginning; empty if the beginning has none.
pub(super) fn namespace_of(begin: &[u8]) -> String {
    let head = head_of(begin).unwrap_or_default();
    decode(&head).map(|review| review.namespace.into_owned()).unwrap_or_default()
}

fn decided_of(review: Review<'_>, decision: Result<Decision, DecideError>) -> Decided {
    Decided {
        operation: review.operation.name(),
        kind: known_kind(&review),
        uid: review.uid.into_owned(),
        decision,
    }
}

/// Whether reviews of this purpose are mostly decided quickly. Our own kinds have expressions to compile, and
/// warnings count the objects that a change affects.
fn is_brief(purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::Policies | Purpose::Defaults | Purpose::Author)
}

/// Whether a policy counts affected objects or uses of removed content; each count runs under the world's
/// lock.
fn has_counts(world: &World) -> bool {
    let counts = |facts: &PolicyFacts| {
        facts.spec.warn_above.is_some() || facts.spec.while_in_use == WhileInUse::Refuse
    };
    world.policies().values().any(counts)
}

/// The error of the fast path: the review needs the slow path, which also reports errors.
struct Longer;

impl From<DecodeError> for Longer {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

fn briefly(state: &AdmitState, purpose: &Purpose, bytes: &[u8]) -> Result<Decided, Longer> {
    let world = || {
        // `try_read` does not wait for a writer of the world.
        let world = state.world.try_read().map_err(|_| Longer)?;
        if has_counts(&world) { Err(Longer) } else { Ok(world) }
    };
    decide(state, purpose, bytes, world, |write, known| write.judge_briefly(known).ok_or(Longer))
}

fn at_length(
    state: &AdmitState,
    purpose: &Purpose,
    bytes: &[u8],
    place: &Arc<Permit>,
) -> Result<Decided, HandleError> {
    let world = || Ok(state.world.read().unwrap_or_else(PoisonError::into_inner));
    decide(state, purpose, bytes, world, |write, known| {
        let _turn = if known.is_heavy() { state.shedding.turn() } else { None };
        // After the caller has given up, only this task has the permit.
        match Arc::strong_count(place) {
            1 => Err(HandleError::Deadline),
            _ => Ok(write.judge(known)),
        }
    })
}

fn decide<'s, E: From<DecodeError>>(
    state: &'s AdmitState,
    purpose: &Purpose,
    bytes: &[u8],
    world: impl FnOnce() -> Result<RwLockReadGuard<'s, World>, E>,
    judge: impl FnOnce(&WriteCase<'_>, Snapshot) -> Result<Verdict, E>,
) -> Result<Decided, E> {
    let review = decode(bytes)?;
    let decision = match read(&review, purpose, &state.parties, Timestamp::now()) {
        Ok(Case::Settled(Decision::Ask(mut inquiry))) => {
            inquiry.look(&*world()?);
            Ok(Decision::Ask(inquiry))
        }
        Ok(Case::Settled(decision)) => Ok(decision),
        Ok(Case::Instance(case)) => Ok(Decision::Now(case.look(&*world()?))),
        Ok(Case::Write(write)) => {
            let world = world()?;
            let known = write.look(&world);
            drop(world);
            match known {
                Ok(known) => Ok(Decision::Now(judge(&write, known)?)),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    Ok(decided_of(review, decision))
}

fn known_kind(review: &Review<'_>) -> &'static str {
    const KNOWN: [&str; 7] = [
        "ConfigMap",
        "Secret",
        "Namespace",
        "CopyratorRule",
        "ConfigMonitor",
        "ConfigPolicy",
        "CopyratorTemplate",
    ];
    KNOWN.into_iter().find(|known| *known == review.kind.kind).unwrap_or("other")
}
