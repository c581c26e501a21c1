//! The commands that people type, without the operator. A command reads the cluster with the caller's rights,
//! plans with [`copyrator_core`], and prints.
//!
//! `ARCHITECTURE.md` is the map: what each module is, which others it may import, and what it must not do.

#![warn(unreachable_pub)]

pub mod arguments;
pub mod commands;
pub mod files;
pub mod installed;
pub mod states;
pub mod survey;
pub mod terminal;
#[cfg(test)]
mod tests;

use copyrator_cluster::{access, config, connect, dry_run, read, render};
use copyrator_core::{
    admit, api, authority, crds, decoded, digest, explain, hooks, intake, marks, model, names, plan, validate,
};
