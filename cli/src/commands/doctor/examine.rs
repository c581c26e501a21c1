//! Runs all checks over the facts. This module is pure.

use clap::ValueEnum as _;

use super::{
    certificates, definitions,
    facts::Facts,
    finding::{Finding, Findings, Id},
    foreign, held, hooks, labels, pods, policies, rights, unread,
};
use crate::{crds::KubeVersion, installed::Install};

/// The checks that do not apply to an install without rights over the cluster, which reads only some
/// namespaces.
const OF_THE_CLUSTER: [Id; 8] = [
    Id::CaMissing,
    Id::CaExpiring,
    Id::RotationHeld,
    Id::HooksMissing,
    Id::HooksOff,
    Id::HooksDrifted,
    Id::CaNotTrusted,
    Id::WebhookDown,
];

/// All findings, the worst first, without ignored findings.
pub(super) fn examine(facts: &Facts, ignored: &[Id]) -> Vec<Finding> {
    let deployments = facts.deployments.as_deref().unwrap_or_default();
    let install = Install::new(&facts.namespace, deployments).with_kinds(&facts.kinds);
    let mut found = Findings::default();
    server(facts, &mut found);
    foreign::check(facts, &mut found);
    pods::installed(facts, &install, &mut found);
    if is_installed(facts) {
        pods::check(facts, &install, &mut found);
        definitions::check(facts, &install, &mut found);
        labels::check(facts, &mut found);
        unread::check(facts, &mut found);
        rights::check(facts, &install, &mut found);
        policies::check(facts, &install, &mut found);
        if install.reads_definitions() {
            held::check(facts, &install, &mut found);
            held::stray(facts, &mut found);
        }
        if !install.is_namespaced() {
            certificates::check(facts, &install, &mut found);
            hooks::check(facts, &install, &mut found);
        }
    } else {
        // Without an install, missing objects need no report. The hooks that a removed install left behind
        // may still refuse writes.
        hooks::answered(facts, &install, false, &mut found);
    }
    let mut found = found.0;
    found.retain(|finding| !ignored.contains(&finding.id));
    found.sort();
    found.dedup();
    found
}

/// The checks that found nothing.
pub(super) fn in_order(facts: &Facts, found: &[Finding], ignored: &[Id]) -> Vec<Id> {
    let deployments = facts.deployments.as_deref().unwrap_or_default();
    let install = Install::new(&facts.namespace, deployments);
    let is_left_out = |id: &Id| match id {
        Id::CopiesHeld | Id::StrayMarks => !install.reads_definitions(),
        id => install.is_namespaced() && OF_THE_CLUSTER.contains(id),
    };
    let is_looked_at = |id: &Id| {
        let is_here = is_installed(facts) && !is_left_out(id);
        is_here || [Id::ServerTooOld, Id::ForeignFailHook].contains(id)
    };
    let is_fine = |id: &Id| !ignored.contains(id) && found.iter().all(|finding| finding.id != *id);
    Id::value_variants().iter().copied().filter(|id| is_looked_at(id) && is_fine(id)).collect()
}

/// Whether Copyrator is installed. If the caller may not read the Deployments, Copyrator is assumed to be
/// installed.
fn is_installed(facts: &Facts) -> bool {
    !facts.deployments.as_ref().is_ok_and(Vec::is_empty)
}

fn server(facts: &Facts, found: &mut Findings) {
    match &facts.server {
        Err(unread) => found.unknown(&[Id::ServerTooOld], unread),
        Ok(server) if *server < KubeVersion::OLDEST => {
            let what = format!(
                "is {server}, but Copyrator needs {}: this version does not enforce Copyrator's admission policies",
                KubeVersion::OLDEST
            );
            found.error(Id::ServerTooOld, "the API server", what, "kubectl version");
        }
        Ok(_) => {}
    }
}
