//! Reads a cluster for the operator and the commands: clients, questions about rights, lists, content, dry
//! runs, and rendered templates. This crate writes nothing.
//!
//! `ARCHITECTURE.md` is the map: what each module is, which others it may import, and what it must not do.

#![warn(unreachable_pub)]

pub mod access;
pub mod config;
pub mod connect;
pub mod dry_run;
pub mod read;
pub mod render;

use copyrator_core::{
    admit, api, authority, decoded, digest, hooks, intake, marks, model, names, paths, plan, validate,
};
