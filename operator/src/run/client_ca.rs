//! Keeps the client CA bundle (`--client-ca`) up to date by polling the file. The kubelet replaces a mounted
//! file by swapping a symlink above it; a watch on the file itself would notice at most one swap.

use std::{path::PathBuf, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    run::causes::with_all_causes,
    serve::{ClientTrust, Condition},
};

/// Polling interval. The file is small, and is only compared with its previous content.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Installs the file's bundle in `trust` whenever the file changes, until `stop`. If the file has no usable
/// bundle, the last good bundle stays in use. Logs each content and each failure once.
pub(super) async fn keep_client_ca(
    file: PathBuf,
    trust: ClientTrust,
    condition: Condition,
    stop: CancellationToken,
) {
    let mut last = None;
    while !stop.is_cancelled() {
        let read = tokio::fs::read(&file).await.map_err(|error| error.to_string());
        if last.as_ref() != Some(&read) {
            let path = file.display();
            let installed = match &read {
                Ok(bundle) => trust.install(bundle).map_err(|error| with_all_causes(&error)),
                Err(error) => Err(error.clone()),
            };
            match installed {
                Ok(authorities) => {
                    tracing::info!(%path, authorities, "the webhook accepts client certificates of these authorities")
                }
                Err(error) if trust.is_installed() => {
                    tracing::warn!(%path, error, "the webhook keeps the last valid bundle of client authorities");
                }
                Err(error) => {
                    tracing::warn!(%path, error, "the webhook cannot accept client certificates yet")
                }
            }
            last = Some(read.clone());
        }
        let _ = match (trust.is_installed(), read) {
            (true, _) => condition.holds(),
            (false, Err(error)) => condition.missing(format!("{}: {error}", file.display())),
            (false, Ok(_)) => condition.missing(format!("{} has no usable certificate", file.display())),
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path, time::SystemTime};

    use copyrator_certs::Authority;
    use tokio::task::JoinSet;

    use super::*;
    use crate::serve::Readiness;

    fn bundle(name: &str) -> String {
        Authority::issue(name, SystemTime::now(), Duration::from_secs(3600)).unwrap().cert_pem()
    }

    /// As the kubelet does it: a new folder, and one rename of the symlink to it.
    fn publish(folder: &Path, version: &str, content: &str) {
        fs::create_dir(folder.join(version)).unwrap();
        fs::write(folder.join(version).join("ca.crt"), content).unwrap();
        symlink(version, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    }

    async fn until(what: &str, condition: impl Fn() -> bool) {
        let wait = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        // With the paused clock, which advances when nothing else happens.
        tokio::time::timeout(Duration::from_secs(600), wait)
            .await
            .unwrap_or_else(|_| panic!("never: {what}"));
    }

    /// A file-level inotify watch sees the first swap at most (kubewarden policy-server); and a torn file
    /// must not lock everybody out.
    #[tokio::test(start_paused = true)]
    async fn a_swapped_symlink_is_seen_each_time_and_a_torn_file_keeps_the_last_good_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
        let (readiness, trust) = (Readiness::new(drain), ClientTrust::new([]));
        let mut tasks = JoinSet::new();
        let condition = readiness.require("clientCA");
        tasks.spawn(keep_client_ca(file.clone(), trust.clone(), condition, stop.clone()));
        until("told that the file is missing", || readiness.to_string().contains("No such file")).await;

        symlink("..data/ca.crt", &file).unwrap();
        publish(folder.path(), "..1", "-----BEGIN CERTIFICATE-----\nMIIB");
        until("told that it is torn", || readiness.to_string().contains("no usable certificate")).await;
        assert!(!trust.is_installed());
        for (version, generation) in [("..2", 1), ("..3", 2), ("..4", 3)] {
            publish(folder.path(), version, &bundle(version));
            until(version, || trust.generation() == generation).await;
            assert!(readiness.ready(), "{readiness}");
        }
        for (version, content) in [("..5", &bundle("torn")[..200]), ("..6", "")] {
            publish(folder.path(), version, content);
            tokio::time::sleep(3 * LOOK_EVERY).await;
            assert_eq!((trust.generation(), readiness.ready()), (3, true), "{version}");
        }
        publish(folder.path(), "..7", &bundle("good"));
        until("the one after the torn", || trust.generation() == 4).await;
        stop.cancel();
        tasks.join_next().await.unwrap().unwrap();
    }
}
