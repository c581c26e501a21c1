//! Import of other tools' annotations and manifests as rules, templates and monitors, with every difference
//! in behaviour. Pure: values in, values out. Each tool has one file. `read` and `workload` parse the input.
//! `targets` translates the tools' selection of objects, `jmespath` and `go_template` translate expressions,
//! and `kinds` lists Kubernetes' own kinds. `assemble`, `templates` and `monitors` make objects that the
//! validator accepts.

mod assemble;
mod chart;
mod clustersecret;
mod config_syncer;
mod elsewhere;
mod expressions;
mod finding;
mod go_template;
mod imported;
mod jmespath;
mod kinds;
mod kyverno;
mod monitors;
mod names;
mod namespace_config;
mod options;
mod print;
mod read;
mod reflector;
mod reloader;
mod replicator;
mod seed;
mod seed_monitor;
mod steps;
mod targets;
mod templates;
mod texts;
mod wave;
mod workload;

pub use finding::{Finding, Level, Origin, Tool, is_of_interest};
pub use imported::{Imported, Made, Proposal};
pub use kyverno::{GenerateRule, PolicyException};
pub use namespace_config::NamespaceConfig;
pub use options::Options;
pub use print::{json, yaml};
pub use read::{AnnotatedObject, ClusterSecret, ImportInput, SeedRule};
pub use workload::{AnnotatedWorkload, SeedMonitor};

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
