//! A mounted certificate for a listener whose callers already trust its authority. The process serves the
//! certificate unchanged, and polls the files.

use std::{path::PathBuf, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{Condition, ServingCert, mounted::served};

/// Polling interval. A watch on the files would miss changes (`mounted.rs`).
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Installs the mounted certificate whenever it changes, until `stop`. The last good certificate stays in use
/// if the files contain no usable certificate. Logs each failure once.
pub async fn keep_pair(dir: PathBuf, serving: ServingCert, condition: Condition, stop: CancellationToken) {
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
            tracing::warn!(error, "cannot use the new serving certificate");
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path, time::SystemTime};

    use copyrator_certs::Authority;
    use tokio::task::JoinSet;

    use super::*;
    use crate::Readiness;

    /// As the kubelet does it: a new folder, and one rename of the symlink to it.
    fn publish(folder: &Path, version: &str, [chain, key]: [&str; 2]) {
        fs::create_dir(folder.join(version)).unwrap();
        fs::write(folder.join(version).join("tls.crt"), chain).unwrap();
        fs::write(folder.join(version).join("tls.key"), key).unwrap();
        symlink(version, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn each_mounted_certificate_is_served_and_a_torn_one_keeps_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
        let (readiness, serving) = (Readiness::new(drain), ServingCert::new());
        let mut tasks = JoinSet::new();
        let condition = readiness.require("mounted");
        tasks.spawn(keep_pair(folder.path().to_owned(), serving.clone(), condition, stop.clone()));
        tokio::time::sleep(2 * LOOK_EVERY).await;
        let said = readiness.to_string();
        assert!(!readiness.ready() && said.contains("the mounted Secret needs tls.crt, tls.key"), "{said}");

        let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
        let authority = Authority::issue("ca", now, hour).unwrap();
        let subject = || serving.leaf().map(|leaf| leaf.subject().to_owned());
        for (version, name) in [("..1", "one.test"), ("..2", "two.test")] {
            let leaf = authority.issue_leaf(&[name.to_owned()], &[], now, hour).unwrap();
            publish(folder.path(), version, [&leaf.chain_pem, leaf.key_pem.expose()]);
            tokio::time::sleep(2 * LOOK_EVERY).await;
            assert_eq!((subject(), readiness.ready()), (Some(format!("CN={name}")), true));
        }
        publish(folder.path(), "..3", ["-----BEGIN CERTIFICATE-----\nMIIB", "hunter2"]);
        tokio::time::sleep(2 * LOOK_EVERY).await;
        assert_eq!((subject(), readiness.ready()), (Some("CN=two.test".to_owned()), true), "{readiness}");
        stop.cancel();
        tasks.join_next().await.unwrap().unwrap();
    }
}
