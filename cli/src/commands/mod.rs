//! The commands: one file or folder for each.

pub mod check;
mod command;
pub mod crds;
pub mod doctor;
pub mod get;
pub mod hooks;
pub mod import;
pub mod plan;
pub mod status;
pub mod tree;
pub mod why;
pub mod why_not;
