//! Runs every converter over the input, and assembles the results.

use crate::{
    assemble, clustersecret, config_syncer, imported::Imported, kyverno, namespace_config, options::Options,
    read::ImportInput, reflector, reloader, replicator, seed, seed_monitor, wave,
};

/// Converts the input to rules, templates and monitors, with every difference in behaviour.
pub fn import(found: &ImportInput, options: &Options) -> Imported {
    let mut drafts = Vec::new();
    drafts.extend(found.objects.iter().filter_map(|object| reflector::draft(found, object)));
    drafts.extend(found.objects.iter().filter_map(|object| replicator::draft(found, object)));
    drafts.extend(found.objects.iter().filter_map(config_syncer::draft));
    drafts.extend(found.cluster_secrets.iter().map(|secret| clustersecret::draft(secret, options)));
    drafts.extend(found.seed_rules.iter().map(seed::draft));
    let mut templates = Vec::new();
    for rule in &found.generate_rules {
        kyverno::draft(rule, &found.policy_exceptions, options, &mut drafts, &mut templates);
    }
    templates.extend(found.namespace_configs.iter().map(|config| namespace_config::draft(config, options)));
    let mut monitors = Vec::new();
    monitors.extend(found.workloads.iter().filter_map(|workload| reloader::draft(found, workload)));
    monitors.extend(found.workloads.iter().filter_map(wave::draft));
    monitors.extend(found.seed_monitors.iter().map(seed_monitor::draft));
    monitors.extend(found.objects.iter().filter_map(reloader::ignored));
    assemble::assemble(drafts, templates, monitors, found.others.clone())
}
