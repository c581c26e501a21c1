//! Findings as SARIF 2.1.0, the format of code scanners.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::report::{Finding, Judged, Level, Report};

pub(super) fn sarif(report: &Report) -> String {
    let findings =
        || report.objects.iter().flat_map(|object| object.findings.iter().map(move |found| (object, found)));
    let rules: BTreeSet<String> = findings().map(|(_, finding)| finding.rule_id()).collect();
    let rules: Vec<String> = rules.into_iter().collect();
    let results: Vec<Value> = findings().map(|(object, finding)| result(&rules, object, finding)).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "copyrator",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|id| json!({ "id": id })).collect::<Vec<_>>(),
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    serde_json::to_string_pretty(&log).unwrap_or_default() + "\n"
}

fn result(rules: &[String], object: &Judged, finding: &Finding) -> Value {
    let id = finding.rule_id();
    let level = match finding.level {
        Level::Refused => "error",
        Level::Warned => "warning",
        Level::Noted | Level::Unknown => "note",
    };
    json!({
        "ruleIndex": rules.iter().position(|rule| *rule == id),
        "ruleId": id,
        "level": level,
        "message": { "text": finding.message },
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": uri(&object.place.file) },
                "region": { "startLine": object.place.line },
            },
            "logicalLocations": [{ "fullyQualifiedName": object.title() }],
        }],
    })
}

/// A path as a relative or absolute URI reference.
fn uri(file: &str) -> String {
    if file == "-" {
        return "stdin".into();
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let path: String = file
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    if path.starts_with('/') { format!("file://{path}") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_uri() {
        for (file, expected) in
            [("-", "stdin"), ("a b/c.yaml", "a%20b/c.yaml"), ("/x/ü.yaml", "file:///x/%C3%BC.yaml")]
        {
            assert_eq!(uri(file), expected);
        }
    }
}
