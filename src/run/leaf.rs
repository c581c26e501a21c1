//! The webhook's own leaf certificate: minted in memory from the CA, looked at by the wall clock (a sleep over the
//! leaf's lifetime would stand still while the machine is suspended: cert-manager PR 8464).

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use copyrator_certs::{CaSecret, service_names};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::{
    act::certificates::read_ca,
    config::Config,
    hooks::Endpoint,
    serve::{Condition, ServingCert},
};

const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// How often CA and leaf are looked at once there is one.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How often they are looked for before.
const LOOK_FOR: Duration = Duration::from_millis(500);

/// Keeps a good leaf in `serving` until told to stop; the last good one stays when a look fails.
pub(super) async fn keep_leaf(
    client: Client,
    config: Config,
    serving: Arc<ServingCert>,
    certificate: Condition,
    stop: CancellationToken,
) {
    let mut signed_by = None;
    while !stop.is_cancelled() {
        let looked = look(&client, &config, &serving, &mut signed_by).await;
        let has_leaf = serving.not_after().is_some_and(|end| SystemTime::now() < end);
        match looked {
            Ok(()) => certificate.holds(),
            Err(message) if has_leaf => tracing::warn!(message, "the last good certificate is kept"),
            Err(message) => certificate.missing(message),
        }
        let pause = if has_leaf { LOOK_EVERY } else { LOOK_FOR };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn look(
    client: &Client,
    config: &Config,
    serving: &ServingCert,
    signed_by: &mut Option<String>,
) -> Result<(), String> {
    let ca = read_ca(client, &config.namespace).await.map_err(|error| with_causes(&error))?;
    let Some(ca) = ca else { return Err("the reconciler has not made a CA yet".into()) };
    let now = SystemTime::now();
    let fingerprint = ca.current.fingerprint();
    let is_fresh = serving.leaf().is_some_and(|leaf| now < leaf.validity().renewal_at());
    if is_fresh && signed_by.as_deref() == Some(&fingerprint) {
        return Ok(());
    }
    mint(&ca, config, serving, now)?;
    tracing::info!(ca = fingerprint, "a new serving certificate is in use");
    *signed_by = Some(fingerprint);
    Ok(())
}

fn mint(ca: &CaSecret, config: &Config, serving: &ServingCert, now: SystemTime) -> Result<(), String> {
    let (names, addresses) = subjects(config);
    let leaf = ca
        .current
        .issue_leaf(&names, &addresses, now, LIFETIME)
        .map_err(|error| format!("cannot issue a serving certificate: {error}"))?;
    serving
        .install(&leaf.chain_pem, &leaf.key_pem)
        .map_err(|error| format!("cannot use the serving certificate: {error}"))
}

/// What the API server will look for in the certificate.
fn subjects(config: &Config) -> (Vec<String>, Vec<IpAddr>) {
    match &config.endpoint {
        Endpoint::Service { name, namespace, .. } => (service_names(name, namespace).to_vec(), Vec::new()),
        Endpoint::Url(url) => {
            let host = url
                .parse::<http::Uri>()
                .ok()
                .and_then(|uri| uri.host().map(str::to_owned))
                .unwrap_or_default();
            match host.trim_matches(['[', ']']).parse() {
                Ok(address) => (Vec::new(), vec![address]),
                Err(_) => (vec![host], Vec::new()),
            }
        }
    }
}

/// An error with what caused it, in one line.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
