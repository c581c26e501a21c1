//! From what is known of the cluster to what is wrong with it. Pure.

use clap::ValueEnum as _;

use super::{
    certificates, definitions,
    facts::Facts,
    finding::{Finding, Findings, Id},
    foreign, held, hooks, labels, pods, rights,
};
use crate::{cli::operator::Install, crds::KubeVersion};

/// What there is not where an install looks at some namespaces only, without rights over the cluster.
const OF_THE_CLUSTER: [Id; 9] = [
    Id::CopiesHeld,
    Id::CaMissing,
    Id::CaExpiring,
    Id::RotationHeld,
    Id::HooksMissing,
    Id::HooksOff,
    Id::HooksDrifted,
    Id::CaNotTrusted,
    Id::WebhookDown,
];

/// Everything that is wrong, the worst first; what is ignored is left out.
pub(super) fn examine(facts: &Facts, ignored: &[Id]) -> Vec<Finding> {
    let deployments = facts.deployments.as_deref().unwrap_or_default();
    let install = Install::new(&facts.namespace, deployments);
    let mut found = Findings::default();
    server(facts, &mut found);
    foreign::check(facts, &mut found);
    pods::installed(facts, &install, &mut found);
    if is_installed(facts) {
        pods::check(facts, &install, &mut found);
        definitions::check(facts, &install, &mut found);
        labels::check(facts, &mut found);
        rights::check(facts, &install, &mut found);
        if !install.is_namespaced() {
            held::check(facts, &mut found);
            certificates::check(facts, &install, &mut found);
            hooks::check(facts, &install, &mut found);
        }
    } else {
        // Hooks that an install has left behind may hold writes up. Everything else is missing, and need not
        // be reported.
        hooks::answered(facts, &install, false, &mut found);
    }
    let mut found = found.0;
    found.retain(|finding| !ignored.contains(&finding.id));
    found.sort();
    found.dedup();
    found
}

/// What was looked at and is in order.
pub(super) fn in_order(facts: &Facts, found: &[Finding], ignored: &[Id]) -> Vec<Id> {
    let deployments = facts.deployments.as_deref().unwrap_or_default();
    let is_namespaced = Install::new(&facts.namespace, deployments).is_namespaced();
    let is_looked_at = |id: &Id| {
        let is_here = is_installed(facts) && !(is_namespaced && OF_THE_CLUSTER.contains(id));
        is_here || [Id::ServerTooOld, Id::ForeignFailHook].contains(id)
    };
    let is_fine = |id: &Id| !ignored.contains(id) && found.iter().all(|finding| finding.id != *id);
    Id::value_variants().iter().copied().filter(|id| is_looked_at(id) && is_fine(id)).collect()
}

/// A caller who may not see whether Copyrator is installed is taken to mean that it is.
fn is_installed(facts: &Facts) -> bool {
    !facts.deployments.as_ref().is_ok_and(Vec::is_empty)
}

fn server(facts: &Facts, found: &mut Findings) {
    match &facts.server {
        Err(unread) => found.unknown(&[Id::ServerTooOld], unread),
        Ok(server) if *server < KubeVersion::OLDEST => {
            let what = format!(
                "is {server}, and Copyrator needs {}: it does not enforce our admission policies",
                KubeVersion::OLDEST
            );
            found.error(Id::ServerTooOld, "the API server", what, "kubectl version");
        }
        Ok(_) => {}
    }
}
