//! An expression, and the values that it judges.

use serde_json::json;

use super::{canary, parts, policy};

/// An expression of the input judges the values of the input: for the rest see [`policy`].
pub fn check(input: &[u8]) {
    let Some(parts) = parts(input).filter(|_| !canary::is_in(input)) else { return };
    for kind in ["ConfigMap", "Secret"] {
        let spec = json!({"match": {"kinds": [kind]}, "validations": [{"expression": parts[0]}]});
        policy::judge(spec, r#"{"name": "app", "labels": {"owner": "shop"}}"#, &parts[1..]);
    }
}
