//! A dry run that shows whether the API server's calls arrive, without an object that anyone else would see.

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

/// Annotation of a canary that no hook of ours stamps: if the object has an author nevertheless, the API
/// server stamps by itself. `webhook-config/mutating.yaml` exempts it.
pub const STAMP_PROBE: &str = "copyrator.dev/stamp-probe";
/// Follows the token in the answer to a canary without an author.
pub const UNSTAMPED: &str = ", unstamped";

/// Follows, with a time in seconds, where a write passed policies without a verdict at that time.
pub const UNJUDGED: &str = ", unjudged ";

/// The answer to a canary: its token, and whether it came without an author's stamp. `None` for any other
/// request. Only a dry run is a canary, no matter which user sends it, so nothing is stored.
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
