//! Encodes a verdict as the body of an HTTP response.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, jsonptr::PointerBuf};
use serde::Serialize;
use serde_json::json;

use super::decide::{Edit, MetaMap, Verdict};
use crate::validate::printable;

/// The longest warning, in bytes. The API server may cut a longer warning.
pub const LONGEST_WARNING: usize = 120;

/// Returns the `AdmissionReview` that carries a verdict, as JSON.
pub fn respond(uid: &str, verdict: &Verdict) -> Vec<u8> {
    let refusal = verdict.denial.map(|denial| Refusal {
        api_version: "v1",
        kind: "Status",
        metadata: Nothing {},
        status: "Failure",
        code: denial.code(),
        reason: denial.as_str(),
        message: &verdict.message,
    });
    let edited = verdict.is_allowed() && !verdict.edits.is_empty();
    let response = Response {
        uid,
        allowed: verdict.is_allowed(),
        status: refusal,
        warnings: verdict.warnings.iter().map(|warning| printable(warning, LONGEST_WARNING)).collect(),
        audit_annotations: &verdict.audit,
        patch_type: edited.then_some("JSONPatch"),
        patch: edited.then(|| STANDARD.encode(patch(&verdict.edits).to_string())),
    };
    let review = Review { api_version: "admission.k8s.io/v1", kind: "AdmissionReview", response };
    // Strings and maps of strings serialize without errors.
    serde_json::to_vec(&review).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Refusal<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Refusal<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Nothing,
    status: &'static str,
    code: u16,
    reason: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct Nothing {}

/// The edits as a JSON patch (RFC 6902).
pub fn patch(edits: &[Edit]) -> Patch {
    let path = |map: &MetaMap, key: Option<&str>| {
        PointerBuf::from_tokens(["metadata", map.field()].into_iter().chain(key))
    };
    let add = |path, value| PatchOperation::Add(AddOperation { path, value });
    let operation = |edit: &Edit| match edit {
        Edit::CreateMap(map) => add(path(map, None), json!({})),
        Edit::Set(map, key, value) => add(path(map, Some(key)), json!(value)),
        Edit::Remove(map, key) => PatchOperation::Remove(RemoveOperation { path: path(map, Some(key)) }),
    };
    Patch(edits.iter().map(operation).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::admit::decide::Denial;

    #[test]
    fn keys_are_escaped_and_the_map_comes_first() {
        let edits = [
            Edit::CreateMap(MetaMap::Annotations),
            Edit::Set(MetaMap::Annotations, "a.b/c~d".into(), "x".into()),
            Edit::Set(MetaMap::Labels, "e".into(), String::new()),
        ];
        assert_eq!(
            json!(patch(&edits)),
            json!([
                {"op": "add", "path": "/metadata/annotations", "value": {}},
                {"op": "add", "path": "/metadata/annotations/a.b~1c~0d", "value": "x"},
                {"op": "add", "path": "/metadata/labels/e", "value": ""},
            ])
        );
    }

    #[test]
    fn an_answer_echoes_the_uid_and_cuts_warnings() {
        let mut verdict = Verdict::refuse(Denial::Forbidden, "no\u{1b}[31m");
        verdict.warn("w".repeat(500));
        let answer: Value = serde_json::from_slice(&respond("u\"1", &verdict)).unwrap();
        let response = &answer["response"];
        assert_eq!((&response["uid"], &response["allowed"]), (&json!("u\"1"), &json!(false)));
        assert_eq!(response["status"]["message"], "no\\u{1b}[31m");
        assert_eq!(response["warnings"][0].as_str().map(str::len), Some(LONGEST_WARNING));
        assert!(response["patch"].is_null());
    }
}
