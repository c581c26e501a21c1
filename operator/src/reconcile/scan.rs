//! The scan judges existing objects by the policies. While no more urgent key waits, the scan reads objects
//! page by page, judges the objects, and drops them.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::FutureExt as _;
use kube::Client;
use tokio::{sync::Notify, time::Instant};

use super::{
    Lane,
    context::{Context, now},
    verify::{GIVES_WAY_IN_ALL, give_way},
};
use crate::{
    api::PolicyKind,
    model::Bytes,
    observe::pages::{Objects, listed},
    plan::{
        Key,
        policy::{Scan, is_unscanned},
    },
    read::content::ContentError,
    validate::Candidate,
};

/// Minimum pause between two scans. The pause is also at least [`REST_TIMES`] times as long as the last scan,
/// so that a large cluster is not read over and over because one of its objects keeps changing.
const REST: Duration = Duration::from_secs(5);
const REST_TIMES: u32 = 20;
/// Minimum pause before a policy's first scan. The pause is also at least as long as the last scan.
const FIRST: Duration = Duration::from_millis(500);
/// Pause in multiples of the last scan, if writes passed without a verdict. A user who can overload the
/// webhook again and again must not cause scans all the time.
const UNJUDGED_TIMES: u32 = 4;
/// Minimum pause after a failed scan. The pause after a failed scan also suffices before a scan for writes
/// that passed without a verdict, if the last scan was short.
const AGAIN: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(250);
/// Number of objects on the first page. The later pages have as many as fit into [`PAGE_BYTES`], at most
/// [`PAGE`].
const FIRST_PAGE: u32 = 10;
const PAGE: u64 = 200;
const PAGE_BYTES: Bytes = Bytes(4 << 20);

/// Why a scan could not be finished.
#[derive(Debug, thiserror::Error)]
enum ScanError {
    /// A page could not be read.
    #[error(transparent)]
    Page(#[from] ContentError),
    /// Judging an object panicked. The message of the panic could quote values, so it is dropped.
    #[error("the check of a {0:?} against the policies panicked")]
    Panic(PolicyKind),
}

/// Judges existing objects by the policies.
pub(super) struct Scanner {
    context: Context,
    client: Client,
    wanted: Notify,
    /// Whether writes passed without a verdict since the last scan began.
    has_unjudged: AtomicBool,
}

impl Scanner {
    pub(super) fn new(context: Context, client: Client) -> Self {
        Self { context, client, wanted: Notify::new(), has_unjudged: AtomicBool::default() }
    }

    /// Requests a new scan.
    pub(super) fn request(&self) {
        self.wanted.notify_one();
    }

    /// Requests a new scan soon: writes passed without a verdict.
    pub(super) fn request_for_unjudged(&self) {
        self.has_unjudged.store(true, Ordering::Relaxed);
        self.request();
    }

    /// Scans the objects that policies cover whenever a scan is requested, until the future is dropped.
    pub(super) async fn run(&self) -> Infallible {
        let (mut ended, mut last) = (Instant::now(), Ok(Duration::ZERO));
        loop {
            self.wanted.notified().await;
            while ended.elapsed() < rest(last, self.urgency()) {
                tokio::time::sleep(STEP).await;
            }
            // This scan answers all requests made until now.
            self.wanted.notified().now_or_never();
            let has_unjudged = self.has_unjudged.swap(false, Ordering::Relaxed);
            let mut busy = Duration::ZERO;
            last = match self.scan_once(&mut busy).await {
                Ok(()) => Ok(busy),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot check existing objects against the policies");
                    self.has_unjudged.fetch_or(has_unjudged, Ordering::Relaxed);
                    self.request();
                    Err(busy)
                }
            };
            ended = Instant::now();
        }
    }

    fn urgency(&self) -> Urgency {
        match self.has_unjudged.load(Ordering::Relaxed) {
            _ if is_unscanned(&self.context.world()) => Urgency::First,
            true => Urgency::Unjudged,
            false => Urgency::Usual,
        }
    }

    /// Scans once. Adds the duration of the scan, without its pauses, to `busy`.
    async fn scan_once(&self, busy: &mut Duration) -> Result<(), ScanError> {
        let mut scan = Scan::begin(&self.context.world());
        let mut seen = 0;
        for kind in scan.kinds() {
            let (mut next, mut most) = (None, FIRST_PAGE);
            let (list_begun, mut pause) = (Instant::now(), Duration::ZERO);
            loop {
                // A scan that has paused for long must hurry: the API server forgets after 5 minutes where
                // the list began.
                if list_begun.elapsed() < GIVES_WAY_IN_ALL {
                    tokio::time::sleep(pause).await;
                    give_way(&self.context).await;
                }
                let begun = Instant::now();
                let page = self.page_of(kind, most, next.as_deref()).await?;
                let (mut objects, judging) = (0, Instant::now());
                for object in page.each() {
                    objects += 1;
                    scan = self.judge_one(scan, kind, object).await?;
                }
                // Pause for as long as judging took.
                pause = judging.elapsed();
                seen += objects;
                let size = (page.size() / objects.max(1)).max(1);
                most = (PAGE_BYTES.0 / size).clamp(1, PAGE) as u32;
                *busy += begun.elapsed();
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
        }
        let standing = scan.end();
        tracing::debug!(
            seen,
            policies = standing.len(),
            ?busy,
            "checked existing objects against the policies"
        );
        let told: Vec<_> = standing.keys().cloned().collect();
        self.context.world_mut().set_scan_results(standing);
        for name in told {
            self.context.queue().add(Key::Policy(name), Lane::Change);
        }
        Ok(())
    }

    /// Reads a page. If the list has lasted too long, the page shows the current objects, and the next scan
    /// sees an object that moved meanwhile.
    async fn page_of(
        &self,
        kind: PolicyKind,
        most: u32,
        from: Option<&str>,
    ) -> Result<Objects, ContentError> {
        match listed(&self.client, kind, most, from).await {
            Err(error) => match error.goes_on_from() {
                Some(token) => listed(&self.client, kind, most, Some(&token)).await,
                None => Err(error),
            },
            page => page,
        }
    }

    /// Judges one object. An object that cannot be decoded is left out: readers of the object will report it.
    /// Judging can take half a second for each policy, so each judgement runs on a separate thread; the
    /// budget ends the judgement.
    async fn judge_one(&self, mut scan: Scan, kind: PolicyKind, text: String) -> Result<Scan, ScanError> {
        let context = self.context.clone();
        let work = move || {
            if let Ok(object) = Candidate::decode(kind, &text) {
                let judges = scan.judges_of(&context.world(), &object);
                scan.judge(&judges, &object, now());
            }
            scan
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| ScanError::Panic(kind))
    }
}

/// Why a scan is wanted.
#[derive(Clone, Copy, Debug)]
enum Urgency {
    /// A policy waits for its first scan.
    First,
    /// Writes passed without a verdict.
    Unjudged,
    Usual,
}

/// Returns the pause between two scans, by how long the last scan was busy, and whether the last scan failed.
fn rest(last: Result<Duration, Duration>, urgency: Urgency) -> Duration {
    let usual = |least: Duration, busy: Duration| least.max(busy * REST_TIMES);
    match (last, urgency) {
        (Ok(busy), Urgency::First) => FIRST.max(busy),
        (Ok(busy), Urgency::Unjudged) => usual(REST, busy).min(AGAIN.max(busy * UNJUDGED_TIMES)),
        (Ok(busy), Urgency::Usual) => usual(REST, busy),
        (Err(busy), Urgency::Unjudged) => AGAIN.max(busy * UNJUDGED_TIMES),
        (Err(busy), _) => usual(AGAIN, busy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Someone who quarrels over a policy, or an API server that fails each time, must not have everything
    /// read all the time.
    #[test]
    fn the_more_a_look_cost_the_longer_is_the_rest() {
        let seconds = Duration::from_secs_f64;
        for (last, urgency, rests) in [
            (Ok(0.0), Urgency::First, 0.5),
            (Ok(3.0), Urgency::First, 3.0),
            (Ok(0.0), Urgency::Usual, 5.0),
            (Ok(3.0), Urgency::Usual, 60.0),
            (Ok(0.0), Urgency::Unjudged, 5.0),
            (Ok(3.0), Urgency::Unjudged, 30.0),
            (Ok(60.0), Urgency::Unjudged, 240.0),
            (Err(0.0), Urgency::First, 30.0),
            (Err(1.0), Urgency::Usual, 30.0),
            (Err(3.0), Urgency::First, 60.0),
            (Err(3.0), Urgency::Unjudged, 30.0),
        ] {
            assert_eq!(
                rest(last.map(seconds).map_err(seconds), urgency),
                seconds(rests),
                "{last:?} {urgency:?}"
            );
        }
    }
}
