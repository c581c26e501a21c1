//! What CONTRIBUTING.md says under "How to add" is done everywhere: a format, a kind or a reason that one of its places lacks.

use std::fs;

use copyrator::{api::ConfigPolicySpec, crds, validate::CompiledPolicy};
use regex::Regex;
use serde_json::{Value, json};

use super::{files, path};

fn definitions() -> impl Iterator<Item = Value> {
    crds::manifests().into_iter().filter(|object| object["kind"] == "CustomResourceDefinition")
}

/// The schema of `spec.data[]` of a ConfigPolicy.
fn data_rule() -> Value {
    let policy = definitions().find(|object| object["spec"]["names"]["kind"] == "ConfigPolicy").unwrap();
    let spec = &policy["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["data"]["items"].clone()
}

/// The values of its `format`.
fn formats() -> Vec<String> {
    let data_rule = data_rule();
    let values = data_rule["properties"]["format"]["enum"].as_array().unwrap();
    values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

/// Fails if the text of a file lacks a pattern.
fn assert_named(file: &str, pattern: &str, what: &str) {
    let text = fs::read_to_string(path(file)).unwrap();
    assert!(Regex::new(pattern).unwrap().is_match(&text), "{file} lacks {what}: {pattern}");
}

#[test]
fn every_format_is_documented_shown_tried_and_fuzzed() {
    let places = [
        ("docs/policies.md", "`FORMAT`"),
        ("examples/config-policy.yaml", r"\bFORMAT\b"),
        ("tests/reviews/parity.rs", "\"FORMAT\""),
        ("tests/control_plane/formats.rs", "\"FORMAT\""),
        ("tests/fuzz/words.dict", "\"FORMAT\""),
    ];
    let seeds = files("tests/fuzz/seeds/formats");
    for format in &formats() {
        for (file, pattern) in places {
            assert_named(file, &pattern.replace("FORMAT", &regex::escape(format)), "a format");
        }
        assert!(
            seeds.iter().any(|(name, _)| name.starts_with(format)),
            "tests/fuzz/seeds/formats lacks {format}"
        );
    }
}

/// The validator knows which formats have documents; its message and the definition list them.
#[test]
fn a_schema_is_taken_with_every_format_that_has_documents() {
    let compiled = |format: &String| {
        let keys = if format == "tls-pair" { json!(null) } else { json!(["key"]) };
        let spec: ConfigPolicySpec = serde_json::from_value(json!({
            "match": {"kinds": ["ConfigMap"]},
            "data": [{"name": "rule", "keys": keys, "format": format, "schema": {"type": "object"}}],
        }))
        .unwrap();
        CompiledPolicy::compile(&spec)
    };
    let (taken, refused): (Vec<_>, Vec<_>) =
        formats().into_iter().partition(|format| compiled(format).is_ok());
    let data_rule = data_rule();
    let rules = data_rule["x-kubernetes-validations"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rule = rules.iter().find(|rule| text(&rule["rule"]).contains("self.schema")).unwrap();
    let lists = |text: &str, format: &String| {
        text.split(|one: char| !one.is_alphanumeric()).any(|word| word == format)
    };
    let texts = [
        text(&rule["rule"]),
        text(&rule["message"]),
        text(&data_rule["properties"]["schema"]["description"]),
        compiled(&refused[0]).unwrap_err().remove(0).message,
    ];
    for text in texts {
        assert!(taken.iter().all(|format| lists(&text, format)), "{text:?} lacks one of {taken:?}");
        assert!(!refused.iter().any(|format| lists(&text, format)), "{text:?} has one of {refused:?}");
    }
}

/// What neither the compiler nor another test finds; the patterns have PLURAL, KIND and STORE (`ConfigPolicies`).
#[test]
fn every_kind_of_ours_is_named_where_all_are() {
    let everywhere = [
        ("charts/copyrator/templates/crds.yaml", "\"PLURAL\""),
        ("charts/copyrator/templates/clusterrole-cluster-reader.yaml", r"\bPLURAL\b"),
        ("charts/copyrator/rbac.yaml", r"\bPLURAL[,\]]"),
        ("charts/copyrator/rbac.yaml", r"\bPLURAL/status\b"),
        ("charts/copyrator/rbac.yaml", r"\bPLURAL\.copyrator\.dev\b"),
        ("webhook-config/validating.yaml", r"\bPLURAL\b"),
        ("webhook-config/policies/statuses.yaml", r"\bPLURAL/status\b"),
        ("operator/src/run/watches.rs", r"Store::STORE\b"),
        ("operator/src/run/watches.rs", r"start::<AsWritten<KIND>>"),
        ("cluster/src/read/crds.rs", r#""PLURAL\.copyrator\.dev""#),
        ("operator/src/webhook/judge.rs", "\"KIND\""),
        ("cli/src/arguments/output.rs", "\"KIND\""),
        ("cli/src/files/kind.rs", "\"KIND\""),
        ("cli/src/commands/doctor/foreign.rs", "\"PLURAL\""),
        ("tests/control_plane/bed/paths.rs", "\"KIND\""),
    ];
    // Kinds in namespaces are written by their users, and act with their rights.
    let in_namespaces = [
        ("charts/copyrator/templates/clusterrole-view.yaml", r"\bPLURAL\b"),
        ("charts/copyrator/templates/clusterrole-edit.yaml", r"\bPLURAL\b"),
        ("charts/copyrator/templates/clusterrole-admin.yaml", r"\bPLURAL\b"),
        ("webhook-config/mutating.yaml", r"\bPLURAL\b"),
        ("webhook-config/policies/author.yaml", r"\bPLURAL\b"),
        ("webhook-config/policies/author-honest.yaml", r"\bPLURAL\b"),
    ];
    // They are read namespace by namespace, where Copyrator looks at some only: templates are not served there.
    let one_by_one = [
        ("charts/copyrator/templates/NOTES.txt", r"\bPLURAL\b"),
        ("core/src/model/namespace_scope.rs", r"Store::STORE\b"),
        ("operator/src/run/watches.rs", r"start_one::<AsWritten<KIND>>"),
        ("cluster/src/read/crds.rs", "\"PLURAL\""),
        ("cli/src/survey/lists.rs", "\"PLURAL\""),
    ];
    for definition in definitions() {
        let name = |which: &str| definition["spec"]["names"][which].as_str().unwrap();
        let (kind, plural) = (name("kind"), name("plural"));
        let stem =
            kind.to_lowercase().bytes().zip(plural.bytes()).take_while(|(one, other)| one == other).count();
        let store = format!("{}{}", &kind[..stem], &plural[stem..]);
        let is_in_namespaces = definition["spec"]["scope"] == "Namespaced";
        let is_read_there = is_in_namespaces && kind != "CopyratorTemplate";
        let places = everywhere
            .iter()
            .chain(in_namespaces.iter().filter(|_| is_in_namespaces))
            .chain(one_by_one.iter().filter(|_| is_read_there));
        for (file, pattern) in places {
            let pattern = pattern.replace("PLURAL", plural).replace("KIND", kind).replace("STORE", &store);
            assert_named(file, &pattern, "a kind");
        }
    }
}

/// Words in quotes that look like reasons and are none: kinds, words of a wire format, and waits that no user sees.
const NO_REASONS: [&str; 28] = [
    "Apply",
    "BadRequest",
    "Canary",
    "ConfigMap",
    "ConfigMonitor",
    "CopyratorRule",
    "CopyratorTemplate",
    "DoesNotExist",
    "Eviction",
    "Exists",
    "FactsMissing",
    "FieldManagerConflict",
    "FieldValueTypeInvalid",
    "FieldValueForbidden",
    "FieldValueTooLong",
    "Ignore",
    "In",
    "LoadBalancer",
    "Namespace",
    "NamespaceTerminating",
    "NodePort",
    "None",
    "NotIn",
    "Opaque",
    "Schema",
    "Secret",
    "Starting",
    "ValidatingAdmissionPolicy",
];

/// What becomes of a copy, or why there is none: words of `plan` and `why-not`, and of no condition.
const OF_PLANS: [&str; 23] = [
    "Braked",
    "Copy",
    "Deleting",
    "Differs",
    "Excluded",
    "Immutable",
    "InOrder",
    "Marked",
    "Missing",
    "NotATarget",
    "NotFound",
    "OwnNamespace",
    "Refuses",
    "Replace",
    "Retain",
    "RuleBack",
    "SourceNamespace",
    "SystemNamespace",
    "TakeOver",
    "UnknownKey",
    "Unread",
    "Unwanted",
    "WantedAgain",
];

#[test]
fn every_reason_of_a_condition_or_problem_is_on_the_page_about_monitoring() {
    let page = fs::read_to_string(path("docs/monitoring.md")).unwrap();
    // How a workload stands is for commands, too, and what becomes of a copy for plans.
    let states = fs::read_to_string(path("docs/planning.md")).unwrap();
    let word = Regex::new(r#""([A-Z][a-z]{2,}(?:[A-Z][a-z]+)*)""#).unwrap();
    let rooms = ["plan", "plan/copy", "plan/restart", "plan/policy", "model", "authority", "validate"];
    let rooms = rooms.map(|room| format!("core/src/{room}"));
    let mut found = 0;
    let rooms = rooms.iter().map(String::as_str).chain([
        "operator/src/act",
        "cluster/src/access",
        "cluster/src/dry_run",
        "operator/src/reconcile",
    ]);
    // The words of `template_kinds.rs` are kinds.
    let is_read = |(file, _): &(String, String)| !["tests.rs", "template_kinds.rs"].contains(&&**file);
    for (file, text) in rooms.flat_map(files).filter(is_read) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for reason in word.captures_iter(code).map(|found| found[1].to_owned()) {
            let quoted = format!("`{reason}`");
            let is_state = (["gates.rs", "state.rs"].contains(&&*file) || OF_PLANS.contains(&&*reason))
                && states.contains(&quoted);
            let is_known = NO_REASONS.contains(&&*reason) || page.contains(&quoted) || is_state;
            assert!(is_known, "{file}: docs/monitoring.md, or planning.md, lacks the reason {reason}");
            found += 1;
        }
    }
    assert!(found > 50, "only {found} words were found");
}
