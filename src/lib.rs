//! Copyrator keeps configuration right across a Kubernetes cluster: declared ConfigMaps and Secrets appear in
//! every namespace that should have them, bad ones are refused while they are written, and what uses a
//! changed one restarts.
//!
//! `ARCHITECTURE.md` is the map: what each module is, which others it may import, and what it must not do. This
//! crate is the operator and the commands: whatever asks, watches, writes or serves. What is decided, and the
//! kinds it is decided by, is [`copyrator_core`], whose modules are modules of this crate too.

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

/// What tests, benchmarks and fuzz targets use beside the modules above; nothing else leaves this crate.
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
