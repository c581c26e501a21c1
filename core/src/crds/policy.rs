//! The admission policies, as written in `webhook-config/policies`.

use serde_json::{Value, json};

use super::manifest_file::{ManifestFile, rendered};
use crate::api::Kind;

/// The file of the policy that guards copies and rendered objects.
pub(super) const GUARD_FILE: &str = "copies.yaml";

/// File name and text, in the order in which they are installed.
const POLICIES: [(&str, &str); 6] = [
    (GUARD_FILE, include_str!("../../../webhook-config/policies/copies.yaml")),
    ("author.yaml", include_str!("../../../webhook-config/policies/author.yaml")),
    ("author-honest.yaml", include_str!("../../../webhook-config/policies/author-honest.yaml")),
    ("annotations.yaml", include_str!("../../../webhook-config/policies/annotations.yaml")),
    ("annotations-honest.yaml", include_str!("../../../webhook-config/policies/annotations-honest.yaml")),
    ("statuses.yaml", include_str!("../../../webhook-config/policies/statuses.yaml")),
];

pub(super) fn objects() -> impl Iterator<Item = Value> {
    POLICIES.into_iter().flat_map(|(_, text)| rendered(serde_saphyr::from_multiple::<Value>(text)))
}

pub(super) fn files() -> impl Iterator<Item = ManifestFile> {
    POLICIES.into_iter().map(|(name, text)| ManifestFile { name: name.into(), text: text.into() })
}

/// The name of the policy that guards copies and rendered objects.
const GUARD: &str = "copyrator-copies";
/// The text after the guard's rules. The chart inserts the rules for `templates.kinds` before this text, too.
const AFTER_RULES: &str = "  matchConditions:\n";
/// The guard's variable with the kinds of `templates.kinds` that have `copy`. The chart writes the variable,
/// too.
const COPIED: &str = "copiedKinds";
const NONE_COPIED: &str = "\"[]\"";

/// Returns the text of the policies, with a guard that also covers objects of these kinds.
pub(super) fn guarding(text: &str, kinds: &[Kind]) -> String {
    let rules = kinds.iter().map(|kind| format!("    - {}\n", rule(*kind)));
    let rules: String = rules.collect();
    let text = text.replacen(AFTER_RULES, &format!("{rules}{AFTER_RULES}"), 1);
    text.replacen(NONE_COPIED, &format!("\"{}\"", copied(kinds)), 1)
}

/// Returns a manifest of ours as the chart writes it if templates may declare objects of these kinds: the
/// guard has a rule for each kind, and lists the kinds that rules copy. The guard's rules are sorted, so that
/// two manifests can be compared.
pub fn guarded(mut object: Value, kinds: impl Iterator<Item = Kind>) -> Value {
    if object["kind"] != "ValidatingAdmissionPolicy" || object["metadata"]["name"] != GUARD {
        return object;
    }
    let kinds: Vec<Kind> = kinds.collect();
    if let Some(rules) =
        object.pointer_mut("/spec/matchConstraints/resourceRules").and_then(Value::as_array_mut)
    {
        rules.extend(kinds.iter().copied().map(rule));
        rules.sort_by_cached_key(|rule| {
            ["apiGroups", "apiVersions", "resources"].map(|field| rule[field].to_string())
        });
    }
    let variables = object.pointer_mut("/spec/variables").and_then(Value::as_array_mut);
    let mut variables = variables.into_iter().flatten();
    if let Some(variable) = variables.find(|variable| variable["name"] == COPIED && !kinds.is_empty()) {
        variable["expression"] = json!(copied(&kinds));
    }
    object
}

/// Returns the granted kinds whose objects are kept whole, which the guard cannot know by name, as a list in
/// CEL.
fn copied(kinds: &[Kind]) -> String {
    let of_custom = kinds.iter().filter(|kind| matches!(kind, Kind::Granted(_)) && kind.is_whole());
    let mut names: Vec<String> = of_custom.map(|kind| format!("'{}'", kind.resource().qualified())).collect();
    names.sort();
    format!("[{}]", names.join(", "))
}

/// Returns the guard's rule for a kind, in all versions: if the API server no longer serves the granted
/// version, the objects still exist in other versions.
fn rule(kind: Kind) -> Value {
    let of = kind.resource();
    json!({
        "apiGroups": [of.group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": [of.plural, format!("{}/*", of.plural)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GrantedKinds;

    #[test]
    fn the_guard_is_over_what_templates_are_granted() {
        let granted = GrantedKinds::default();
        let kind = |kind: &str, plural: &str, is_copied: bool| {
            granted.kind("cert-manager.io/v1", kind, plural, is_copied).unwrap()
        };
        let kinds = [
            kind("Issuer", "issuers", true),
            kind("Certificate", "certificates", false),
            kind("Authority", "authorities", true),
        ];
        let written: Vec<Value> = serde_saphyr::from_multiple(&guarding(POLICIES[0].1, &kinds)).unwrap();
        let plain: Vec<Value> = objects().take(written.len()).collect();
        assert_ne!(written, plain);
        let variables = written[0]["spec"]["variables"].as_array().unwrap();
        let copied = variables.iter().find(|variable| variable["name"] == COPIED).unwrap();
        assert_eq!(copied["expression"], "['authorities.cert-manager.io', 'issuers.cert-manager.io']");
        for (written, plain) in written.into_iter().zip(plain) {
            assert_eq!(guarded(written, [].into_iter()), guarded(plain, kinds.into_iter()));
        }
    }
}
