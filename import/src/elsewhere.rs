//! Kinds that the import cannot translate, of tools with other kinds that it translates, and the fix for each
//! kind.

use super::finding::{Finding, Origin, Tool, none};

/// Returns an object that cannot be imported, and the reason; `None` for every other kind.
pub(super) fn unsaid(group: &str, kind: &str, namespace: &str, name: &str) -> Option<(Origin, Finding)> {
    let (tool, about, message) = match (group, kind) {
        ("policies.kyverno.io", "GeneratingPolicy" | "NamespacedGeneratingPolicy") => (
            Tool::Kyverno,
            "spec",
            "import does not read this kind, whose expressions call Kyverno's own functions: write a CopyratorTemplate \
             (forEach.namespaces or forEach.objects, with CEL) if the policy makes objects, or a CopyratorRule if it clones a ConfigMap \
             or Secret",
        ),
        ("redhatcop.redhat.io", "GroupConfig" | "UserConfig") => (
            Tool::NamespaceConfig,
            "spec",
            "Copyrator makes no objects for users or groups: label their namespaces when you create them, and write a CopyratorTemplate \
             with forEach.namespaces",
        ),
        _ => return None,
    };
    Some((Origin::new(tool, kind, namespace, name), none(about, message)))
}
