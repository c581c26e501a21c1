//! Flags and arguments that several commands share.

mod cluster;
mod copy_kinds;
mod endpoint;
mod install_namespace;
mod labels;
pub(crate) mod manifests;
mod named;
pub(crate) mod output;
mod template_kinds;
mod usage;

pub(crate) use cluster::{ClusterArgs, Scope, connect, seconds};
pub(crate) use copy_kinds::CopyKinds;
pub(crate) use endpoint::{endpoint, service};
pub(crate) use install_namespace::InstallNamespace;
pub(crate) use labels::{LabelArgs, Labels};
pub(crate) use named::{Named, Sort};
pub(crate) use output::Output;
pub(crate) use template_kinds::TemplateKinds;
pub(crate) use usage::{UsageError, duration, namespaces, non_empty, trusted_writers};
