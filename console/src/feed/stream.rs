//! The feed as server-sent events.

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::response::{
    IntoResponse as _, Response,
    sse::{Event as Sent, KeepAlive, Sse},
};
use futures::{
    Stream, StreamExt as _,
    stream::{self, SelectAll},
};
use http::StatusCode;
use k8s_openapi::api::core::v1::Event;
use kube::{
    api::{WatchEvent, WatchParams},
    core::Status,
};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{
    happening::Happening,
    latest::{OURS, begin, events, named},
    resume::Resume,
};
use crate::{
    asked::Asked,
    problem::Problem,
    seat::{STREAMS, Seat},
};

/// How long a stream lasts. Clients reconnect afterwards, so that withdrawn rights take effect.
const LIFE: Duration = Duration::from_secs(300);
/// The timeout of the stream's watches: a little less than [`LIFE`], so that the API server ends the watches.
const WATCH: u32 = 290;
/// How long a browser waits before it reconnects.
const RETRY: Duration = Duration::from_secs(2);
/// How long a browser waits after a problem.
const LATER: Duration = Duration::from_secs(30);
/// The keep-alive interval, so that a lost connection is noticed.
const ALIVE: Duration = Duration::from_secs(15);

/// An item of a watch, with the index of its scope; `None`: the watch has ended.
type Brought = (usize, Option<kube::Result<WatchEvent<Event>>>);
type Watch = Pin<Box<dyn Stream<Item = Brought> + Send>>;

/// An open stream.
struct Feed {
    watches: SelectAll<Watch>,
    resume: Resume,
    /// The events to send first.
    first: Vec<Sent>,
    until: Instant,
    /// The caller's seat, which is in use while a stream holds it.
    seat: Arc<Seat>,
    /// Whether the last event was sent.
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

/// Opens a stream that begins after the event with the id `after`, or now.
///
/// # Errors
/// The caller may not read Events, or too many streams are open.
pub(crate) async fn open(seat: &Arc<Seat>, asked: &Asked, after: Option<&str>) -> Result<Response, Problem> {
    let permit = seat.streams.clone().try_acquire_owned().map_err(|_| {
        let message = format!("{STREAMS} streams are already open: close one, or try again");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, message)
    })?;
    let (resume, refused) = match after {
        Some(after) => match Resume::read(after, named(seat, asked), seat.client.default_namespace()) {
            Some(resume) => (resume, Vec::new()),
            None => return Ok(respond(stream::iter([Ok(reset())]))),
        },
        None => {
            let start = begin(seat, asked, 1, 1).await?;
            (start.resume, start.refused)
        }
    };
    let mut watches = SelectAll::new();
    for (index, (scope, version)) in resume.0.iter().enumerate() {
        let params = WatchParams::default().fields(OURS).timeout(WATCH);
        let watch = match events(&seat.client, scope).watch(&params, version).await {
            Ok(watch) => watch,
            Err(kube::Error::Api(status)) if is_too_old(&status) => {
                return Ok(respond(stream::iter([Ok(reset())])));
            }
            Err(error) => return Err(Problem::asking(error)),
        };
        let brought = watch.map(move |event| (index, Some(event)));
        watches.push(Box::pin(brought.chain(stream::iter([(index, None)]))) as Watch);
    }
    let mut first = vec![Sent::default().retry(RETRY).id(resume.text())];
    first.extend(refused.iter().map(problem).rev());
    let until = Instant::now() + LIFE;
    let feed = Feed { watches, resume, first, until, seat: seat.clone(), is_over: false, _permit: permit };
    Ok(respond(stream::unfold(feed, Feed::next)))
}

fn respond(events: impl Stream<Item = Result<Sent, axum::Error>> + Send + 'static) -> Response {
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

impl Feed {
    /// The next event to send.
    async fn next(mut self) -> Option<(Result<Sent, axum::Error>, Self)> {
        if !self.first.is_empty() {
            return Some((Ok(self.first.remove(0)), self));
        }
        while !self.is_over {
            let brought = tokio::select! {
                biased;
                () = self.seat.ended.cancelled() => return None,
                () = tokio::time::sleep_until(self.until) => return None,
                brought = self.watches.next() => brought?,
            };
            // Without this watch, some events would be missing: end the stream, and the client reconnects.
            let (index, Some(brought)) = brought else { return None };
            let sent = match brought {
                Ok(WatchEvent::Added(event) | WatchEvent::Modified(event)) => {
                    self.has_seen(index, event.metadata.resource_version.clone());
                    let sent = Sent::default().id(self.resume.text());
                    sent.data(serde_json::to_string(&Happening::of(&event)).unwrap_or_default())
                }
                // Events expire after an hour: their deletion is not reported.
                Ok(WatchEvent::Deleted(event)) => {
                    self.has_seen(index, event.metadata.resource_version);
                    continue;
                }
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    self.has_seen(index, Some(bookmark.metadata.resource_version));
                    Sent::default().id(self.resume.text())
                }
                Ok(WatchEvent::Error(status)) => self.end(kube::Error::Api(status)),
                Err(error) => self.end(error),
            };
            return Some((Ok(sent), self));
        }
        None
    }

    /// Ends the stream. Returns the stream's last event: a reset if the resourceVersion is too old, a problem
    /// otherwise.
    fn end(&mut self, error: kube::Error) -> Sent {
        self.is_over = true;
        match error {
            kube::Error::Api(status) if is_too_old(&status) => reset(),
            error => problem(&Problem::asking(error)).retry(LATER),
        }
    }

    fn has_seen(&mut self, index: usize, version: Option<String>) {
        if let (Some((_, seen)), Some(version)) = (self.resume.0.get_mut(index), version) {
            *seen = version;
        }
    }
}

/// Whether the API server cannot continue from the resourceVersion: it has expired, or the API server's
/// history was reset.
fn is_too_old(status: &Status) -> bool {
    status.code == StatusCode::GONE || status.message.starts_with("Too large resource version")
}

/// Returns the event that makes a client start over. The event's empty id makes browsers reconnect without an
/// id.
fn reset() -> Sent {
    Sent::default().event("reset").id("").data("{}")
}

fn problem(problem: &Problem) -> Sent {
    Sent::default().event("problem").data(problem.text())
}
