//! Kinds of tools that import knows otherwise, of which it translates nothing: what to do about each.

use serde_json::Value;

use super::finding::{Finding, Origin, Tool, none};

/// An object that cannot be imported, and why; `None` where it asks for nothing.
pub(super) fn unsaid(
    group: &str,
    kind: &str,
    document: &Value,
    namespace: &str,
    name: &str,
) -> Option<(Origin, Finding)> {
    let (tool, about, message) = match (group, kind) {
        ("policies.kyverno.io", "GeneratingPolicy" | "NamespacedGeneratingPolicy") => (
            Tool::Kyverno,
            "spec",
            "its expressions call functions of Kyverno, which are not read here: where it makes objects in each Namespace, write a \
             CopyratorTemplate with forEach.namespaces, whose expressions are CEL, too; where it clones a ConfigMap or Secret, a \
             CopyratorRule",
        ),
        ("kyverno.io", "Policy") if generates(document) => (
            Tool::Kyverno,
            "spec.rules.generate",
            "a Policy generates for the objects of its own namespace: write a CopyratorTemplate with forEach.objects there",
        ),
        ("redhatcop.redhat.io", "GroupConfig" | "UserConfig") => (
            Tool::NamespaceConfig,
            "spec",
            "nothing is made for users or groups: have what makes their namespaces label them, and write a CopyratorTemplate \
             with forEach.namespaces for these",
        ),
        _ => return None,
    };
    Some((Origin::new(tool, kind, namespace, name), none(about, message)))
}

fn generates(policy: &Value) -> bool {
    policy["spec"]["rules"]
        .as_array()
        .is_some_and(|rules| rules.iter().any(|rule| rule["generate"].is_object()))
}
