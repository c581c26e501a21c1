//! An upgrade that brought the binary and not the definitions.

use serde_json::{Value, json};

use crate::bed::{eventually, private};

const DEFINITION: &str = "configpolicies.copyrator.dev";
const FIELD: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/limits";

/// The API server drops what its definitions lack without a word; who looks for the reason finds it, and nobody is
/// locked out meanwhile.
#[test]
fn a_binary_newer_than_its_definitions_says_so_and_serves() {
    let bed = private("old-definitions");
    let patch = |operation: Value| {
        let patch = json!([operation]).to_string();
        bed.kubectl(&["patch", "crd", DEFINITION, "--type=json", "--patch", &patch], &Value::Null);
    };
    let all = bed.kubectl(&["get", "crd", DEFINITION, "--output=json"], &Value::Null);
    let all: Value = serde_json::from_str(&all).unwrap();
    patch(json!({ "op": "remove", "path": FIELD }));
    let crew = bed.man();
    let readiness = || crew.webhook.ask("/readyz").expect("the webhook answers");
    eventually("readiness names the field that is dropped", || {
        let (code, said) = readiness();
        let told = said.contains("definitions: the CustomResourceDefinitions are older than this binary")
            && said.contains("drops ConfigPolicy.spec.limits:");
        if code == 200 && told { Ok(()) } else { Err(format!("{code} {said}")) }
    });
    patch(json!({ "op": "add", "path": FIELD, "value": all.pointer(FIELD).unwrap() }));
    eventually("readiness has nothing to tell", || {
        let (code, said) = readiness();
        if (code, said.as_str()) == (200, "ready\n") { Ok(()) } else { Err(format!("{code} {said}")) }
    });
}
