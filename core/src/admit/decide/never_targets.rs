//! Warns if a rule, a template or an annotation names target namespaces that never get copies.

use super::{Decision, Parties};
use crate::{names::OF_KUBERNETES, validate::CompiledTarget};

/// Adds the warnings to the verdict. `home` is the namespace of a rule's sources if all sources are in one
/// namespace, which gets no copies of them.
pub(super) fn warn(decision: &mut Decision, terms: &[CompiledTarget], home: Option<&str>, parties: &Parties) {
    let Decision::Ask(inquiry) = decision else { return };
    let named = terms.iter().filter_map(|term| term.names.as_ref()).flat_map(|names| names.names());
    let mut system: Vec<&str> = named.clone().map(String::as_str).collect();
    system.retain(|name| OF_KUBERNETES.contains(name) || parties.system_namespaces.contains(*name));
    system.dedup();
    if !system.is_empty() {
        inquiry.allow.warn(format!(
            "copyrator: {} never gets objects from Copyrator (system namespace): remove it from the targets",
            system.join(", ")
        ));
    }
    if let Some(home) = home.filter(|home| named.clone().any(|name| name == home)) {
        inquiry.allow.warn(format!(
            "copyrator: {home} is the sources' own namespace and never gets copies of them: remove {home} from the targets"
        ));
    }
}
