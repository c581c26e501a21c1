//! What other tools' manifests and annotations ask for, as rules of ours, with everything that would be different.
//! Pure: what was found comes in as values, and is told as values. One file a tool; `read` knows their shapes,
//! `pattern` and `targets` how they choose namespaces, `assemble` makes rules that the one validator accepts.

mod assemble;
mod clustersecret;
mod config_syncer;
mod finding;
mod pattern;
mod print;
mod read;
mod reflector;
mod replicator;
mod seed;
mod targets;

pub use assemble::{Imported, Proposal};
pub use finding::{Finding, Level, Origin, Tool};
pub use pattern::{Anchoring, globs};
pub use print::{json, yaml};
pub use read::{Annotated, ClusterSecret, Found, SeedRule, is_of_interest};

/// What the command line says about the import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the source Secret of a ClusterSecret with data of its own will be; `None`: nobody has said.
    pub source_namespace: Option<String>,
}

/// Everything that was found, as rules, with everything that would be different.
pub fn import(found: &Found, options: &Options) -> Imported {
    let mut drafts = Vec::new();
    drafts.extend(found.objects.iter().filter_map(|object| reflector::draft(found, object)));
    drafts.extend(found.objects.iter().filter_map(|object| replicator::draft(found, object)));
    drafts.extend(found.objects.iter().filter_map(config_syncer::draft));
    drafts.extend(found.cluster_secrets.iter().map(|secret| clustersecret::draft(secret, options)));
    drafts.extend(found.seed_rules.iter().map(seed::draft));
    assemble::assemble(drafts, found.others.clone())
}
