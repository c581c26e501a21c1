//! From a verdict to the bytes of an answer.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::decide::{Edit, Verdict};
use crate::validate::printable;

/// The longest warning, in bytes: longer ones may be cut on their way.
pub const LONGEST_WARNING: usize = 120;

/// The `AdmissionReview` that carries a verdict.
pub fn respond(uid: &str, verdict: &Verdict) -> Vec<u8> {
    let mut response = json!({ "uid": uid, "allowed": verdict.allowed });
    if !verdict.allowed {
        response["status"] = json!({
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "code": verdict.code,
            "reason": verdict.reason,
            "message": verdict.message,
        });
    }
    if !verdict.warnings.is_empty() {
        let short = verdict.warnings.iter().map(|warning| printable(warning, LONGEST_WARNING));
        response["warnings"] = short.collect::<Vec<_>>().into();
    }
    if !verdict.audit.is_empty() {
        response["auditAnnotations"] = json!(verdict.audit);
    }
    if verdict.allowed && !verdict.edits.is_empty() {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = STANDARD.encode(patch(&verdict.edits).to_string()).into();
    }
    let review =
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response });
    review.to_string().into_bytes()
}

/// The edits as a JSON patch (RFC 6902).
pub fn patch(edits: &[Edit]) -> Value {
    let operations = edits.iter().map(|edit| match edit {
        Edit::CreateMap(map) => {
            json!({ "op": "add", "path": format!("/metadata/{}", map.field()), "value": {} })
        }
        Edit::Set(map, key, value) => {
            let key = key.replace('~', "~0").replace('/', "~1");
            json!({ "op": "add", "path": format!("/metadata/{}/{key}", map.field()), "value": value })
        }
        Edit::Remove(map, key) => {
            let key = key.replace('~', "~0").replace('/', "~1");
            json!({ "op": "remove", "path": format!("/metadata/{}/{key}", map.field()) })
        }
    });
    operations.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::decide::MetaMap;

    #[test]
    fn keys_are_escaped_and_the_map_comes_first() {
        let edits = [
            Edit::CreateMap(MetaMap::Annotations),
            Edit::Set(MetaMap::Annotations, "a.b/c~d".into(), "x".into()),
            Edit::Set(MetaMap::Labels, "e".into(), String::new()),
        ];
        assert_eq!(
            patch(&edits),
            json!([
                {"op": "add", "path": "/metadata/annotations", "value": {}},
                {"op": "add", "path": "/metadata/annotations/a.b~1c~0d", "value": "x"},
                {"op": "add", "path": "/metadata/labels/e", "value": ""},
            ])
        );
    }

    #[test]
    fn an_answer_echoes_the_uid_and_cuts_warnings() {
        let mut verdict = Verdict::refuse(403, "Forbidden", "no\u{1b}[31m");
        verdict.warn("w".repeat(500));
        let answer: Value = serde_json::from_slice(&respond("u\"1", &verdict)).unwrap();
        let response = &answer["response"];
        assert_eq!((&response["uid"], &response["allowed"]), (&json!("u\"1"), &json!(false)));
        assert_eq!(response["status"]["message"], "no\\u{1b}[31m");
        assert_eq!(response["warnings"][0].as_str().map(str::len), Some(LONGEST_WARNING));
        assert!(response["patch"].is_null());
    }
}
