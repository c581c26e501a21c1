//! The body of a request, read into one piece of memory: collecting pieces would need twice as much memory.

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout};

use super::{
    fault::{BODY_WITHIN, HandleError},
    judge::namespace_of,
    shedding::{Room, Shedding},
};
use crate::admit::{
    decide::Unread,
    decode::{BODY_LIMIT, HEAD_LIMIT},
};

/// The body of a request, or its beginning.
pub(super) struct Received {
    pub(super) bytes: Bytes,
    /// The memory permit of a large body.
    pub(super) room: Option<Room>,
    /// Why `bytes` has only the beginning; `None` for a whole body.
    pub(super) unread: Option<Unread>,
}

/// Reads a body. Reads the beginning of a large body first, since the beginning contains the namespace, and
/// the rest once enough memory is free. The request waits for memory until `until`. `length`: the content
/// length, if known.
pub(super) async fn received(
    shedding: &Shedding,
    body: Body,
    length: Option<u64>,
    until: Instant,
) -> Result<Received, HandleError> {
    let length = length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    let mut incoming = Incoming::new(body, length.unwrap_or_default().min(HEAD_LIMIT));
    let within = BODY_WITHIN;
    let slow = |_| HandleError::SlowBody;
    let (mut room, mut unread) = (None, None);
    if !timeout(within, incoming.fill(HEAD_LIMIT)).await.map_err(slow)?? {
        unread = Some(Unread::TooLarge);
        let most = length.unwrap_or(BODY_LIMIT);
        if most <= BODY_LIMIT {
            room = shedding.room(&namespace_of(&incoming.kept), most, until).await;
            unread = match room {
                None => Some(Unread::NoRoom),
                Some(_) => {
                    incoming.kept.reserve_exact(length.unwrap_or_default().saturating_sub(HEAD_LIMIT));
                    let is_whole = timeout(within, incoming.fill(most)).await.map_err(slow)??;
                    if is_whole { None } else { Some(Unread::TooLarge) }
                }
            };
        }
    }
    if unread.is_some() {
        timeout(within, incoming.drop_rest()).await.map_err(slow)??;
    }
    Ok(Received { bytes: incoming.kept.into(), room, unread })
}

struct Incoming {
    body: Body,
    kept: Vec<u8>,
    /// Bytes that have arrived but are not in `kept` yet.
    next: Bytes,
}

impl Incoming {
    fn new(body: Body, expected: usize) -> Self {
        Self { body, kept: Vec::with_capacity(expected), next: Bytes::new() }
    }

    /// Reads until the body ends or `kept` has `most` bytes. Returns whether the body has ended.
    async fn fill(&mut self, most: usize) -> Result<bool, HandleError> {
        loop {
            let fits = self.next.len().min(most - self.kept.len());
            self.kept.extend_from_slice(&self.next.split_to(fits));
            if !self.next.is_empty() {
                return Ok(false);
            }
            match self.body.frame().await {
                None => return Ok(true),
                Some(frame) => {
                    let frame = frame.map_err(|_| HandleError::Body)?;
                    self.next = frame.into_data().unwrap_or_default();
                }
            }
        }
    }

    /// Reads and drops the rest of the body: an HTTP/1.1 client may not see an answer before the client has
    /// sent the whole body.
    async fn drop_rest(&mut self) -> Result<(), HandleError> {
        self.next = Bytes::new();
        while let Some(frame) = self.body.frame().await {
            frame.map_err(|_| HandleError::Body)?;
        }
        Ok(())
    }
}
