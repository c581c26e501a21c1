//! What CONTRIBUTING.md says under "How to add" is done everywhere: a format, or a reason, that is missing in one of its places.

use std::fs;

use copyrator::crds;
use regex::Regex;

use super::{files, path};

/// The values of `spec.data[].format` of a ConfigPolicy.
fn formats() -> Vec<String> {
    let policy = crds::manifests()
        .into_iter()
        .find(|object| object["spec"]["names"]["kind"] == "ConfigPolicy")
        .unwrap();
    let spec = &policy["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let values = spec["properties"]["data"]["items"]["properties"]["format"]["enum"].as_array().unwrap();
    values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

#[test]
fn every_format_is_documented_shown_tried_and_fuzzed() {
    let formats = formats();
    assert_eq!(formats.len(), 12, "{formats:?}");
    let text = |file: &str| fs::read_to_string(path(file)).unwrap();
    let places = [
        ("docs/policies.md", "`FORMAT`", text("docs/policies.md")),
        ("examples/config-policy.yaml", r"\bFORMAT\b", text("examples/config-policy.yaml")),
        ("tests/reviews/parity.rs", "\"FORMAT\"", text("tests/reviews/parity.rs")),
        ("tests/control_plane/formats.rs", "\"FORMAT\"", text("tests/control_plane/formats.rs")),
        ("tests/fuzz/words.dict", "\"FORMAT\"", text("tests/fuzz/words.dict")),
    ];
    let seeds = files("tests/fuzz/seeds/formats");
    for format in &formats {
        for (file, pattern, text) in &places {
            let pattern = Regex::new(&pattern.replace("FORMAT", &regex::escape(format))).unwrap();
            assert!(pattern.is_match(text), "{file} lacks the format {format}");
        }
        assert!(
            seeds.iter().any(|(name, _)| name.starts_with(format)),
            "tests/fuzz/seeds/formats lacks {format}"
        );
    }
}

/// Words in quotes that look like reasons and are none: kinds, words of a wire format, and waits that no user sees.
const NO_REASONS: [&str; 18] = [
    "Apply",
    "ConfigMap",
    "ConfigMonitor",
    "CopyratorRule",
    "DoesNotExist",
    "Eviction",
    "Exists",
    "FactsMissing",
    "FieldValueForbidden",
    "Ignore",
    "In",
    "Namespace",
    "NamespaceTerminating",
    "NotIn",
    "Schema",
    "Secret",
    "Starting",
    "ValidatingAdmissionPolicy",
];

#[test]
fn every_reason_of_a_condition_or_problem_is_on_the_page_about_monitoring() {
    let page = fs::read_to_string(path("docs/monitoring.md")).unwrap();
    // How a workload stands is for commands, too.
    let states = fs::read_to_string(path("docs/planning.md")).unwrap();
    let word = Regex::new(r#""([A-Z][a-z]{2,}(?:[A-Z][a-z]+)*)""#).unwrap();
    let rooms = ["plan", "plan/copy", "plan/restart", "plan/policy", "model", "authority", "validate"];
    let rooms = rooms.map(|room| format!("core/src/{room}"));
    let mut found = 0;
    let rooms = rooms.iter().map(String::as_str).chain(["src/act", "src/access", "src/reconcile"]);
    for (file, text) in rooms.flat_map(files).filter(|(file, _)| file != "tests.rs") {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for reason in word.captures_iter(code).map(|found| found[1].to_owned()) {
            let quoted = format!("`{reason}`");
            let is_state = file == "state.rs" && states.contains(&quoted);
            let is_known = NO_REASONS.contains(&&*reason) || page.contains(&quoted) || is_state;
            assert!(is_known, "{file}: docs/monitoring.md, or planning.md, lacks the reason {reason}");
            found += 1;
        }
    }
    assert!(found > 50, "only {found} words were found");
}
