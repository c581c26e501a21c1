//! Copyrator keeps configuration right across a Kubernetes cluster: declared ConfigMaps and Secrets appear in
//! every namespace that should have them, bad ones are refused while they are written, and what uses a
//! changed one restarts.
//!
//! `ARCHITECTURE.md` is the map: what each module is, which others it may import, and what it must not do.

pub mod act;
pub mod admit;
pub mod api;
pub mod authority;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod crds;
pub mod digest;
pub mod explain;
pub mod hooks;
pub mod import;
pub mod marks;
pub mod model;
pub mod names;
pub mod observe;
pub mod plan;
pub mod reconcile;
pub mod run;
pub mod serve;
pub mod validate;
