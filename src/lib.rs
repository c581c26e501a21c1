//! Copyrator keeps configuration right across a Kubernetes cluster. Declared ConfigMaps and Secrets appear in
//! every namespace that should have them, the API server refuses bad ones at the write, and workloads that
//! use a changed one restart.
//!
//! `ARCHITECTURE.md` lists the modules: what each is, which others it may import, and what it must not do.
//! This crate is the operator and the commands: all code that asks, watches, writes or serves. The decisions,
//! and the kinds that they need, are in [`copyrator_core`], whose modules are modules of this crate too.

#![warn(unreachable_pub)]

mod access;
mod act;
mod cli;
mod cluster;
mod config;
mod observe;
mod reconcile;
mod run;
mod serve;
mod webhook;

pub use cli::called;
pub use copyrator_core::{
    admit, api, authority, crds, decoded, digest, explain, hooks, import, intake, marks, model, names, paths,
    plan, validate,
};

/// The parts that tests, benchmarks and fuzz targets need beside the modules above; this crate exports
/// nothing else.
#[doc(hidden)]
pub mod testing {
    pub use crate::{
        access::{AskError, Authorizer},
        act::outcome::Outcome,
        cli::Cli,
        cluster::{Target, WriteClient, clients, metadata_as_json},
        observe::{
            content::Contents,
            observer::{Listed, Observer, Requests},
            watch::Intake,
        },
        reconcile::{Decided, about_rule},
        serve::{ConnectionMetrics, Drain, Drained, Limits, ServingCert, serve_plain},
        webhook::{AdmitState, Metrics, Shedding, router},
    };
}
