//! What is there already, held against the policies: read page by page while nothing more urgent waits, judged, and dropped.

use std::{convert::Infallible, time::Duration};

use futures::FutureExt as _;
use tokio::time::Instant;

use super::{Lane, Reconciler, now};
use crate::{
    api::PolicyKind,
    model::Bytes,
    observe::{
        content::ContentError,
        pages::{Listed, listed},
    },
    plan::{Key, Scan, is_unscanned},
    validate::Candidate,
};

/// Between two looks at everything, at least; and so many times what the last one took, so that a large cluster is not read
/// over and over because one object of it keeps changing.
const REST: Duration = Duration::from_secs(5);
const REST_TIMES: u32 = 20;
/// The same where a policy waits for its first.
const FIRST: Duration = Duration::from_millis(500);
/// After one that failed.
const AGAIN: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(250);
/// Objects of the first page; of the next as many as come to so many bytes.
const FIRST_PAGE: u32 = 10;
const PAGE: u64 = 200;
const PAGE_BYTES: Bytes = Bytes(4 << 20);

impl Reconciler {
    /// Looks at what policies speak of whenever somebody asks for it, until dropped.
    pub async fn scan(&self) -> Infallible {
        let (mut ended, mut took) = (Instant::now(), Ok(Duration::ZERO));
        loop {
            self.scan_wanted.notified().await;
            loop {
                let rest = match took {
                    _ if is_unscanned(&self.world()) && took.is_ok() => FIRST,
                    Ok(took) => REST.max(took * REST_TIMES),
                    Err(()) => AGAIN,
                };
                if ended.elapsed() >= rest {
                    break;
                }
                tokio::time::sleep(STEP).await;
            }
            // Whoever asked until now is answered by this one.
            self.scan_wanted.notified().now_or_never();
            took = match self.scan_once().await {
                Ok(took) => Ok(took),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "what is there could not be held against the policies");
                    self.scan_wanted.notify_one();
                    Err(())
                }
            };
            ended = Instant::now();
        }
    }

    /// How long it took, without the pauses.
    async fn scan_once(&self) -> Result<Duration, ContentError> {
        let mut scan = Scan::begin(&self.world());
        let (mut busy, mut seen) = (Duration::ZERO, 0);
        for kind in scan.kinds() {
            for list in Listed::of(kind) {
                let (mut next, mut most) = (None, FIRST_PAGE);
                loop {
                    self.give_way().await;
                    let begun = Instant::now();
                    let page = listed(&self.client, list, most, next.as_deref()).await?;
                    let mut objects = 0;
                    for object in page.each() {
                        objects += 1;
                        self.judge_one(&mut scan, kind, &object).await;
                    }
                    seen += objects;
                    let size = (page.size() / objects.max(1)).max(1);
                    most = (PAGE_BYTES.0 / size).clamp(1, PAGE) as u32;
                    busy += begun.elapsed();
                    next = page.next;
                    if next.is_none() {
                        break;
                    }
                }
            }
        }
        let standing = scan.end();
        tracing::debug!(
            seen,
            policies = standing.len(),
            ?busy,
            "what is there was held against the policies"
        );
        let told: Vec<_> = standing.keys().cloned().collect();
        self.world_mut().standing = standing;
        for name in told {
            self.queue.add(Key::Policy(name), Lane::Change);
        }
        Ok(busy)
    }

    /// An object that cannot be read is left out: whoever reads it will say so.
    async fn judge_one(&self, scan: &mut Scan, kind: PolicyKind, object: &str) {
        let Ok(object) = Candidate::decode(kind, object) else { return };
        let judges = scan.judges_of(&self.world(), &object);
        if judges.is_empty() {
            return;
        }
        let begun = Instant::now();
        scan.judge(&judges, &object, now());
        // What took long is paid for with a pause: whoever else runs on this thread comes first.
        tokio::time::sleep(begun.elapsed()).await;
    }
}
