//! What other tools' manifests and annotations ask for, as rules and monitors of ours, with everything that
//! would be different. Pure: what was found comes in as values, and is told as values. One file a tool;
//! `read` and `workload` know their shapes, `pattern` and `targets` how they choose, `assemble` and
//! `monitors` make what the one validator accepts.

mod assemble;
mod clustersecret;
mod config_syncer;
mod finding;
mod monitors;
mod names;
mod pattern;
mod print;
mod read;
mod reflector;
mod reloader;
mod replicator;
mod seed;
mod seed_monitor;
mod targets;
mod wave;
mod workload;

pub use assemble::{Imported, Made, Proposal};
pub use finding::{Finding, Level, Origin, Tool};
pub use pattern::{Anchoring, globs};
pub use print::{json, yaml};
pub use read::{Annotated, ClusterSecret, Found, SeedRule, is_of_interest};
pub use workload::{Restarted, SeedMonitor};

/// What the command line says about the import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the source Secret of a ClusterSecret with data of its own will be; `None`: nobody has said.
    pub source_namespace: Option<String>,
}

/// Everything that was found, as rules and monitors, with everything that would be different.
pub fn import(found: &Found, options: &Options) -> Imported {
    let mut drafts = Vec::new();
    drafts.extend(found.objects.iter().filter_map(|object| reflector::draft(found, object)));
    drafts.extend(found.objects.iter().filter_map(|object| replicator::draft(found, object)));
    drafts.extend(found.objects.iter().filter_map(config_syncer::draft));
    drafts.extend(found.cluster_secrets.iter().map(|secret| clustersecret::draft(secret, options)));
    drafts.extend(found.seed_rules.iter().map(seed::draft));
    let mut monitors = Vec::new();
    monitors.extend(found.workloads.iter().filter_map(|workload| reloader::draft(found, workload)));
    monitors.extend(found.workloads.iter().filter_map(wave::draft));
    monitors.extend(found.seed_monitors.iter().map(seed_monitor::draft));
    monitors.extend(found.objects.iter().filter_map(reloader::ignored));
    assemble::assemble(drafts, monitors, found.others.clone())
}
