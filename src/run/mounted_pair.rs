//! A mounted certificate whose callers trust its authority anyway: served as it is, and read again and again, as `leaf.rs` does.

use std::{path::PathBuf, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    observe::mounted::served,
    serve::{Condition, ServingCert},
};

/// How often the files are read. A watch on them would notice nothing (`observe/mounted.rs`).
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Serves what is mounted until told to stop. The last good certificate stays if there is none. Each failure is logged once.
pub(crate) async fn keep_pair(
    dir: PathBuf,
    serving: ServingCert,
    condition: Condition,
    stop: CancellationToken,
) {
    let mut failed = None;
    while !stop.is_cancelled() {
        let installed = served(&dir).map_err(|error| error.to_string()).and_then(|pair| {
            if serving.leaf().as_ref() == Some(&pair.leaf) {
                return Ok(());
            }
            serving.install(&pair.chain_pem, &pair.key).map_err(|error| error.to_string())?;
            tracing::info!(leaf = pair.leaf.fingerprint(), "a new serving certificate is in use");
            Ok(())
        });
        if failed.as_ref() != installed.as_ref().err()
            && let Err(error) = &installed
        {
            tracing::warn!(error, "no new serving certificate can be used");
        }
        failed = installed.err();
        let _ = match (serving.leaf(), &failed) {
            (None, Some(error)) => condition.missing(error.as_str()),
            _ => condition.holds(),
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}
