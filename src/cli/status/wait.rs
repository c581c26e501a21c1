//! `--wait`: looks again until nothing is left to wait for, or the deadline has come.

use std::time::{Duration, Instant};

use super::{NoLook, look::Looked};
use crate::cli::terminal::{Exit, say};

/// Between two looks; each lists everything.
const EVERY: Duration = Duration::from_secs(2);
/// This many of those that are missing are named.
const NAMED: usize = 20;

/// The first look at which everything is as declared; at the deadline the last one. An API server that does
/// not answer now may do so in a moment; a refusal stays one.
pub(super) async fn until_settled<F>(timeout: Duration, look: impl Fn() -> F) -> Result<Looked, NoLook>
where
    F: Future<Output = Result<Looked, NoLook>>,
{
    let deadline = Instant::now() + timeout;
    loop {
        let looked = look().await;
        let is_over = match &looked {
            Ok(looked) => looked.unsettled().is_empty(),
            Err(NoLook { exit, .. }) => *exit != Exit::Unreachable,
        };
        if is_over || Instant::now() + EVERY > deadline {
            return looked;
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Says what is missing.
pub(super) fn give_up(timeout: &str, missing: &[String]) -> Exit {
    say(&format!("not everything is as declared after {timeout}; missing are:"));
    missing.iter().take(NAMED).for_each(|one| say(&format!("  {one}")));
    if let Some(more) = missing.len().checked_sub(NAMED).filter(|more| *more > 0) {
        say(&format!("  and {more} more"));
    }
    Exit::Findings
}
