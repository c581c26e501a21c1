//! Kinds that the import cannot translate, of tools with other kinds that it translates, and the fix for each
//! kind.

use super::finding::{Finding, Origin, Tool, none};

/// Returns an object that cannot be imported, and the reason; `None` for every other kind.
pub(super) fn unsaid(group: &str, kind: &str, namespace: &str, name: &str) -> Option<(Origin, Finding)> {
    let (tool, about, message) = match (group, kind) {
        ("policies.kyverno.io", "GeneratingPolicy" | "NamespacedGeneratingPolicy") => (
            Tool::Kyverno,
            "spec",
            "its expressions call functions of Kyverno, which are not read here: where it makes objects in each Namespace, or for each object \
             of a kind, write a CopyratorTemplate with forEach.namespaces or forEach.objects, whose expressions are CEL, too; where it clones a ConfigMap or Secret, a \
             CopyratorRule",
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
