//! What several commands take from their command line, read alike.

mod cluster;
mod endpoint;
mod home;
mod labels;
pub(crate) mod manifests;
mod named;
pub(crate) mod output;
mod usage;

pub(crate) use cluster::{ClusterArgs, Scope, connect, seconds};
pub(crate) use endpoint::{endpoint, service};
pub(crate) use home::Home;
pub(crate) use labels::{LabelArgs, Labels};
pub(crate) use named::{Named, Sort};
pub(crate) use output::Output;
pub(crate) use usage::{UsageError, duration, namespaces, non_empty};
