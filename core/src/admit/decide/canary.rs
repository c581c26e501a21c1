//! The canary: a dry-run write that shows whether the API server's calls reach the webhook. No object is
//! stored.

use serde::Deserialize;

use crate::{admit::decode::Review, marks::AUTHOR};

/// Annotation of a canary: a token of letters, digits and dashes.
pub const CANARY: &str = "copyrator.dev/canary";

#[derive(Deserialize, Default)]
#[serde(default)]
struct Object {
    metadata: Meta,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Meta {
    annotations: Option<std::collections::BTreeMap<String, Option<String>>>,
}

/// Annotation of a canary that our mutating hook does not stamp: `webhook-config/mutating.yaml` exempts the
/// annotation. If the object has an author nevertheless, a policy in the API server has stamped it.
pub const STAMP_PROBE: &str = "copyrator.dev/stamp-probe";
/// Suffix of the token in the answer to a canary without an author.
pub const UNSTAMPED: &str = ", unstamped";

/// Suffix of the answer, followed by a Unix time in seconds: when a write last passed policies without a
/// verdict.
pub const UNJUDGED: &str = ", unjudged ";

/// The answer to a canary: the canary's token, and whether the canary arrived without an author's stamp.
/// `None` for any other request. Any user may send a canary, but only as a dry run, which stores nothing.
pub fn canary_answer(review: &Review<'_>) -> Option<String> {
    if !review.is_dry_run() {
        return None;
    }
    let object: Object = serde_json::from_str(review.object?.get()).ok()?;
    let annotations = object.metadata.annotations?;
    let token = annotations.get(CANARY)?.as_ref()?;
    let plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let stamp = if annotations.contains_key(AUTHOR) { "" } else { UNSTAMPED };
    (plain && (1..=64).contains(&token.len())).then(|| format!("copyrator canary {token}{stamp}"))
}
