//! Import of other tools' annotations and manifests as rules, templates and monitors, with every difference
//! in behaviour. Pure: values in, values out. Each tool has one file. `read` and `workload` parse the input.
//! `targets` translates the tools' selection of objects, `jmespath` and `go_template` translate expressions,
//! and `kinds` lists Kubernetes' own kinds. `assemble`, `templates` and `monitors` make objects that the
//! validator accepts.

#![warn(unreachable_pub)]

mod assemble;
mod chart;
mod clustersecret;
mod config_syncer;
mod convert;
mod elsewhere;
mod expressions;
mod finding;
mod go_template;
mod imported;
mod jmespath;
mod kinds;
mod kyverno;
mod monitors;
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
mod unique_names;
mod wave;
mod workload;

use copyrator_core::{api, intake, marks, model, names, validate};

pub use convert::import;
pub use finding::{Finding, Level, Origin, Tool, is_of_interest};
pub use imported::{Imported, Made, Proposal};
pub use kyverno::{GenerateRule, PolicyException};
pub use namespace_config::NamespaceConfig;
pub use options::Options;
pub use print::{json, yaml};
pub use read::{AnnotatedObject, ClusterSecret, ImportInput, SeedRule};
pub use workload::{AnnotatedWorkload, SeedMonitor};
