//! A dry run that shows whether calls arrive, without an object that anybody would see.

use serde::Deserialize;

use crate::admit::decode::Review;

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

/// The token of a canary. Only a dry run is one, whoever sends it: nothing is stored and nothing is told.
pub fn canary_token(review: &Review<'_>) -> Option<String> {
    if !review.is_dry_run() {
        return None;
    }
    let object: Object = serde_json::from_str(review.object?.get()).ok()?;
    let token = object.metadata.annotations?.remove(CANARY)??;
    let plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (plain && (1..=64).contains(&token.len())).then_some(token)
}
