//! The operator: webhook and reconciler. This crate watches the cluster, serves admission reviews, and writes.
//! [`copyrator_core`] decides, and [`copyrator_cluster`] reads.
//!
//! `ARCHITECTURE.md` is the map: what each module is, which others it may import, and what it must not do.

#![warn(unreachable_pub)]

mod act;
mod observe;
mod reconcile;
mod run;
mod webhook;

use copyrator_cluster::{access, config, connect, dry_run, read, render};
use copyrator_core::{
    admit, api, authority, crds, decoded, digest, explain, hooks, intake, marks, model, names, paths, plan,
    validate,
};
use copyrator_serve as serve;

pub use run::{OperatorError, serve as operate};

/// The parts that tests and benchmarks need beside the functions above.
#[doc(hidden)]
pub mod testing {
    pub use crate::{
        observe::{
            observer::{Listed, Observer, Requests},
            watch::Intake,
        },
        webhook::{AdmitState, Metrics, Shedding, router},
    };
}
