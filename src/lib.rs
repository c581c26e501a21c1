//! Copyrator keeps configuration right across a Kubernetes cluster: declared ConfigMaps and Secrets appear in
//! every namespace that should have them, bad ones are refused while they are written, and what uses a
//! changed one restarts.
//!
//! `ARCHITECTURE.md` is the map: what each module is, which others it may import, and what it must not do. This
//! crate is the operator and the commands: whatever asks, watches, writes or serves. What is decided, and the
//! kinds it is decided by, is [`copyrator_core`], whose modules are modules of this crate too.

pub mod access;
pub mod act;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod observe;
pub mod reconcile;
pub mod run;
pub mod serve;
pub mod webhook;

pub use copyrator_core::{
    admit, api, authority, crds, digest, explain, hooks, import, intake, marks, model, names, plan, validate,
};
