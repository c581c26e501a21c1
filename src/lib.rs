//! The program `copyrator`: one command line over the operator, the commands and the console.
//!
//! Copyrator keeps configuration right across a Kubernetes cluster. Declared ConfigMaps and Secrets appear in
//! every namespace that should have them, the API server refuses bad ones at the write, and workloads that
//! use a changed one restart.
//!
//! `ARCHITECTURE.md` lists the crates and their modules: what each is, which others it may import, and what it
//! must not do.

#![warn(unreachable_pub)]

mod called;
mod command;
mod completion;
mod logging;
mod man;
mod serve;

pub use called::called;
pub use copyrator_core::{
    admit, api, authority, crds, decoded, digest, explain, hooks, intake, marks, model, names, paths, plan,
    validate,
};
pub use copyrator_import as import;

/// The parts that tests, benchmarks and fuzz targets need beside the modules above; this crate exports
/// nothing else.
#[doc(hidden)]
pub mod testing {
    pub use crate::command::Cli;
    pub use copyrator_cluster::{
        access::{
            AskError, Authorizer,
            authority::{Decided, about_rule},
        },
        connect::{Target, WriteClient, clients, metadata_as_json},
        dry_run::outcome::Outcome,
        read::content::Contents,
    };
    pub use copyrator_operator::testing::{
        AdmitState, Intake, Listed, Metrics, Observer, Requests, Shedding, router,
    };
    pub use copyrator_serve::{ConnectionMetrics, Drain, Drained, Limits, ServingCert, serve_plain};
}
