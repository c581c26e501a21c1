//! `--wait`: reads again and again until everything is as declared, or the deadline has passed.

use std::time::{Duration, Instant};

use super::rows::{ReadFailure, Rows};
use crate::terminal::{Exit, say};

/// The pause between two reads; each lists everything.
const EVERY: Duration = Duration::from_secs(2);
/// How many unfinished objects are named.
const NAMED: usize = 20;

/// The first read in which everything is as declared, or the last read at the deadline. An API server that
/// does not answer may answer the next read; a refusal is final.
pub(super) async fn until_settled<F>(timeout: Duration, look: impl Fn() -> F) -> Result<Rows, ReadFailure>
where
    F: Future<Output = Result<Rows, ReadFailure>>,
{
    let deadline = Instant::now() + timeout;
    loop {
        let looked = look().await;
        let is_over = match &looked {
            Ok(looked) => looked.unsettled().is_empty(),
            Err(ReadFailure { exit, .. }) => *exit != Exit::Unreachable,
        };
        if is_over || Instant::now() + EVERY > deadline {
            return looked;
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Reports the objects that are not as declared.
pub(super) fn give_up(timeout: &str, missing: &[String]) -> Exit {
    say(&format!("not everything is as declared after {timeout}; waiting for:"));
    missing.iter().take(NAMED).for_each(|one| say(&format!("  {one}")));
    if let Some(more) = missing.len().checked_sub(NAMED).filter(|more| *more > 0) {
        say(&format!("  and {more} more"));
    }
    Exit::Findings
}
